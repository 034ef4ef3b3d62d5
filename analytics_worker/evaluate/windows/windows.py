"""Merges panes into windows at each tick; the functions use Arrow tables, so any engine can call
them.

Panes are assigned only to the windows that end now: the cost of a sliding window arises once, when
the window ends, not whenever a pane arrives. Windows of the same shape are computed together,
whatever panes they read, so many insights cost little more than a few insights.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from analytics.plan.nodes import Plan
from analytics_worker.evaluate.finalize import WINDOWED
from analytics_worker.evaluate.windows.pane_merge import (
    CONTENT_MERGES,
    Flags,
    Integers,
    WindowMembers,
)
from mistbow.streams.schemas import OPTIONAL_PANE_FIELDS

ROUTED_PANES = pa.schema(
    [
        pa.field("route", pa.int32()),
        pa.field("key", pa.string()),
        pa.field("pane", pa.int64()),
        pa.field("due", pa.int64()),
        pa.field("sum", pa.float64()),
        pa.field("count", pa.int64()),
        pa.field("min", pa.float64()),
        pa.field("max", pa.float64()),
        *OPTIONAL_PANE_FIELDS,
    ]
)
"""The schema of panes as input of windows.

``route``: the index of the pane in the plan. ``pane``: the end (ms) of the pane. A pane is in no
window that ends before ``due`` (ms). A row without a route is not a pane: the row closes all
windows up to its ``due``.
"""

NEVER, EVER = -1, 2**62
"""A time before all ticks, and a time after all ticks."""

_MAX_MEMBERS = 1_000_000
"""The greatest number of panes and points in a table of windows; a table of a single tick may have
more.
"""

_NO_WINDOW = -1

_Lengths = tuple[int, int, int, int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Panes:
    """Panes (``ROUTED_PANES``, all with a route), and the columns that determine the panes'
    windows.
    """

    table: pa.Table
    route: npt.NDArray[np.int32]
    end: Integers
    due: Integers

    @classmethod
    def of(cls, table: pa.Table) -> "Panes":
        """Return the panes of a table whose rows all have a route."""
        return cls(table, *(table[name].to_numpy() for name in ("route", "pane", "due")))


@dataclass(frozen=True, slots=True, eq=False)
class WindowShape:
    """The lengths and ticks (ms) that several windows of a plan have in common.

    ``width``: the length of a pane. ``size``: the length of time that the panes of a window cover.
    ``offset``: the time from the end of a window to its tick. ``every``, ``phase``: ticks are the
    times t with ``t % every == phase``. ``hold``: if not 0, a window ends at the last multiple of
    ``hold`` before its tick, minus the offset. The windows of a shape read different panes: for
    each route, ``indices`` contains the index of the window in the plan (-1 without a window), and
    ``after`` contains the time after which the window's ticks begin.
    """

    width: int
    size: int
    offset: int
    every: int
    phase: int
    hold: int
    indices: Integers
    after: Integers

    def last(self, panes: Panes) -> Integers:
        """Return, for each pane, the last tick (ms) whose window contains the pane.

        The tick is ``NEVER`` for a pane that no window reads.
        """
        # A pane (e - width, e] is in the window (t - size, t] if e <= t and t <= e - width + size.
        latest = panes.end + (self.offset - self.width + self.size)
        if self.hold:
            latest = latest - latest % self.hold + (self.hold - 1)
        last: Integers = latest - (latest - self.phase) % self.every
        return np.where(self.indices[panes.route] == _NO_WINDOW, NEVER, last)

    def first(self, panes: Panes, closed: int) -> Integers:
        """Return, for each pane, the first tick (ms) after ``closed`` whose window may contain the
        pane.
        """
        begin = panes.end + self.offset
        if self.hold:
            begin = begin + -begin % self.hold
        earliest = np.maximum(begin, panes.due)
        earliest = np.maximum(earliest, np.maximum(self.after[panes.route], closed) + 1)
        first: Integers = earliest + (self.phase - earliest) % self.every
        return first


def shapes_of(
    plan: Plan, after: Mapping[str, int], with_history: Collection[str] = ()
) -> list[WindowShape]:
    """Return the shapes of a plan's windows.

    ``after``: window id -> the time (ms) after which the window's ticks begin. ``with_history``:
    the ids of windows that end at points and whose older points are in a ``PointHistory``: their
    ticks contain only the points since the previous tick.
    """
    routes = {pane.id: route for route, pane in enumerate(plan.panes)}
    alike: dict[_Lengths, list[dict[int, int]]] = defaultdict(list)
    for index, window in enumerate(plan.windows):
        route = routes[window.pane]
        width = plan.panes[route].width_ms
        # Where clocks change, ``measures`` leaves out windows that end at no tick.
        for phase in window.ticks.phases:
            span = window.every_ms if window.id in with_history else window.span_ms
            lengths = (span, window.offset_ms, window.every_ms, phase, window.held_ms)
            groups = alike[width, *lengths]
            free = next((each for each in groups if route not in each), None)
            if free is None:
                free = {}
                groups.append(free)
            free[route] = index
    return [
        _shape(lengths, indices, plan, after)
        for lengths, groups in alike.items()
        for indices in groups
    ]


def _shape(
    lengths: _Lengths, index_of: Mapping[int, int], plan: Plan, after: Mapping[str, int]
) -> WindowShape:
    indices, since = (np.full(len(plan.panes), _NO_WINDOW, np.int64) for _ in range(2))
    for route, index in index_of.items():
        indices[route], since[route] = index, after[plan.windows[index].id]
    return WindowShape(*lengths, indices, since)


def needed_after(panes: Panes, shapes: Sequence[WindowShape], closed: int) -> Flags:
    """Return a mask of the panes that belong to windows ending later than ``closed`` (ms).

    A pane that is due later belongs to these windows too: a ``PointHistory`` does not have it yet.
    """
    last = np.full(len(panes.route), NEVER, np.int64)
    for shape in shapes:
        last = np.maximum(last, shape.last(panes))
    return (last > closed) | ((last > NEVER) & (panes.due > closed))


def windows_of(
    panes: Panes, plan: Plan, shapes: Sequence[WindowShape], closed: int, until: int
) -> Iterator[pa.Table]:
    """Yield tables with the windows (``WINDOWED``) that end after ``closed`` and up to ``until``
    (ms).

    Each table has the windows of one span of time. The spans are in order, and so short that a
    table fits into memory. All windows of a tick are in one table.
    """
    last = max((int(shape.last(panes).max(initial=NEVER)) for shape in shapes), default=NEVER)
    first = int(np.maximum(panes.end, panes.due).min(initial=EVER))
    keys = panes.table["key"].combine_chunks().dictionary_encode()
    assignment = _PaneAssignment(panes, shapes, keys, _weights(panes.table))
    yield from _tables(assignment, plan, max(closed, first - 1), min(until, last))


@dataclass(frozen=True, slots=True, eq=False)
class _PaneAssignment:
    """The assignment of panes to windows of the given shapes.

    ``keys``: the key of each pane. ``weights``: the number of rows and points that each pane adds
    to a window.
    """

    panes: Panes
    shapes: Sequence[WindowShape]
    keys: pa.DictionaryArray
    weights: Integers

    def members(self, closed: int, until: int) -> WindowMembers | None:
        """Return the panes of all windows that end after ``closed`` and up to ``until`` (ms).

        Return None if the panes and points are too many for one table.
        """
        rows, ticks, indices = [], [], []
        spans, weight = [], 0
        for shape in self.shapes:
            first = shape.first(self.panes, closed)
            last = np.minimum(shape.last(self.panes), until)
            repeats = np.maximum((last - first) // shape.every + 1, 0)
            spans.append((shape, first, repeats))
            weight += int(repeats @ self.weights)
        if until - closed > 1 and weight > _MAX_MEMBERS:
            return None
        for shape, first, repeats in spans:
            row = np.repeat(np.arange(len(repeats)), repeats)
            number = np.arange(len(row)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
            rows.append(row)
            ticks.append(first[row] + number * shape.every)
            indices.append(shape.indices[self.panes.route[row]])
        found = (np.concatenate(each) for each in (rows, ticks, indices))
        return WindowMembers.sorted(*found, keys=self.keys.indices.to_numpy())


def _weights(panes: pa.Table) -> Integers:
    """Return the number of rows and points that each pane adds to a window."""
    weights = np.ones(panes.num_rows, np.int64)
    for name in ("points", "sample"):
        weights += pc.fill_null(pc.list_value_length(panes[name]), 0).to_numpy()
    return weights


def _tables(assignment: _PaneAssignment, plan: Plan, closed: int, until: int) -> Iterator[pa.Table]:
    if until <= closed:
        return
    members = assignment.members(closed, until)
    if members is None:
        half = (closed + until) // 2
        yield from _tables(assignment, plan, closed, half)
        yield from _tables(assignment, plan, half, until)
    elif len(members.rows):
        yield _merged(assignment, members, plan)


def _merged(assignment: _PaneAssignment, members: WindowMembers, plan: Plan) -> pa.Table:
    table = assignment.panes.table
    columns = {
        "window": pa.array(members.index, pa.int32()),
        "tick": pa.array(members.tick),
        "key": assignment.keys.dictionary.take(pa.array(members.key)),
        "sum": pa.array(members.reduce(np.add, table["sum"])),
        "count": pa.array(members.reduce(np.add, table["count"])),
        "min": pa.array(members.reduce(np.minimum, table["min"])),
        "max": pa.array(members.reduce(np.maximum, table["max"])),
    }
    for content, merge in CONTENT_MERGES.items():
        carrying = np.array([content in window.contents for window in plan.windows], np.bool_)
        if carrying.any():
            columns[content] = merge(table, members, carrying[members.index])
    nulls = pa.nulls(len(members.starts))
    return pa.table(
        [columns.get(field.name, nulls).cast(field.type) for field in WINDOWED], schema=WINDOWED
    )
