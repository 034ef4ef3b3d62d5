"""Merges the panes of a window: count, sum, minimum, maximum, and optional pane contents."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from analytics.plan.functions import Content
from analytics_worker.evaluate.finalize import WINDOWED

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class WindowMembers:
    """The members of windows: the panes that each window contains, sorted by window.

    ``rows``: the index of each member in the table of panes. ``starts``: the index in ``rows`` at
    which each window begins. Each window has a ``tick`` (ms), an ``index`` (of the window in the
    plan) and a ``key`` (an index of the distinct keys).
    """

    rows: Integers
    starts: Integers
    tick: Integers
    index: Integers
    key: Integers

    @classmethod
    def sorted(
        cls, rows: Integers, ticks: Integers, indices: Integers, *, keys: Integers
    ) -> "WindowMembers":
        """Return the members, sorted by window.

        ``rows``, ``ticks``, ``indices``: for each member, the index of the pane, and the tick (ms)
        and the index of the window. ``keys``: the key of each pane, as an index.
        """
        key = keys[rows]
        order = np.lexsort((key, indices, ticks))
        rows, key, ticks, indices = rows[order], key[order], ticks[order], indices[order]
        begins = np.ones(len(rows), np.bool_)
        begins[1:] = (np.diff(ticks) != 0) | (np.diff(indices) != 0) | (np.diff(key) != 0)
        starts = np.flatnonzero(begins)
        return cls(rows, starts, ticks[starts], indices[starts], key[starts])

    def reduce(self, ufunc: np.ufunc, column: pa.ChunkedArray) -> npt.NDArray[np.generic]:
        """Return, for each window, the values of its panes in a column, reduced by ``ufunc``."""
        reduced: npt.NDArray[np.generic] = ufunc.reduceat(column.to_numpy()[self.rows], self.starts)
        return reduced

    def of(self, carrying: Flags) -> tuple[Integers, Integers]:
        """Return the panes of the windows that the mask ``carrying`` marks, as two arrays.

        The arrays contain the index of each pane, and the index of the window that contains the
        pane.
        """
        windows = np.repeat(
            np.arange(len(self.starts)), np.diff(np.append(self.starts, len(self.rows)))
        )
        chosen = carrying[windows]
        return self.rows[chosen], windows[chosen]


def _moments(panes: pa.Table, members: WindowMembers, carrying: Flags) -> pa.Array:
    rows, windows = members.of(carrying)
    some = panes["count"].to_numpy()[rows] > 0
    names = ("count", "sum", "moments")
    columns = [pa.array(panes[name].to_numpy()[rows[some]]) for name in names]
    return _lists("moments", pa.StructArray.from_arrays(columns, names), windows[some], carrying)


def _logs(panes: pa.Table, members: WindowMembers, carrying: Flags) -> pa.Array:
    logs = members.reduce(np.add, pc.fill_null(panes["logs"], 0.0))
    return pa.array(logs, mask=~carrying)


def _latest(panes: pa.Table, members: WindowMembers, carrying: Flags) -> pa.Array:
    latest = panes["latest"].combine_chunks()
    names = ("ts", "value", "entity")
    order = pc.sort_indices(
        pa.table(latest.flatten(), names),
        sort_keys=[(name, "ascending", "at_start") for name in names],
    ).to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    best = latest.take(pa.array(order[np.maximum.reduceat(rank[members.rows], members.starts)]))
    return pc.if_else(pa.array(carrying), best, pa.scalar(None, best.type))


def _all_of(content: Content) -> Callable[[pa.Table, WindowMembers, Flags], pa.Array]:
    def concatenate(panes: pa.Table, members: WindowMembers, carrying: Flags) -> pa.Array:
        rows, windows = members.of(carrying)
        lists = panes[content].combine_chunks().take(pa.array(rows))
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
        return _lists(content, lists.flatten(), np.repeat(windows, lengths), carrying)

    return concatenate


def _lists(content: Content, values: pa.Array, windows: Integers, carrying: Flags) -> pa.Array:
    """Return an array with a list of values for each window that the mask ``carrying`` marks.

    Other windows have null. ``values``: the values of all lists, one list after the other.
    ``windows``: the index of the window of each value.
    """
    lengths = np.bincount(windows, minlength=len(carrying))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    kind = WINDOWED.field(content).type
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), values.cast(kind.value_type), mask=pa.array(~carrying)
    )


CONTENT_MERGES: dict[Content, Callable[[pa.Table, WindowMembers, Flags], pa.Array]] = {
    "moments": _moments,
    "logs": _logs,
    "latest": _latest,
    "points": _all_of("points"),
    "sample": _all_of("sample"),
}
"""Content -> the function that merges this content of panes to a column of windows.

The function receives the panes, the members of the windows, and a mask of the windows that carry
the content.
"""
