"""Values of ranks in sliding windows, compared with numpy over all values of each window."""

import sqlite3

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics_worker.evaluate.history.aggregates import Integers
from analytics_worker.evaluate.history.rank_selection import (
    RankSelector,
    SlidingWindows,
    TimedValues,
)
from analytics_worker.evaluate.history.sorted_runs import PAGE_VALUES, Blocks, RunStore
from analytics_worker.operators.points import Floats

END_MS = 20_000
NOTHING = np.zeros(0, np.int64)


def values_of(seed: int, count: int, distinct: int) -> Floats:
    """Return values; few ``distinct`` values make many of the values equal."""
    return np.random.default_rng(seed).integers(-distinct, distinct, count).astype(np.float64)


def timed(seed: int, count: int, distinct: int, late_ms: int) -> TimedValues:
    random = np.random.default_rng(seed)
    ts = np.sort(random.integers(0, END_MS, count))
    due = ts + random.integers(0, late_ms + 1, count)
    return TimedValues(ts, due, values_of(seed, count, distinct))


def inside(points: TimedValues, end: int, size_ms: int, tick: int) -> Floats:
    chosen = (points.ts > end - size_ms) & (points.ts <= end) & (points.due <= tick)
    return points.values[chosen]


@settings(deadline=None)
@given(
    st.integers(0, 2**32), st.integers(0, 3000), st.sampled_from([1, 5, 10**6]),
    st.sampled_from([50, 1000, 9000, END_MS]), st.integers(0, 40), st.integers(1, 60),
    st.floats(0, 1),
)  # fmt: skip
def test_selection_without_blocks_equals_numpy(
    seed: int, count: int, distinct: int, size_ms: int, late: int, windows: int, share: float
) -> None:
    present = timed(seed, count, distinct, 0)
    present = TimedValues(present.ts, np.full(count, -1), present.values)
    later = timed(seed + 1, late, distinct, 5000)
    ends = np.sort(np.random.default_rng(seed).integers(END_MS // 2, END_MS, windows))
    ticks = ends + -ends % 200
    found = RankSelector(present, later, None).select(
        SlidingWindows(ends - size_ms, ends, ticks), lambda n: _ranks(n, share)
    )
    for end, tick, selected in zip(ends.tolist(), ticks.tolist(), found, strict=True):
        expected = np.sort(
            np.concatenate([inside(each, end, size_ms, tick) for each in (present, later)])
        )
        first, last = _ranks(len(expected), share) if len(expected) else (0, -1)
        assert selected.count == len(expected)
        assert selected.values.tolist() == expected[first : last + 1].tolist()


@settings(deadline=None)
@given(
    st.integers(0, 2**32), st.lists(st.integers(1, 9 * PAGE_VALUES), min_size=1, max_size=6),
    st.integers(0, 400), st.sampled_from([2, 300, 10**9]), st.floats(0, 1),
)  # fmt: skip
def test_selection_from_blocks_equals_numpy_and_reads_few_pages(
    seed: int, runs: list[int], loose: int, distinct: int, share: float
) -> None:
    blocks, stored = stored_runs(seed, runs, distinct)
    present = timed(seed, loose, distinct, 0)
    present = TimedValues(present.ts, np.full(loose, -1), present.values)
    ends = np.arange(END_MS // 2, END_MS, 500)
    windows = SlidingWindows(ends - 3000, ends, ends)
    for key, own in stored.items():
        found = RankSelector(present, timed(0, 0, 1, 0), blocks.by_key()[key]).select(
            windows, lambda n: _ranks(n, share)
        )
        for end, selected in zip(ends.tolist(), found, strict=True):
            expected = np.sort(np.concatenate([own, inside(present, end, 3000, END_MS)]))
            first, last = _ranks(len(expected), share)
            assert selected.values.tolist() == expected[first : last + 1].tolist()
    if distinct == 10**9:
        # The uncertain ranks: a page of each run at both ends, and the loose points.
        most = len(stored) * (4 * len(runs) + 2 * loose // PAGE_VALUES + 2)
        assert len(blocks.pages) <= most


def stored_runs(seed: int, runs: list[int], distinct: int) -> tuple[Blocks, dict[int, Floats]]:
    """Return the blocks of several runs of two keys, and the values of each key."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    RunStore.create(connection)
    own: dict[int, list[Floats]] = {0: [], 1: []}
    for number, count in enumerate(runs):
        key = np.random.default_rng(seed + number).integers(0, 2, count)
        values = values_of(seed + number, count, distinct)
        ts: Integers = np.full(count, 16_000 * (number + 1))
        RunStore(connection, number).add(0, 0, key, ts, values)
        for each, parts in own.items():
            parts.append(values[key == each])
    blocks = RunStore(connection, len(runs)).blocks(0, 1, 0, 16_000 * len(runs))
    stored = {key: np.concatenate(parts) for key, parts in own.items()}
    return blocks, {key: values for key, values in stored.items() if len(values)}


def test_blocks_of_no_runs_are_none() -> None:
    connection = sqlite3.connect(":memory:")
    RunStore.create(connection)
    assert not RunStore(connection, 0).blocks(0, 2, 0, 256_000).by_key()


def _ranks(count: int, share: float) -> tuple[int, int]:
    rank = (count - 1) * share
    return int(np.floor(rank)), min(int(np.ceil(rank)) + 2, count - 1)
