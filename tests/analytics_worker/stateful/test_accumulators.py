"""Accumulators tick by tick, compared with the same accumulators over all points at once."""

import itertools
import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.plan.expressions import Measure, Source
from analytics.plan.functions import ACCUMULATED
from analytics.plan.nodes import Counted, Insight, Pane, Plan, Window
from analytics_worker.evaluate.composition import compose
from analytics_worker.evaluate.finalize import WINDOWED
from analytics_worker.operators.accumulators import START
from analytics_worker.stateful.state_table import StateEntry, StateTable
from tests.support.points import Row, points
from tests.support.windows import windows_of

EVERY_MS = 1000
START_MS = 700
WEIGHTED = {"EWMA": (0.3,), "PEWMA": (0.4,)}

Point = tuple[int, str, float]


def plan_of(*, each_point: bool, since: int = START_MS) -> Plan:
    pane = Pane(id="p", source=Source("cpu"), by=("node",), width_ms=EVERY_MS, contents=("points",))
    window = Window(
        id="w",
        pane="p",
        size_ms=EVERY_MS,
        every_ms=EVERY_MS,
        contents=("points",),
        each_point=each_point,
        start=START_MS,
    )
    insights = tuple(
        Insight(
            uid=function,
            expression=Measure(function, "w", WEIGHTED.get(function, ())),
            by=("node",),
            every_ms=EVERY_MS,
            since=since,
            each_point=each_point,
        )
        for function in sorted(ACCUMULATED)
    )
    return Plan(insights=insights, windows=(window,), panes=(pane,))


def right(given: list[Point], *, each_point: bool) -> dict[tuple[str, str, int], float]:
    """Return the expected values, computed from all points at once: (insight, key, time) -> value.

    ``each_point``: whether the times are those of the points instead of ticks.
    """
    expected = {}
    for function in sorted(ACCUMULATED):
        for node in {node for _, node, _ in given}:
            mine = sorted((ts, v) for ts, n, v in given if n == node and ts > START_MS)
            values = pa.array([value for _, value in mine], pa.float64()).to_numpy()
            _, outputs = START[function](*WEIGHTED.get(function, ())).advance(values)
            for (ts, _), value in zip(mine, outputs.tolist(), strict=True):
                time = ts if each_point else -(-ts // EVERY_MS) * EVERY_MS
                expected[function, f'{{"node":"{node}"}}', time] = value
    return {identity: value for identity, value in expected.items() if math.isfinite(value)}


def windows(given: list[Point], plan: Plan) -> pa.Table:
    rows = [Row(ts=ts, value=value, attributes={"node": node}) for ts, node, value in given]
    return windows_of(points(rows), plan) if rows else WINDOWED.empty_table()


_points = st.lists(
    st.tuples(st.integers(1, 9000), st.sampled_from("ab"), st.floats(-100, 100)), max_size=40
)


@settings(deadline=None, max_examples=50)
@given(_points, st.booleans(), st.sets(st.integers(1, 8)), st.integers(0, 9))
def test_any_split_into_batches_yields_the_same_outputs(
    given: list[Point], each_point: bool, cuts: set[int], failed: int
) -> None:
    plan = plan_of(each_point=each_point)
    states = StateTable()
    found: dict[tuple[str, str, int], float] = {}
    bounds = [0, *sorted(cut * EVERY_MS for cut in cuts), 10_000]
    all_windows = windows(given, plan).to_pylist()
    for number, (begin, end) in enumerate(itertools.pairwise(bounds)):
        batch = [row for row in all_windows if begin < row["tick"] <= end]
        states.floor = begin + 1
        # A batch that failed after its states were stored comes again.
        for _ in range(2 if number == failed else 1):
            rows = compose(pa.Table.from_pylist(batch, WINDOWED), plan, states).to_pylist()
            found |= {(row["insight"], row["key"], row["ts"]): row["value"] for row in rows}
    expected = right(given, each_point=each_point)
    assert found.keys() == expected.keys()
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_points_are_counted_across_batches_also_of_an_idle_metric() -> None:
    names = ("cpu", "mem")
    panes = tuple(
        Pane(id=name, source=Source(name), by=(), width_ms=EVERY_MS, contents=("points",))
        for name in names
    )
    windows = tuple(
        Window(
            id=name,
            pane=name,
            size_ms=EVERY_MS,
            every_ms=EVERY_MS,
            contents=("points",),
            each_point=True,
            start=0,
        )
        for name in names
    )
    insight = Insight(
        uid="i",
        expression=Measure("RUNNING_COUNT", "cpu"),
        by=(),
        every_ms=EVERY_MS,
        since=0,
        each_point=True,
        counted=Counted(4, tuple(Measure("RUNNING_COUNT", name) for name in names)),
    )
    plan = Plan(insights=(insight,), windows=windows, panes=panes)
    # Two at once pass the fourth; the eighth is one of the other metric, which has no value there.
    given = [("cpu", 100), ("mem", 200), ("mem", 300), ("cpu", 1400), ("cpu", 1400), ("cpu", 2500),
             ("cpu", 2600), ("mem", 3700), *[("cpu", 4000 + ts) for ts in range(1, 5)]]  # fmt: skip
    states = StateTable()
    found = []
    for tick in range(EVERY_MS, 6 * EVERY_MS, EVERY_MS):
        rows = [Row(metric=metric, ts=ts) for metric, ts in given if tick - EVERY_MS < ts <= tick]
        composed = compose(windows_of(points(rows), plan), plan, states).to_pylist()
        found += [(row["ts"], row["value"]) for row in composed]
    assert found == [(1400, 3.0), (4004, 9.0)]


def test_highest_revision_of_a_tick_counts_and_the_first_of_equal_ones() -> None:
    table = StateTable()
    for tick, revision, state in ((2, 0, "b"), (1, 0, "a"), (2, 1, "c"), (2, 1, "d"), (2, 0, "e")):
        table.add("x", "k", StateEntry(tick, revision, state))
    assert table.entry_before("x", "k", 1) is None
    assert [table.entry_before("x", "k", tick) for tick in (2, 3)] == [
        StateEntry(1, 0, "a"),
        StateEntry(2, 1, "c"),
    ]
    assert table.newest == 2
