"""Sampled insights from points to results: how much is read, and how often the bounds hold."""

import itertools
import math
from collections.abc import Iterator
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics_enabler.optimizer import optimize
from analytics_enabler.semantics import check
from analytics_worker.accumulating.ledger import Ledger
from analytics_worker.composition import compose
from analytics_worker.spark.earlier import LONG_ENOUGH_MS, found_in
from mistbow.panes.routing import route
from mistbow.panes.thinning import Chances
from mistbow.plan.nodes import Pane, Plan
from mistbow.streams.schemas import HORIZON, POINTS
from tests.support.points import Row, points
from tests.support.windows import windows_of_routed

WIDTH_MS = 5000
RUNS = 200
SENSORS = 100
EACH = 10
CONFIDENCE = 0.95
ENOUGH = CONFIDENCE - 3 * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / RUNS)
BEFORE = LONG_ENOUGH_MS // WIDTH_MS + 1
"""So many panes go by until it is known what points are like."""


def plan_of(query: str) -> Plan:
    checked = check(f"q = COMPUTE {query}")
    assert checked.ok, checked.problems
    return optimize(Plan(insights=tuple(one.deployed("q", 0) for one in checked.definitions))).plan


@cache
def stream() -> pa.Table:
    """Return the panes of a hundred sensors, whose levels go from 5 to 60."""
    random = np.random.default_rng(7)
    number, panes = SENSORS * EACH, BEFORE + RUNS
    levels = np.tile(np.repeat(np.linspace(5, 60, SENSORS), EACH), panes)
    values = random.normal(levels, 0.3 * levels)
    offsets = np.tile(np.arange(1, EACH + 1) * (WIDTH_MS // EACH), SENSORS)
    ts = (np.arange(panes)[:, None] * WIDTH_MS + offsets).ravel()
    names = [f"sensor{place:03}" for place in range(SENSORS)]
    places = pa.array(np.tile(np.repeat(np.arange(SENSORS), EACH), panes).astype(np.int32))
    attributes = pa.DictionaryArray.from_arrays(places, [f'{{"entityID":"{n}"}}' for n in names])
    metric = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(ts), np.int32)), ["x"])
    columns = [metric, pa.DictionaryArray.from_arrays(places, names), attributes, ts, values]
    assert len(ts) == number * panes
    horizon = pa.array(np.full(len(ts), -1))
    return pa.table([*columns, horizon], schema=POINTS.append(HORIZON)).sort_by("ts")


def routed(rows: pa.Table, plan: Plan) -> pa.Table:
    """Route a stream a pane at a time, as it would come."""

    ts = rows["ts"].to_numpy()

    def read(_metric: str, after: int, to: int) -> pa.Table:
        first, last = np.searchsorted(ts, [after, to], side="right")
        return rows.slice(first, last - first).combine_chunks()

    @cache
    def earlier(pane: Pane, period: int) -> Chances:
        return found_in(read, pane, period)

    def parts() -> Iterator[pa.Table]:
        step = SENSORS * EACH
        for start in range(0, rows.num_rows, step):
            for batch in rows.slice(start, step).combine_chunks().to_batches():
                yield route(batch, plan.panes, earlier)

    return pa.concat_tables(parts())


@pytest.mark.parametrize(
    ("sampling", "most"),
    [
        ("SAMPLE 0.2", 0.2),
        ("SAMPLE 3", 0.3),
        ("MAX_ERROR 0.05 AND CONFIDENCE 0.95", 0.5),
    ],
)
def test_the_bounds_hold_and_no_more_is_read(sampling: str, most: float) -> None:
    plan = plan_of(f"SUM(x) EVERY 5 s WITH {sampling}")
    rows = stream()
    read = routed(rows, plan)
    read = read.filter(pc.greater(read["ts"], BEFORE * WIDTH_MS))
    results = compose(windows_of_routed(read, plan), plan, Ledger()).to_pylist()
    panes = np.ceil(rows["ts"].to_numpy() / WIDTH_MS).astype(np.int64)
    true = np.bincount(panes, weights=rows["value"].to_numpy())

    assert len(results) == RUNS
    assert {row["confidence"] for row in results} == {CONFIDENCE}
    within = [row["low"] <= true[row["ts"] // WIDTH_MS] <= row["high"] for row in results]
    assert sum(within) / RUNS >= ENOUGH
    if "MAX_ERROR" in sampling:
        near = [abs(row["value"] / true[row["ts"] // WIDTH_MS] - 1) <= 0.05 for row in results]
        assert sum(near) / RUNS >= ENOUGH
    kept = len(read) - read["value"].null_count
    assert kept / (RUNS * SENSORS * EACH) <= most


_rows = st.lists(
    st.builds(
        Row,
        metric=st.just("x"),
        entity=st.sampled_from("abc"),
        ts=st.integers(1, 20_000),
        value=st.integers(-9, 9).map(float),
        horizon=st.sampled_from([-1, 4000, 12_000]),
        attributes=st.sampled_from([{"rack": 1.0}, {"rack": 2.0}]),
    ),
    min_size=1,
    max_size=60,
)
QUERIES = {
    "SAMPLE 0.4": ("SUM", "AVG", "MAX", "MEDIAN"),
    "SAMPLE 2": ("SUM", "AVG", "MAX", "MIN"),
    "MAX_ERROR 0.1 AND CONFIDENCE 0.9": ("SUM", "AVG"),
}


@settings(deadline=None, max_examples=40)
@given(_rows, st.lists(st.integers(1, 59)), st.sampled_from(sorted(QUERIES)), st.booleans())
def test_it_does_not_matter_what_comes_together_or_what_else_runs(
    rows: list[Row], cuts: list[int], sampling: str, alone: bool
) -> None:
    query = f"EVERY 2 s WITH {sampling}"
    expression = " + ".join(f"{name}(x, 4 s)" for name in QUERIES[sampling])
    text = f"q = COMPUTE {expression} BY rack {query}; n = COMPUTE COUNT(x, 4 s) BY rack {query}"
    other = f"; p = COMPUTE AVG(x, 3 s) BY rack EVERY 1 s WITH {sampling}"

    def results(text: str, bounds: list[int]) -> list[dict[str, object]]:
        definitions = check(text).definitions
        plan = optimize(Plan(insights=tuple(one.deployed(one.name, 0) for one in definitions))).plan
        parts = [route(points(rows[a:b]), plan.panes) for a, b in itertools.pairwise(bounds)]
        found = compose(windows_of_routed(pa.concat_tables(parts), plan), plan, Ledger())
        kept = [row for row in found.to_pylist() if row["insight"] != "p"]
        return sorted(kept, key=lambda row: (row["insight"], row["key"], row["ts"]))

    whole = results(text, [0, len(rows)])
    cut = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    again = results(text if alone else text + other, cut)
    assert again == [
        {**row, "value": pytest.approx(row["value"])} if row["insight"] == "q" else row
        for row in whole
    ]
    counts = {(row["key"], row["ts"]): row["value"] for row in whole if row["insight"] == "n"}
    plain = results("n = COMPUTE COUNT(x, 4 s) BY rack EVERY 2 s", [0, len(rows)])
    assert counts == {(row["key"], row["ts"]): row["value"] for row in plain}
