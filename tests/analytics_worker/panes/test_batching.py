"""Batching of points: batched points have the same aggregates as the original points."""

import math

import pyarrow as pa

from analytics.plan.expressions import Source
from analytics.plan.nodes import Pane
from analytics_worker.panes.batching import BATCHED, batch_points
from analytics_worker.panes.routing import ROUTED

PANES = (
    Pane(id="plain", source=Source("a"), by=(), width_ms=1000),
    Pane(id="points", source=Source("a"), by=(), width_ms=1000, contents=("points",)),
    Pane(id="wide", source=Source("a"), by=(), width_ms=5000),
)


def rows(*points: tuple[int, str, int, int, float | None]) -> pa.Table:
    names = ("route", "key", "ts", "due", "value")
    return pa.Table.from_pylist([dict(zip(names, each, strict=True)) for each in points], ROUTED)


def test_points_of_a_pane_become_one_row_that_closes_when_they_do() -> None:
    found = batch_points(
        rows(
            (0, "x", 1, 1, 3.0),
            (0, "x", 1000, 1000, 5.0),
            (0, "y", 1000, 1000, 1.0),
            (0, "x", 999, 1001, 2.0),
            (2, "x", 1001, 1001, 7.0),
        ),
        PANES,
    )
    assert found.schema == BATCHED
    names = ("route", "key", "ts", "due", "sum", "count", "min", "max")
    assert sorted(tuple(row[name] for name in names) for row in found.to_pylist()) == [
        (0, "x", 1000, 1000, 8.0, 2, 3.0, 5.0),
        (0, "x", 1000, 2000, 2.0, 1, 2.0, 2.0),
        (0, "y", 1000, 1000, 1.0, 1, 1.0, 1.0),
        (2, "x", 5000, 5000, 7.0, 1, 7.0, 7.0),
    ]


def test_points_that_are_carried_stay_as_they_are() -> None:
    routed = rows((1, "x", 1, 1, 3.0), (1, "x", 2, 2, None))
    found = batch_points(routed, PANES)
    assert found.select(ROUTED.names) == routed
    assert found["sum"].to_pylist() == [3.0, 0.0]
    assert found["count"].to_pylist() == [1, 0]
    assert found["min"].to_pylist() == [3.0, math.inf]
    assert found["max"].to_pylist() == [3.0, -math.inf]


def test_no_points_yield_no_batches() -> None:
    assert batch_points(ROUTED.empty_table(), PANES) == BATCHED.empty_table()
