"""The history of one window: merges its points for any time and key."""

from collections.abc import Sequence

import numpy as np

from analytics.plan.nodes import Window
from analytics_worker.evaluate.history.aggregates import Aggregates, Integers, RangeMerger
from analytics_worker.evaluate.history.elements import (
    Elements,
    KeyNumbers,
    PointHistory,
    Range,
    numbers_of,
)


class WindowHistory:
    """The points in the windows that end at points between the ticks ``first`` and ``last`` (ms).

    ``first``, ``last``: the first tick and the last tick at which these windows are evaluated.
    ``route``: the index of the window's pane in the plan.
    """

    def __init__(
        self, window: Window, route: int, history: PointHistory, first: int, last: int
    ) -> None:
        self._window = window
        self._keys: KeyNumbers = history.keys
        elements = history.elements(route, Range.of(window, first, last))
        is_late = elements.due > first
        self._present = elements.filter(~is_late)
        self._merger = _WindowMerger(self._present, window.size_ms)
        late = elements.filter(is_late)
        self._late = late.take(np.argsort(late.due, kind="stable"))

    def present_keys(self) -> list[str]:
        """Return the keys that have points in the windows."""
        return self._keys.keys(np.unique(np.concatenate([self._present.key, self._late.key])))

    def merge(self, keys: Sequence[str], times: Integers, ticks: Integers) -> Aggregates:
        """Return the merged points in the window that ends at each time (ms), for each key.

        ``ticks``: the ticks (ms) at which the windows are evaluated.
        """
        key = numbers_of(self._keys, keys)
        ends = times - self._window.offset_ms
        found = self._merger.merge(key, ends)
        self._add_late(found, self._late, np.arange(len(ends)), (key, ends, ticks))
        return found

    def _add_late(
        self,
        found: Aggregates,
        late: Elements,
        chosen: Integers,
        windows: tuple[Integers, Integers, Integers],
    ) -> None:
        """Merge late elements into ``found`` for those windows at whose ticks they are due.

        ``late``: elements sorted by ``due``. ``chosen``: the indices of windows. ``windows``: the
        key, the end and the tick of each window.
        """
        key, ends, ticks = windows
        if not len(late.ts):
            return
        chosen = chosen[ticks[chosen] >= late.due[0]]
        is_whole = ticks[chosen] >= late.due[-1]
        whole, divided = chosen[is_whole], chosen[~is_whole]
        if len(whole):
            merged = _WindowMerger(late, self._window.size_ms).merge(key[whole], ends[whole])
            found.put(whole, found.take(whole).merge(merged))
        if len(divided):
            middle = np.searchsorted(late.due, late.due[len(late.due) // 2])
            if not middle:  # only the last elements are due later
                middle = np.searchsorted(late.due, late.due[0], side="right")
            for part in (np.arange(middle), np.arange(middle, len(late.due))):
                self._add_late(found, late.take(part), divided, windows)


class _WindowMerger:
    """Merges the elements in the windows of one length."""

    def __init__(self, elements: Elements, size_ms: int) -> None:
        self._size_ms = size_ms
        order = np.lexsort((elements.ts, elements.key))
        self._key, self._ts = elements.key[order], elements.ts[order]
        self._merger = RangeMerger(elements.aggregates.take(order))

    def merge(self, key: Integers, ends: Integers) -> Aggregates:
        """Return the merged elements of a key in each window that ends at a time of ``ends``."""
        return self._merger.merge(self._find(key, ends - self._size_ms), self._find(key, ends))

    def _find(self, key: Integers, times: Integers) -> Integers:
        """Return the index after the last element of each key up to a time."""
        if not len(self._ts):
            return np.zeros(len(key), np.int64)
        first, last = int(self._ts.min()), int(self._ts.max())
        span = last - first + 2
        places = self._key * span + (self._ts - first + 1)
        searched = key * span + np.clip(times - first + 1, 0, span - 1)
        found: Integers = np.searchsorted(places, searched, side="right")
        return found
