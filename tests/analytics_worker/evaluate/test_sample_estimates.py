"""Sampled insights from points to results: the number of sampled points, and the bounds."""

import itertools
import math
from collections.abc import Iterator
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.plan.nodes import Pane, Plan
from analytics_enabler.optimizer import optimize
from analytics_enabler.semantics import check
from analytics_worker.evaluate.composition import compose
from analytics_worker.panes.routing import route
from analytics_worker.sampling.point_sampling import Chances
from analytics_worker.sampling.sampling_keys import Floats
from analytics_worker.spark.previous_periods import SETTLING_MS, compute_chances
from analytics_worker.stateful.state_table import StateTable
from mistbow.streams.schemas import POINTS, ROW_FRONTIER
from tests.support.points import Row, points
from tests.support.windows import windows_of_routed

# The tests compute for seconds.
pytestmark = pytest.mark.integration

WIDTH_MS = 5000
RUNS = 200
SENSORS = 100
EACH = 10
CONFIDENCE = 0.95
ENOUGH = CONFIDENCE - 3 * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / RUNS)
BEFORE = SETTLING_MS // WIDTH_MS + 1
"""The number of panes at the start, before the worker computes sampling chances."""
SLIDING_MS, LASTING_MS = 13_000, 12_000
"""The interval and the length (ms) of windows that do not overlap.

The length is also the sampling period. Eleven of twelve windows contain parts of two periods.
"""
SLIDING_BEFORE = (SETTLING_MS + 3 * LASTING_MS) // SLIDING_MS + 1


def plan_of(query: str) -> Plan:
    checked = check(f"q = COMPUTE {query}")
    assert checked.ok, checked.problems
    return optimize(Plan(insights=tuple(one.deployed("q", 0) for one in checked.definitions))).plan


@cache
def stream() -> pa.Table:
    """Return points of 100 sensors, with random values around each sensor's level (5 to 60)."""
    random = np.random.default_rng(7)
    number, panes = SENSORS * EACH, BEFORE + RUNS
    levels = np.tile(np.repeat(np.linspace(5, 60, SENSORS), EACH), panes)
    offsets = np.tile(np.arange(1, EACH + 1) * (WIDTH_MS // EACH), SENSORS)
    ts = (np.arange(panes)[:, None] * WIDTH_MS + offsets).ravel()
    indices = np.tile(np.repeat(np.arange(SENSORS), EACH), panes)
    assert len(ts) == number * panes
    return rows_of(ts, indices, random.normal(levels, 0.3 * levels))


@cache
def two_levels(even: bool) -> pa.Table:
    """Return points of 75 sensors with values around 10, and of 25 sensors with values around 1000.

    ``even``: each sensor has one point per second; otherwise, the sensor and the time of each point
    are random.
    """
    random = np.random.default_rng(7)
    number = (SLIDING_BEFORE + RUNS) * SLIDING_MS // 1000 * SENSORS
    indices = np.arange(number) % SENSORS
    ts = np.arange(number) * 1000 // SENSORS + 1
    if not even:
        indices = random.integers(0, SENSORS, number)
        ts = random.integers(1, number * 1000 // SENSORS, number)
    levels = np.where(indices < 75, 10.0, 1000.0)
    return rows_of(ts, indices, random.normal(levels, 0.05 * levels))


def rows_of(ts: npt.NDArray[np.int64], indices: npt.NDArray[np.int64], values: Floats) -> pa.Table:
    """Return the points of sensors as a table, sorted by time.

    ``indices``: for each point, the number of its sensor.
    """
    names = [f"sensor{place:03}" for place in range(SENSORS)]
    numbers = pa.array(indices.astype(np.int32))
    attributes = pa.DictionaryArray.from_arrays(numbers, [f'{{"entityID":"{n}"}}' for n in names])
    metric = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(ts), np.int32)), ["x"])
    columns = [metric, pa.DictionaryArray.from_arrays(numbers, names), attributes, ts, values]
    frontier_before = pa.array(np.full(len(ts), -1))
    return pa.table([*columns, frontier_before], schema=POINTS.append(ROW_FRONTIER)).sort_by("ts")


