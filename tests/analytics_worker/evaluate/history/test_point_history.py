"""Values at points, merged micro-batch by micro-batch, compared with a simple loop."""

import itertools
import math
import sqlite3
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.plan.expressions import Arithmetic, Measure, Source
from analytics.plan.functions import Function, Parameters
from analytics.plan.nodes import Insight, Pane, Plan, Window
from analytics_worker.evaluate.computation import Computation
from analytics_worker.evaluate.history.aggregates import Aggregates, RangeMerger
from analytics_worker.evaluate.windows.windows import ROUTED_PANES

STEP_MS = 200
END_MS = 400_000
FUNCTIONS: tuple[Function, ...] = (
    "SUM", "COUNT", "MIN", "MAX", "AVG", "LATEST", "VARIANCE", "GEOMETRIC_MEAN", "MEDIAN",
    "PERCENTILE", "TOP_K",
)  # fmt: skip
PARAMETERS: dict[Function, Parameters] = {"PERCENTILE": (85.0,), "TOP_K": (3.0,)}
WINDOWS = ((1000, 0), (3000, 400), (40_000, 0), (300_000, 2000))


@dataclass(frozen=True)
class Arrival:
    """A point that arrives when the frontier is less than ``due`` (ms), a multiple of the step."""

    key: str
    ts: int
    value: float
    due: int

    @property
    def row(self) -> dict[str, Any]:
        """The pane of the point, as a row of ``ROUTED_PANES``."""
        numbers = {"sum": self.value, "count": 1, "min": self.value, "max": self.value}
        points = [{"ts": self.ts, "value": self.value, "entity": "e"}]
        pane = {"route": 0, "key": self.key, "pane": _up(self.ts), "due": self.due}
        return {**pane, **numbers, "points": points}


