"""Windows: what panes come to at each tick; a function of Arrow tables, the same for any engine.

A pane is put into the windows that end now, and into no other: a window that slides often costs
when it ends, not for each pane that will be in it. All windows of one shape are made together,
whatever they read, so that many insights cost little more than few.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from analytics_worker.finishing import WINDOWED
from analytics_worker.windowing.contents import JOINED, Flags, Integers, Members
from mistbow.plan.nodes import Plan
from mistbow.streams.schemas import CARRIED_BY_PANES

PLACED = pa.schema(
    [
        pa.field("route", pa.int32()),
        pa.field("key", pa.string()),
        pa.field("pane", pa.int64()),
        pa.field("due", pa.int64()),
        pa.field("sum", pa.float64()),
        pa.field("count", pa.int64()),
        pa.field("min", pa.float64()),
        pa.field("max", pa.float64()),
        *CARRIED_BY_PANES,
    ]
)
"""Panes on their way to windows: ``route`` is the pane's place in the plan, ``pane`` its end.

``due`` (ms): it is in no window that ends before. A row without a route is no pane but the news
that all windows up to ``due`` end.
"""

NEVER, EVER = -1, 2**62
"""Earlier and later than any tick."""

_MOST_AT_ONCE = 1_000_000
"""So many panes and points in windows, together, are made in one go, unless it is one tick."""

_NONE = -1

_Lengths = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Panes:
    """Panes (``PLACED``, those with a route), and of each what tells where it goes."""

    table: pa.Table
    route: npt.NDArray[np.int32]
    end: Integers
    due: Integers

    @classmethod
    def of(cls, table: pa.Table) -> "Panes":
        """Read them."""
        return cls(table, *(table[name].to_numpy() for name in ("route", "pane", "due")))


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """Windows that are alike but for what they read; times in ms.

    ``places`` and ``after`` have for each route the window's place in the plan, -1 if there is
    none, and the time that its ticks are later than.
    """

    width: int
    size: int
    offset: int
    every: int
    phase: int
    places: Integers
    after: Integers

    def last(self, panes: Panes) -> Integers:
        """Return the last tick at which each pane is in a window, ``NEVER`` where it is in none."""
        # A pane (e - width, e] is in the window (t - size, t] if e <= t and t <= e - width + size.
        latest = panes.end + (self.offset - self.width + self.size)
        last: Integers = latest - (latest - self.phase) % self.every
        return np.where(self.places[panes.route] == _NONE, NEVER, last)

    def first(self, panes: Panes, closed: int) -> Integers:
        """Return the first tick after ``closed`` at which each pane is in a window, if in any."""
        earliest = np.maximum(panes.end + self.offset, panes.due)
        earliest = np.maximum(earliest, np.maximum(self.after[panes.route], closed) + 1)
        first: Integers = earliest + (self.phase - earliest) % self.every
        return first


def shapes_of(plan: Plan, after: Mapping[str, int]) -> list[Shape]:
    """Return the shapes of a plan's windows; ``after`` is of each window, by its id."""
    routes = {pane.id: route for route, pane in enumerate(plan.panes)}
    alike: dict[_Lengths, list[dict[int, int]]] = defaultdict(list)
    for place, window in enumerate(plan.windows):
        route = routes[window.pane]
        width = plan.panes[route].width_ms
        # Where clocks change, what ends at no tick is left out by composition.
        for phase in window.ticks.phases:
            held = alike[width, window.span_ms, window.offset_ms, window.every_ms, phase]
            free = next((each for each in held if route not in each), None)
            if free is None:
                free = {}
                held.append(free)
            free[route] = place
    return [
        _shape(lengths, places, plan, after) for lengths, held in alike.items() for places in held
    ]


def _shape(
    lengths: _Lengths, placed: Mapping[int, int], plan: Plan, after: Mapping[str, int]
) -> Shape:
    places, since = (np.full(len(plan.panes), _NONE, np.int64) for _ in range(2))
    for route, place in placed.items():
        places[route], since[route] = place, after[plan.windows[place].id]
    return Shape(*lengths, places, since)


