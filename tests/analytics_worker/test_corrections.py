import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from analytics.plan.expressions import Measure, Source
from analytics.plan.nodes import Insight, Pane, Plan, Window
from analytics.plan.resumption import resume
from analytics.plan.ticks import DAY_MS, TimeOfDay
from analytics_worker.evaluate.insight_values import INSIGHT_VALUES
from analytics_worker.evaluate.results import as_results
from analytics_worker.late_data.differences import differences
from analytics_worker.late_data.late_points import touched_ticks
from analytics_worker.late_data.tick_spans import (
    TickSpan,
    cluster_spans,
    split_after,
    split_by_rows,
)
from mistbow.streams.results import current_results
from tests.support.points import Row, points

PLAN = Plan(
    insights=(
        Insight(uid="a", expression=Measure("SUM", "w"), by=(), every_ms=1000, since=0),
        Insight(uid="b", expression=Measure("SUM", "x"), by=(), every_ms=5000, since=12_000),
    ),
    windows=(
        Window(id="w", pane="p", size_ms=3000, every_ms=1000),
        Window(id="x", pane="p", size_ms=10_000, every_ms=5000),
    ),
    panes=(Pane(id="p", source=Source("cpu"), by=(), width_ms=1000),),
)


NIGHT = TimeOfDay((23 * 60 + 59) * 60_000, "GMT")


def late(*rows: Row) -> pa.Table:
    return pa.Table.from_batches([points(rows)])


def test_late_points_touch_closed_ticks_only() -> None:
    spans = touched_ticks(late(Row(ts=4500, frontier_before=6100)), PLAN)
    assert spans == {"a": [TickSpan(5000, 6000)]}  # 7000 was still open; b begins after 12,000


def test_point_touches_the_windows_that_contain_it() -> None:
    spans = touched_ticks(late(Row(ts=4500, frontier_before=60_000)), PLAN)
    assert spans == {"a": [TickSpan(5000, 7000)]}
    spans = touched_ticks(late(Row(ts=9000, frontier_before=60_000)), PLAN)
    assert spans == {"a": [TickSpan(9000, 11_000)], "b": [TickSpan(12_001, 15_000)]}


def test_late_points_touch_the_ticks_of_a_time_of_day() -> None:
    window = Window(id="w", pane="p", size_ms=2 * DAY_MS, every_ms=DAY_MS, at=NIGHT)
    plan = Plan(insights=PLAN.insights[:1], windows=(window,), panes=PLAN.panes)
    tick = 10 * DAY_MS + NIGHT.after_midnight_ms
    spans = touched_ticks(late(Row(ts=tick - 1, frontier_before=tick + 5 * DAY_MS)), plan)
    assert spans == {"a": [TickSpan(tick, tick + DAY_MS)]}
    parts = [part["a"] for part in cluster_spans(spans, plan)]
    assert [(part.first, part.last - part.first < 600_000) for part in parts] == [
        (tick, True),
        (tick + DAY_MS, True),
    ]
    assert touched_ticks(late(Row(ts=tick - 1, frontier_before=tick - 1)), plan) == {}
    resumed = resume(plan, tick, {"a"})
    assert resumed.needs == tick + DAY_MS - 2 * DAY_MS


def test_cluster_is_split_after_times() -> None:
    cluster = {"a": TickSpan(5000, 9000), "b": TickSpan(12_001, 15_000)}
    assert list(split_after(cluster, PLAN, [4999, 6500, 6500, 13_000, 15_000])) == [
        {"a": TickSpan(5000, 6500)},
        {"a": TickSpan(6501, 9000)},
        {"b": TickSpan(13_001, 15_000)},
    ]


def test_late_rows_of_other_metrics_touch_no_ticks() -> None:
    assert touched_ticks(late(Row(metric="mem", ts=1, frontier_before=9000)), PLAN) == {}
    assert touched_ticks(late(), PLAN) == {}


def test_late_points_of_distant_times_are_corrected_separately() -> None:
    spans = touched_ticks(
        late(Row(ts=1, frontier_before=10**9), Row(ts=10**8 + 1, frontier_before=10**9)), PLAN
    )
    assert spans == {
        "a": [TickSpan(1000, 3000), TickSpan(10**8 + 1000, 10**8 + 3000)],
        "b": [TickSpan(10**8 + 5000, 10**8 + 10_000)],
    }
    assert list(cluster_spans(spans, PLAN)) == [
        {"a": TickSpan(1000, 3000)},
        {"a": TickSpan(10**8 + 1000, 10**8 + 3000), "b": TickSpan(10**8 + 5000, 10**8 + 10_000)},
    ]


_lates = st.lists(st.tuples(st.integers(0, 80_000), st.integers(0, 30_000)), min_size=1, max_size=5)


