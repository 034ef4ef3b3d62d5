"""Selects values of certain ranks in sliding windows, without sorting each window.

Windows that end one after the other have most of their points in common: their *core*. The other
points of a window are its *loose* points. If a window has n loose points, its value of rank r is
between the values of ranks r - n and r of the core, or is loose. So a narrow range of the core, and
the loose points, contain the selected values of all windows.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analytics_worker.evaluate.history.aggregates import Integers
from analytics_worker.evaluate.history.sorted_runs import Blocks
from analytics_worker.operators.points import Floats

Ranks = Callable[[int], tuple[int, int]]
"""Number of values -> the first and the last rank to select, from 0 on."""

_MIN_LOOSE = 512


@dataclass(frozen=True, slots=True, eq=False)
class TimedValues:
    """The values of points, sorted by time. ``due``: the first ticks (ms) that include them."""

    ts: Integers
    due: Integers
    values: Floats

    def part(self, first: int, last: int) -> "TimedValues":
        """Return the values with the indices from ``first`` up to, not including, ``last``."""
        return TimedValues(self.ts[first:last], self.due[first:last], self.values[first:last])

    def filter(self, chosen: npt.NDArray[np.bool_]) -> "TimedValues":
        """Return the values that the mask ``chosen`` marks."""
        return TimedValues(self.ts[chosen], self.due[chosen], self.values[chosen])


@dataclass(frozen=True, slots=True, eq=False)
class SlidingWindows:
    """Windows of one length, sorted by their ends.

    ``starts``, ``ends``: the times (ms) after which the windows begin, and at which they end.
    ``ticks``: the ticks (ms) at which the windows are evaluated.
    """

    starts: Integers
    ends: Integers
    ticks: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Selected:
    """The selected values of a window, ascending; ``count``: the number of all its values."""

    count: int
    values: Floats


class RankSelector:
    """The points of one key, in any windows.

    ``present``: points in all windows around their times. ``late``: points that are only in windows
    with ticks from ``due`` on. ``blocks``: further values, in all windows.
    """

    def __init__(self, present: TimedValues, late: TimedValues, blocks: Blocks | None) -> None:
        self._present = present
        self._late = late
        self._blocks = blocks
        self._stored = 0 if blocks is None else blocks.count

    def select(self, windows: SlidingWindows, ranks: Ranks) -> list[Selected]:
        """Return the values of the requested ranks of each window."""
        ts = self._present.ts
        first = np.searchsorted(ts, windows.starts, side="right")
        after = np.searchsorted(ts, windows.ends, side="right")
        found: list[Selected] = []
        while len(found) < len(windows.ends):
            begin = len(found)
            end = begin + _group_length(first[begin:], after[begin:])
            part = slice(begin, end)
            group = SlidingWindows(windows.starts[part], windows.ends[part], windows.ticks[part])
            found += self._select(group, first[part], after[part], ranks)
        return found

    def _select(
        self, windows: SlidingWindows, first: Integers, after: Integers, ranks: Ranks
    ) -> Iterator[Selected]:
        values = self._present.values
        core_first, core_after = int(first[-1]), int(after[0])
        if core_first >= core_after:
            core_first = core_after = int(first[-1])
        late = self._late_of(windows)
        is_core = (late.due <= windows.ticks[0]) & (late.ts > windows.starts[-1])
        is_core &= late.ts <= windows.ends[0]
        core = np.concatenate([values[core_first:core_after], late.values[is_core]])
        late = late.filter(~is_core)
        loose = []
        for number in range(len(first)):
            begin, end = int(first[number]), int(after[number])
            parts = [values[begin : min(core_first, end)], values[max(core_after, begin) : end]]
            if len(late.ts):
                parts.append(late.values[_is_inside(late, windows, number)])
            loose.append(np.concatenate(parts))
        yield from _selected(core, self._blocks, loose, ranks, len(core) + self._stored)

    def _late_of(self, windows: SlidingWindows) -> TimedValues:
        """Return the late points that any of the windows contains."""
        bounds = [windows.starts[0], windows.ends[-1]]
        first, after = np.searchsorted(self._late.ts, bounds, side="right").tolist()
        late = self._late.part(first, after)
        return late.filter(late.due <= windows.ticks[-1]) if len(late.ts) else late


def _is_inside(late: TimedValues, windows: SlidingWindows, number: int) -> npt.NDArray[np.bool_]:
    start, end, tick = (each[number] for each in (windows.starts, windows.ends, windows.ticks))
    inside: npt.NDArray[np.bool_] = (late.ts > start) & (late.ts <= end) & (late.due <= tick)
    return inside


def _group_length(first: Integers, after: Integers) -> int:
    """Return the number of windows in the next group.

    Each group costs a pass over its core, and each window costs a pass over the loose points of its
    group. So a group has at most about as many loose points as the square root of the number of
    points in its core.
    """
    most = _MIN_LOOSE + math.isqrt(int(after[0] - first[0]))
    loose = (first - first[0]) + (after - after[0])
    return max(1, int(np.searchsorted(loose, most, side="right")))


def _selected(
    core: Floats, blocks: Blocks | None, loose: Sequence[Floats], ranks: Ranks, core_count: int
) -> Iterator[Selected]:
    counts = [core_count + len(each) for each in loose]
    rank_ranges = [ranks(count) if count else (0, -1) for count in counts]
    some = [number for number, count in enumerate(counts) if count]
    lowest = min((rank_ranges[number][0] - len(loose[number]) for number in some), default=0)
    below = max(0, lowest)
    until = min(core_count, max((rank_ranges[number][1] + 1 for number in some), default=0))
    narrow = _core_values(core, blocks, below, until)
    for count, values, (first, last) in zip(counts, loose, rank_ranges, strict=True):
        if not count:
            yield Selected(0, values)
            continue
        both = np.concatenate([narrow, values])
        first, last = first - below, last - below
        both.partition((first, last))
        found = both[first : last + 1]
        if last > first + 1:
            found.sort()
        yield Selected(count, found)


def _core_values(core: Floats, blocks: Blocks | None, first: int, after: int) -> Floats:
    """Return the values with the ranks ``first <= rank < after`` in ``core`` and ``blocks``."""
    if first >= after:
        return core[:0]
    if blocks is None:
        return _ranked(core, first, after)
    below, narrowed = _narrowed(blocks, len(core), first, after)
    values = np.concatenate([core, *narrowed.values()])
    return _ranked(values, first - below, after - below)


def _ranked(values: Floats, first: int, after: int) -> Floats:
    return np.partition(values, (first, after - 1))[first:after]


def _narrowed(blocks: Blocks, others: int, first: int, after: int) -> tuple[int, Blocks]:
    """Return (n, blocks): the blocks that can contain values of the ranks from ``first`` on.

    The ranks are those in the blocks and ``others`` further values. n: the number of values in the
    omitted blocks whose values have lower ranks.
    """
    least, greatest, counts = (blocks.records[name] for name in ("min", "max", "count"))
    # At most the values of blocks that begin below a value, and all ``others``, are less.
    order = np.argsort(least)
    begins = least[order]
    fewer = np.concatenate([[0], np.cumsum(counts[order])])
    at_most = others + fewer[np.searchsorted(begins, begins, side="left")]
    low = np.searchsorted(at_most, first, side="right") - 1
    # At least the values of blocks that end at or below a value are not greater than it.
    order = np.argsort(greatest)
    at_least = np.cumsum(counts[order])
    high = np.searchsorted(at_least, after, side="left")
    from_value = begins[low] if low >= 0 else -math.inf
    to_value = greatest[order][high] if high < len(order) else math.inf
    is_below = greatest < from_value
    chosen = np.flatnonzero(~is_below & (least <= to_value))
    return int(counts[is_below].sum()), blocks.take(chosen)