def needed_after(panes: Panes, shapes: Sequence[Shape], closed: int) -> Flags:
    """Return which panes are in a window that ends later than ``closed`` (ms)."""
    last = np.full(len(panes.route), NEVER, np.int64)
    for shape in shapes:
        last = np.maximum(last, shape.last(panes))
    return last > closed


def windows_of(
    panes: Panes, plan: Plan, shapes: Sequence[Shape], closed: int, until: int
) -> Iterator[pa.Table]:
    """Yield the windows (``WINDOWED``) that end in ``(closed, until]``; times in ms.

    They come span by span, in the order of time, that never too many are there at once: all of a
    tick in one table, or none.
    """
    last = max((int(shape.last(panes).max(initial=NEVER)) for shape in shapes), default=NEVER)
    first = int(np.maximum(panes.end, panes.due).min(initial=EVER))
    keys = panes.table["key"].combine_chunks().dictionary_encode()
    placing = _Placing(panes, shapes, keys, _weights(panes.table))
    yield from _parts(placing, plan, max(closed, first - 1), min(until, last))


@dataclass(frozen=True, slots=True, eq=False)
class _Placing:
    """Panes, the shapes of the windows that they are put into, their keys, and how much each is."""

    panes: Panes
    shapes: Sequence[Shape]
    keys: pa.DictionaryArray
    weights: Integers

    def members(self, closed: int, until: int) -> Members | None:
        """Return what is in the windows that end in a span, None if that is too much at once."""
        rows, ticks, places = [], [], []
        spans, weight = [], 0
        for shape in self.shapes:
            first = shape.first(self.panes, closed)
            last = np.minimum(shape.last(self.panes), until)
            often = np.maximum((last - first) // shape.every + 1, 0)
            spans.append((shape, first, often))
            weight += int(often @ self.weights)
        if until - closed > 1 and weight > _MOST_AT_ONCE:
            return None
        for shape, first, often in spans:
            row = np.repeat(np.arange(len(often)), often)
            number = np.arange(len(row)) - np.repeat(np.cumsum(often) - often, often)
            rows.append(row)
            ticks.append(first[row] + number * shape.every)
            places.append(shape.places[self.panes.route[row]])
        found = (np.concatenate(each) for each in (rows, ticks, places))
        return Members.sorted(*found, keys=self.keys.indices.to_numpy())


def _weights(panes: pa.Table) -> Integers:
    """Return how many rows and points each pane brings to a window."""
    weights = np.ones(panes.num_rows, np.int64)
    for name in ("points", "sample"):
        weights += pc.fill_null(pc.list_value_length(panes[name]), 0).to_numpy()
    return weights


def _parts(placing: _Placing, plan: Plan, closed: int, until: int) -> Iterator[pa.Table]:
    if until <= closed:
        return
    members = placing.members(closed, until)
    if members is None:
        half = (closed + until) // 2
        yield from _parts(placing, plan, closed, half)
        yield from _parts(placing, plan, half, until)
    elif len(members.rows):
        yield _joined(placing, members, plan)


def _joined(placing: _Placing, members: Members, plan: Plan) -> pa.Table:
    table = placing.panes.table
    columns = {
        "window": pa.array(members.place, pa.int32()),
        "tick": pa.array(members.tick),
        "key": placing.keys.dictionary.take(pa.array(members.key)),
        "sum": pa.array(members.joined(np.add, table["sum"])),
        "count": pa.array(members.joined(np.add, table["count"])),
        "min": pa.array(members.joined(np.minimum, table["min"])),
        "max": pa.array(members.joined(np.maximum, table["max"])),
    }
    for content, join in JOINED.items():
        carrying = np.array([content in window.contents for window in plan.windows], np.bool_)
        if carrying.any():
            columns[content] = join(table, members, carrying[members.place])
    nothing = pa.nulls(len(members.starts))
    return pa.table(
        [columns.get(field.name, nothing).cast(field.type) for field in WINDOWED], schema=WINDOWED
    )