def routed(rows: pa.Table, plan: Plan) -> pa.Table:
    """Route points to the panes of a plan, in batches as in a stream; return the routed points."""

    ts = rows["ts"].to_numpy()

    def read(_metric: str, after: int, to: int) -> pa.Table:
        first, last = np.searchsorted(ts, [after, to], side="right")
        return rows.slice(first, last - first).combine_chunks()

    @cache
    def earlier(pane: Pane, period: int) -> Chances:
        return compute_chances(read, pane, period)

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
def test_bounds_are_met_with_no_more_points(sampling: str, most: float) -> None:
    plan = plan_of(f"SUM(x) EVERY 5 s WITH {sampling}")
    rows = stream()
    read = routed(rows, plan)
    read = read.filter(pc.greater(read["ts"], BEFORE * WIDTH_MS))
    results = compose(windows_of_routed(read, plan), plan, StateTable()).to_pylist()
    panes = np.ceil(rows["ts"].to_numpy() / WIDTH_MS).astype(np.int64)
    true = np.bincount(panes, weights=rows["value"].to_numpy())

    assert len(results) == RUNS
    assert {row["confidence"] for row in results} == {CONFIDENCE}
    within = [row["low"] <= true[row["ts"] // WIDTH_MS] <= row["high"] for row in results]
    assert sum(within) / RUNS >= ENOUGH
    if "MAX_ERROR" in sampling:
        near = [abs(row["value"] / true[row["ts"] // WIDTH_MS] - 1) <= 0.05 for row in results]
        assert sum(near) / RUNS >= ENOUGH
    selected = len(read) - read["value"].null_count
    assert selected / (RUNS * SENSORS * EACH) <= most


@pytest.mark.parametrize(
    ("sampling", "even"),
    [
        ("MAX_ERROR 0.05 AND CONFIDENCE 0.95", True),
        ("MAX_ERROR 0.05 AND CONFIDENCE 0.95", False),
        ("SAMPLE 0.1 AND AWARENESS ON ACCURACY", False),
    ],
)
def test_bounds_are_met_where_windows_slide_over_distant_levels(sampling: str, even: bool) -> None:
    plan = plan_of(f"AVG(x, {LASTING_MS} ms) EVERY {SLIDING_MS} ms WITH {sampling}")
    rows = two_levels(even)
    read = routed(rows, plan)
    found = compose(windows_of_routed(read, plan), plan, StateTable()).to_pylist()
    results = [row for row in found if row["ts"] > SLIDING_BEFORE * SLIDING_MS][:RUNS]
    ts, values = rows["ts"].to_numpy(), rows["value"].to_numpy()
    within, off = [], []
    for row in results:
        first, last = np.searchsorted(ts, [row["ts"] - LASTING_MS, row["ts"]], side="right")
        true = values[first:last].mean()
        within.append(row["low"] <= true <= row["high"])
        off.append(row["value"] / true - 1)

    assert len(results) >= RUNS - 1
    assert np.mean(within) >= ENOUGH
    assert np.mean(np.abs(off) <= 0.05) >= ENOUGH
    assert abs(np.mean(off)) <= 3 * np.std(off) / math.sqrt(len(off))
    assert (len(read) - read["value"].null_count) / len(rows) <= 0.15


def test_strata_are_merged_alike_in_any_order_of_rows() -> None:
    plan = plan_of(
        f"SUM(x, {LASTING_MS} ms) EVERY {SLIDING_MS} ms WITH MAX_ERROR 0.05 AND CONFIDENCE 0.95"
    )
    read = routed(two_levels(False).slice(0, 10 * SLIDING_MS // 1000 * SENSORS), plan)
    turned = read.take(np.random.default_rng(3).permutation(len(read)))
    one, other = (
        {
            row["ts"]: row
            for row in compose(windows_of_routed(each, plan), plan, StateTable()).to_pylist()
        }
        for each in (read, turned)
    )
    assert one.keys() == other.keys()
    for name in ("value", "low", "high"):
        estimates = {ts: row[name] for ts, row in one.items()}
        assert estimates == pytest.approx({ts: row[name] for ts, row in other.items()})


_rows = st.lists(
    st.builds(
        Row,
        metric=st.just("x"),
        entity=st.sampled_from("abc"),
        ts=st.integers(1, 20_000),
        value=st.integers(-9, 9).map(float),
        frontier_before=st.sampled_from([-1, 4000, 12_000]),
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
def test_outputs_are_independent_of_batches_and_other_insights(
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
        found = compose(windows_of_routed(pa.concat_tables(parts), plan), plan, StateTable())
        selected = [row for row in found.to_pylist() if row["insight"] != "p"]
        return sorted(selected, key=lambda row: (row["insight"], row["key"], row["ts"]))

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