@given(_lates)
def test_touched_ticks_and_clusters_equal_their_definition(lates: list[tuple[int, int]]) -> None:
    rows = [Row(ts=ts, frontier_before=ts + lag) for ts, lag in lates]
    spans = touched_ticks(late(*rows), PLAN)
    parts = list(cluster_spans(spans, PLAN))
    for insight, size, every in (("a", 3000, 1000), ("b", 10_000, 5000)):
        since = {"a": 0, "b": 12_000}[insight]
        expected = {
            tick
            for row in rows
            for tick in range(0, 130_000, every)
            if tick - size < row.ts <= tick <= row.frontier_before and tick > since
        }
        for found in (spans.get(insight, []), [part[insight] for part in parts if insight in part]):
            assert all(a.last < b.first for a, b in itertools.pairwise(found))
            assert all(any(s.first <= tick <= s.last for s in found) for tick in expected)
            assert all(s.first > since for s in found)
        ticks = {t for s in spans.get(insight, []) for t in range(s.first, s.last + 1)}
        assert all(min(abs(t - tick) for tick in expected) <= 10_000 for t in ticks)


@given(
    st.lists(st.integers(0, 60), max_size=60),
    st.integers(0, 30),
    st.integers(0, 30),
    st.integers(1, 9),
)
def test_part_has_few_results_or_one_tick(
    steps: list[int], first: int, length: int, most: int
) -> None:
    cluster = {"a": TickSpan(1000 * first, 1000 * (first + length))}
    span = cluster["a"]
    times = np.sort(np.array([1000 * each for each in steps], np.int64))
    times = times[(times >= span.first) & (times <= span.last)]
    parts = [part["a"] for part in split_by_rows(cluster, PLAN, times, most)]
    ticks = [[t for t in range(0, 61_000, 1000) if p.first <= t <= p.last] for p in parts]
    assert [tick for each in ticks for tick in each] == list(range(span.first, span.last + 1, 1000))
    for part in parts:
        inside = times[(times >= part.first) & (times <= part.last)]
        assert len(inside) <= most or len(set(inside.tolist())) == 1


def results(rows: list[tuple[str, int, float | str]], revision: int) -> pa.Table:
    composed = [
        {"insight": "a", "key": key, "ts": ts, "text" if isinstance(value, str) else "value": value}
        for key, ts, value in rows
    ]
    return as_results(pa.Table.from_pylist(composed, INSIGHT_VALUES), revision)


_rows = st.dictionaries(
    st.tuples(st.sampled_from(["{}", "k"]), st.integers(0, 5)),
    st.floats(-5, 5) | st.sampled_from(["u33d", "u33e"]),
    max_size=8,
).map(lambda value_of: [(key, ts, value) for (key, ts), value in value_of.items()])


@given(_rows, _rows)
@example([("{}", 0, 5.0)], [("{}", 0, 4.999999999999999)])
def test_differences_make_stored_results_equal_to_computed_ones(
    stored: list[tuple[str, int, float | str]], computed: list[tuple[str, int, float | str]]
) -> None:
    before = results(stored, 0)
    change = differences(results(computed, 7), before, 7)
    after = current_results(pa.concat_tables([before, change]))
    expected = current_results(results(computed, 7))
    exact = ["key", "ts", "text"]
    assert after.select(exact).to_pylist() == expected.select(exact).to_pylist()
    # Values that differ by rounding only are not written again.
    assert after["value"].to_pylist() == [
        value if value is None else pytest.approx(value, rel=1e-12, abs=0)
        for value in expected["value"].to_pylist()
    ]
    assert change.num_rows <= len(stored) + len(computed)


def test_equal_results_are_not_written_again() -> None:
    rows = results([("{}", 1, 0.1 + 0.2)], 0)
    assert differences(results([("{}", 1, 0.3)], 5), rows, 5).num_rows == 0


def test_bounds_and_several_values_that_differ_are_written() -> None:
    def result_rows(*rows: tuple[list[float] | None, float | None]) -> pa.Table:
        dicts = [
            {"insight": "a", "key": "", "ts": ts, "value": 1.0, "values": values, "low": low}
            for ts, (values, low) in enumerate(rows)
        ]
        return as_results(pa.Table.from_pylist(dicts, INSIGHT_VALUES))

    stored = result_rows(([1.0], 0), ([1.0, 2.0], 0), (None, 0), ([], 0), ([1.0], 1), ([1.0], None))
    right = result_rows(([1.0], 0), ([1.0, 3.0], 0), ([], 0), ([4.0], 0), ([1.0], 2), ([1.0], 3))
    assert differences(right, stored, 1)["ts"].to_pylist() == [1, 3, 4, 5]
    assert differences(stored, stored, 1).num_rows == 0
    away = stored.set_column(stored.column_names.index("missing"), "missing", pa.array(["n2"] * 6))
    assert differences(stored, away, 1).num_rows == 6


def test_estimates_of_earlier_versions_are_not_written_again() -> None:
    def estimate(few_points: float | None, value: float) -> pa.Table:
        row = {"insight": "a", "key": "", "ts": 1, "value": value, "low": 0.0, "high": 9.0}
        row |= {"confidence": 0.95, "values": None if few_points is None else [few_points]}
        return as_results(pa.Table.from_pylist([row], INSIGHT_VALUES))

    assert differences(estimate(5.0, 1.0), estimate(None, 1.0), 1).num_rows == 0
    assert differences(estimate(5.0, 2.0), estimate(None, 1.0), 1).num_rows == 1
    assert differences(estimate(5.0, 1.0), estimate(4.0, 1.0), 1).num_rows == 1