def _up(time: int) -> int:
    return -(-time // STEP_MS) * STEP_MS


def arrival(key: str, ts: int, value: int, late: int) -> Arrival:
    return Arrival(key, ts, float(value), _up(ts + late))


_arrivals = st.lists(
    st.builds(
        arrival,
        st.sampled_from("ab"),
        st.integers(1, END_MS - 30_000),
        st.integers(-9, 99),
        st.sampled_from([0, 0, 0, 500, 25_000]),
    ),
    max_size=40,
)
_bursts = st.lists(
    st.builds(
        arrival,
        st.sampled_from("ab"),
        st.integers(350_000, 352_000),
        st.integers(1, 99),
        st.sampled_from([0, 0, 300, 900]),
    ),
    max_size=40,
)


def plan_of(size_ms: int, offset_ms: int, functions: Sequence[Function] = FUNCTIONS) -> Plan:
    """Return a plan with mergeable and ordered functions, at the points without an offset."""
    pane = Pane(id="p", source=Source("x"), by=("k",), width_ms=STEP_MS, contents=("points",))
    windows = tuple(
        Window(
            id=id, pane="p", size_ms=size, every_ms=STEP_MS, offset_ms=offset,
            contents=("points",), each_point=True,
        )
        for id, size, offset in (("own", size_ms, offset_ms), ("times", STEP_MS, 0))
    )  # fmt: skip
    times = Measure("COUNT", "times")
    insights = tuple(
        Insight(
            uid=name,
            expression=Arithmetic("-", Arithmetic("+", _measure(name), times), times),
            by=("k",),
            every_ms=STEP_MS,
            since=0,
            each_point=True,
        )
        for name in functions
    )
    return Plan(insights=insights, windows=windows, panes=(pane,))


def _measure(function: Function) -> Measure:
    return Measure(function, "own", PARAMETERS.get(function, ()))


def right(
    arrivals: Sequence[Arrival], size_ms: int, offset_ms: int
) -> dict[tuple[str, str, int], float]:
    """Return the expected results: (function, key, time) -> value."""
    expected: dict[tuple[str, str, int], float] = {}
    for key, time in {(one.key, one.ts) for one in arrivals if one.due == _up(one.ts)}:
        end = time - offset_ms
        inside = sorted(
            (one.ts, one.value)
            for one in arrivals
            if one.key == key and end - size_ms < one.ts <= end and one.due <= _up(time)
        )
        values = [value for _, value in inside]
        if values:
            expected |= {(name, key, time): _value(name, values) for name in FUNCTIONS}
    return {identity: value for identity, value in expected.items() if math.isfinite(value)}


def _value(function: Function, values: list[float]) -> float:
    mean = math.fsum(values) / len(values)
    match function:
        case "SUM":
            return math.fsum(values)
        case "COUNT":
            return len(values)
        case "MIN":
            return min(values)
        case "MAX":
            return max(values)
        case "AVG":
            return mean
        case "LATEST":
            return values[-1]
        case "VARIANCE":
            return math.fsum((value - mean) ** 2 for value in values) / len(values)
        case "MEDIAN":
            return statistics.median(values)
        case "PERCENTILE":
            return float(np.percentile(values, *PARAMETERS[function]))
        case "TOP_K":
            return sorted(values)[-3:][0]
        case _:
            if min(values) <= 0:
                return math.nan
            return math.exp(math.fsum(map(math.log, values)) / len(values))


def table(arrivals: Sequence[Arrival], until: int) -> pa.Table:
    """Return panes, and the row that closes the windows up to ``until`` (ms)."""
    rows = [one.row for one in arrivals]
    return pa.Table.from_pylist([*rows, {"route": None, "due": until}], ROUTED_PANES)


def results_of(found: pa.Table) -> dict[tuple[str, str, int], float]:
    rows = found.to_pylist()
    results = {(row["insight"], row["key"], row["ts"]): row["value"] for row in rows}
    assert len(results) == len(rows)
    return results


@settings(deadline=None, max_examples=30)
@given(
    _arrivals, _bursts, st.sampled_from(WINDOWS),
    st.sets(st.integers(1, END_MS // STEP_MS - 1), max_size=12), st.integers(0, 12),
)  # fmt: skip
def test_micro_batches_and_their_repetition_yield_the_values_of_all_points(
    sparse: list[Arrival],
    dense: list[Arrival],
    window: tuple[int, int],
    cuts: set[int],
    repeated: int,
) -> None:
    arrivals = [*sparse, *dense]
    plan = plan_of(*window)
    bounds = [0, *sorted(STEP_MS * cut for cut in cuts), END_MS]
    found: dict[tuple[str, str, int], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        computation = Computation(plan=plan, after={"own": 0, "times": 0}, pane_folder=Path(folder))
        for batch, (closed, until) in enumerate(itertools.pairwise(bounds)):
            given = table([one for one in arrivals if closed < one.due <= until], until)
            results = computation.next_results(given, batch)
            if batch == repeated:
                again = computation.next_results(given, batch)
                assert results_of(again) == results_of(results)
            found |= results_of(results)
    assert found == pytest.approx(right(arrivals, *window), rel=1e-9, abs=1e-9)


@settings(deadline=None, max_examples=50)
@given(_arrivals, _bursts, st.sampled_from(WINDOWS))
def test_batch_yields_the_values_of_all_points(
    sparse: list[Arrival], dense: list[Arrival], window: tuple[int, int]
) -> None:
    arrivals = [*sparse, *dense]
    computation = Computation(plan=plan_of(*window), after={"own": 0, "times": 0})
    panes = pa.Table.from_pylist([one.row for one in arrivals], ROUTED_PANES)
    found = results_of(computation.all_results(panes))
    assert found == pytest.approx(right(arrivals, *window), rel=1e-9, abs=1e-9)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=70), st.data())
def test_range_merger_merges_any_range(values: list[float], data: st.DataObject) -> None:
    ends = st.integers(0, len(values))
    ranges = data.draw(st.lists(st.tuples(ends, ends), min_size=1, max_size=10))
    column = pa.array(values, pa.float64()).to_numpy()
    times = pa.array(range(len(values)), pa.int64()).to_numpy()
    first, after = (pa.array(each, pa.int64()).to_numpy() for each in zip(*ranges, strict=True))
    found = RangeMerger(Aggregates.of_points(times, column)).merge(first, after)
    for number, (begin, end) in enumerate(ranges):
        inside = values[begin:end]
        assert found.count[number] == len(inside)
        if inside:
            assert found.sum[number] == pytest.approx(math.fsum(inside), rel=1e-9, abs=1e-6)
            assert (found.min[number], found.max[number]) == (min(inside), max(inside))
            assert found.value[number] == inside[-1]


def test_micro_batch_does_not_replace_a_later_one(tmp_path: Path) -> None:
    computation = Computation(
        plan=plan_of(1000, 0), after={"own": 0, "times": 0}, pane_folder=tmp_path
    )
    for batch in range(2):
        computation.next_results(table([], 1000 * (batch + 1)), batch)
    with pytest.raises(RuntimeError, match="already stored"):
        computation.next_results(table([], 1000), 0)


def test_sorted_runs_are_deleted_with_their_points_and_by_a_repetition(tmp_path: Path) -> None:
    computation = Computation(
        plan=plan_of(40_000, 0, ["MEDIAN"]), after={"own": 0, "times": 0}, pane_folder=tmp_path
    )
    for batch in [*range(100), 99]:
        until = 1000 * (batch + 1)
        given = [arrival("a", until - 500, 1, 0)]
        # A late point adds a run to a chunk that has ended.
        given += [Arrival("a", 75_000, 7, until)] if batch == 99 else []
        computation.next_results(table(given, until), batch)
    with sqlite3.connect(tmp_path / "points.sqlite") as stored:
        runs = stored.execute("select level, ts, batch from runs order by ts, batch").fetchall()
        pages = stored.execute("select level, ts, batch from pages order by ts, batch").fetchall()
    assert runs == pages == [(0, 64_000, 63), (0, 80_000, 79), (0, 80_000, 99), (0, 96_000, 95)]


def test_expired_points_are_deleted_and_a_long_window_reads_few_chunks(tmp_path: Path) -> None:
    computation = Computation(
        plan=plan_of(40_000, 0, ["SUM"]), after={"own": 0, "times": 0}, pane_folder=tmp_path
    )
    for batch in range(100):
        until = 1000 * (batch + 1)
        given = [arrival("a", until - 500, 1, 0)]
        computation.next_results(table(given, until), batch)
    with sqlite3.connect(tmp_path / "points.sqlite") as stored:
        oldest, points = stored.execute(
            "select min(ts), count(*) filter (where level = 0) from chunks"
        ).fetchone()
        chunks = stored.execute("select count(*) from chunks where level = 2").fetchone()[0]
    assert oldest > 99_000 - 41_000
    assert points <= 42
    assert 1 <= chunks <= 3
