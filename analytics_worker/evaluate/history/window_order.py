"""The values of certain ranks in the windows that end at points."""

from collections.abc import Sequence

import numpy as np

from analytics.plan.nodes import Window
from analytics_worker.evaluate.history.aggregates import Integers
from analytics_worker.evaluate.history.elements import Elements, PointHistory, Range, numbers_of
from analytics_worker.evaluate.history.rank_selection import (
    Ranks,
    RankSelector,
    Selected,
    SlidingWindows,
    TimedValues,
)


class WindowOrder:
    """The ordered values in the windows that end at points between two ticks.

    ``first``, ``last``: the first tick and the last tick (ms) at which these windows are evaluated.
    ``route``: the index of the window's pane in the plan.
    """

    def __init__(
        self, window: Window, route: int, history: PointHistory, first: int, last: int
    ) -> None:
        self._window = window
        self._keys = history.keys
        points, blocks = history.ordered(route, Range.of(window, first, last))
        is_late = points.due > first
        self._present, self._late = _ByKey(points.filter(~is_late)), _ByKey(points.filter(is_late))
        self._blocks = blocks.by_key()

    def select(
        self, keys: Sequence[str], times: Integers, ticks: Integers, ranks: Ranks
    ) -> list[Selected]:
        """Return the values of certain ranks in the window that ends at each time (ms) of a key.

        ``ticks``: the ticks (ms) at which the windows are evaluated.
        """
        key = numbers_of(self._keys, keys)
        ends = times - self._window.offset_ms
        order = np.lexsort((ticks, ends, key))
        found: dict[int, Selected] = {}
        starts = np.flatnonzero(np.diff(key[order], prepend=-1))
        for chosen in np.split(order, starts[1:]) if len(order) else ():
            number = int(key[chosen[0]])
            selector = RankSelector(
                self._present.of(number), self._late.of(number), self._blocks.get(number)
            )
            own = ends[chosen]
            windows = SlidingWindows(own - self._window.size_ms, own, ticks[chosen])
            found |= zip(chosen.tolist(), selector.select(windows, ranks), strict=True)
        return [found[index] for index in range(len(keys))]


class _ByKey:
    """Points by key and time."""

    def __init__(self, points: Elements) -> None:
        order = np.lexsort((points.ts, points.key))
        self._key = points.key[order]
        self._points = TimedValues(
            points.ts[order], points.due[order], points.aggregates.value[order]
        )

    def of(self, key: int) -> TimedValues:
        """Return the points of a key."""
        first, after = (np.searchsorted(self._key, key, side=side) for side in ("left", "right"))
        return self._points.part(int(first), int(after))
