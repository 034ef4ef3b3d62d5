"""How the panes of a window are joined: numbers, and for each content how what it carries is."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from analytics_worker.finishing import WINDOWED
from mistbow.plan.contents import Content

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """Which panes (``rows``) are in which windows, sorted by window; ``starts`` is where each is.

    Of each window its ``tick``, its ``place`` in the plan, and its ``key`` among the keys.
    """

    rows: Integers
    starts: Integers
    tick: Integers
    place: Integers
    key: Integers

    @classmethod
    def sorted(
        cls, rows: Integers, ticks: Integers, places: Integers, *, keys: Integers
    ) -> "Members":
        """Sort them; ``keys`` are of all panes."""
        key = keys[rows]
        order = np.lexsort((key, places, ticks))
        rows, key, ticks, places = rows[order], key[order], ticks[order], places[order]
        begins = np.ones(len(rows), np.bool_)
        begins[1:] = (np.diff(ticks) != 0) | (np.diff(places) != 0) | (np.diff(key) != 0)
        starts = np.flatnonzero(begins)
        return cls(rows, starts, ticks[starts], places[starts], key[starts])

    def joined(self, ufunc: np.ufunc, column: pa.ChunkedArray) -> npt.NDArray[np.generic]:
        """Return for each window what its panes' values come to."""
        found: npt.NDArray[np.generic] = ufunc.reduceat(column.to_numpy()[self.rows], self.starts)
        return found

    def of(self, carrying: Flags) -> tuple[Integers, Integers]:
        """Return the rows of the windows that carry a content, and of each row the window."""
        windows = np.repeat(
            np.arange(len(self.starts)), np.diff(np.append(self.starts, len(self.rows)))
        )
        chosen = carrying[windows]
        return self.rows[chosen], windows[chosen]


def _moments(panes: pa.Table, members: Members, carrying: Flags) -> pa.Array:
    rows, windows = members.of(carrying)
    some = panes["count"].to_numpy()[rows] > 0
    names = ("count", "sum", "moments")
    held = [pa.array(panes[name].to_numpy()[rows[some]]) for name in names]
    return _lists("moments", pa.StructArray.from_arrays(held, names), windows[some], carrying)


def _logs(panes: pa.Table, members: Members, carrying: Flags) -> pa.Array:
    logs = members.joined(np.add, pc.fill_null(panes["logs"], 0.0))
    return pa.array(logs, mask=~carrying)


def _latest(panes: pa.Table, members: Members, carrying: Flags) -> pa.Array:
    latest = panes["latest"].combine_chunks()
    names = ("ts", "value", "entity")
    order = pc.sort_indices(
        pa.table(latest.flatten(), names),
        sort_keys=[(name, "ascending", "at_start") for name in names],
    ).to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    found = latest.take(pa.array(order[np.maximum.reduceat(rank[members.rows], members.starts)]))
    return pc.if_else(pa.array(carrying), found, pa.scalar(None, found.type))


def _all_of(content: Content) -> Callable[[pa.Table, Members, Flags], pa.Array]:
    def joined(panes: pa.Table, members: Members, carrying: Flags) -> pa.Array:
        rows, windows = members.of(carrying)
        lists = panes[content].combine_chunks().take(pa.array(rows))
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
        return _lists(content, lists.flatten(), np.repeat(windows, lengths), carrying)

    return joined


def _lists(content: Content, values: pa.Array, windows: Integers, carrying: Flags) -> pa.Array:
    """Return a list for each window that carries one; ``windows`` tells of each value where."""
    lengths = np.bincount(windows, minlength=len(carrying))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    kind = WINDOWED.field(content).type
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), values.cast(kind.value_type), mask=pa.array(~carrying)
    )


JOINED: dict[Content, Callable[[pa.Table, Members, Flags], pa.Array]] = {
    "moments": _moments,
    "logs": _logs,
    "latest": _latest,
    "points": _all_of("points"),
    "sample": _all_of("sample"),
}
"""Every content: what the windows that carry it have of their panes."""
