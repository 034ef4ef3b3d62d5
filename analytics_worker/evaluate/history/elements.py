"""Elements: points and chunks of points of several keys, from which windows are merged."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from analytics.plan.nodes import Window
from analytics_worker.evaluate.history.aggregates import Aggregates, Integers, RangeMerger
from analytics_worker.evaluate.history.chunks import chunk_ends
from analytics_worker.evaluate.history.sorted_runs import Blocks
from analytics_worker.evaluate.windows.windows import NEVER, Panes
from analytics_worker.operators.points import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Elements:
    """Aggregates of points, and to which windows they belong.

    ``key``: the number of the key. ``ts``: the time (ms) of a point, or the end of a chunk of
    points. ``due``: the first tick (ms) whose windows contain a late element; ``NEVER``: all
    windows around ``ts`` contain the element.
    """

    key: Integers
    ts: Integers
    due: Integers
    aggregates: Aggregates

    @classmethod
    def of_points(
        cls, key: Integers, ts: Integers, values: Floats, due: Integers | None = None
    ) -> "Elements":
        """Return an element for each point; None: no point is late."""
        late = np.full(len(ts), NEVER, np.int64) if due is None else due
        return cls(key, ts, late, Aggregates.of_points(ts, values))

    @classmethod
    def concatenated(cls, parts: Sequence["Elements"]) -> "Elements":
        """Return the elements of several parts."""
        some = [part for part in parts if len(part.ts)] or list(parts[:1])
        if not some:
            nothing = np.zeros(0, np.int64)
            return cls.of_points(nothing, nothing, np.zeros(0))
        if len(some) == 1:
            return some[0]
        return cls(
            np.concatenate([part.key for part in some]),
            np.concatenate([part.ts for part in some]),
            np.concatenate([part.due for part in some]),
            Aggregates.concatenated([part.aggregates for part in some]),
        )

    def filter(self, chosen: npt.NDArray[np.bool_]) -> "Elements":
        """Return the elements that the mask ``chosen`` marks."""
        return self.take(np.flatnonzero(chosen))

    def take(self, indices: Integers) -> "Elements":
        """Return the elements at the given indices."""
        columns = (self.key[indices], self.ts[indices], self.due[indices])
        return Elements(*columns, self.aggregates.take(indices))

    def chunks(self, length_ms: int) -> "Elements":
        """Return the elements merged into an element for each key and chunk of ``length_ms``."""
        ends = chunk_ends(self.ts, length_ms)
        order = np.lexsort((ends, self.key))
        key, end = self.key[order], ends[order]
        starts = np.flatnonzero((np.diff(key, prepend=-1) != 0) | (np.diff(end, prepend=-1) != 0))
        merged = RangeMerger(self.aggregates.take(order)).merge(
            starts, np.append(starts[1:], len(order))
        )
        due = np.full(len(starts), NEVER, np.int64)
        return Elements(key[starts], end[starts], due, merged)


class KeyNumbers(Protocol):
    """The numbers of keys."""

    def numbers(self, keys: Sequence[str]) -> Integers:
        """Return the numbers of keys; unknown keys receive new numbers."""
        ...

    def keys(self, numbers: Integers) -> list[str]:
        """Return the keys with the given numbers."""
        ...


def numbers_of(table: KeyNumbers, keys: Sequence[str]) -> Integers:
    """Return the numbers of keys; a key that occurs several times is looked up once."""
    distinct = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    numbers = table.numbers(list(distinct))
    return numbers[np.array([distinct[each] for each in keys], np.int64)]


class KeyTable:
    """The numbers of keys, in memory."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def numbers(self, keys: Sequence[str]) -> Integers:
        """Return the numbers of keys; unknown keys receive new numbers."""
        known = self._numbers
        return np.array([known.setdefault(key, len(known)) for key in keys], np.int64)

    def keys(self, numbers: Integers) -> list[str]:
        """Return the keys with the given numbers."""
        names = list(self._numbers)
        return [names[number] for number in numbers.tolist()]


@dataclass(frozen=True, slots=True)
class Range:
    """The times (ms) after which the windows of some ticks begin, and the times at which they end.

    The windows begin after a time from ``first_start`` to ``last_start``, and end at a time from
    ``first_end`` to ``last_end``.
    """

    first_start: int
    last_start: int
    first_end: int
    last_end: int

    @classmethod
    def of(cls, window: Window, first: int, last: int) -> "Range":
        """Return the times of the windows that end at points from the tick before ``first`` on.

        ``first``, ``last``: the first tick and the last tick (ms) of these windows.
        """
        begin, end = (tick - window.offset_ms for tick in (first - window.every_ms, last))
        return cls(begin - window.size_ms, end - window.size_ms, begin, end)


class PointHistory(Protocol):
    """The points of panes up to the present."""

    @property
    def keys(self) -> KeyNumbers:
        """The numbers of the keys of elements."""
        ...

    def elements(self, route: int, times: Range) -> Elements:
        """Return all points in the windows of ``times``, in chunks that no window divides.

        ``route``: the index of the pane in the plan.
        """
        ...

    def ordered(self, route: int, times: Range) -> tuple[Elements, Blocks]:
        """Return all points in the windows of ``times``: points, and blocks of sorted values.

        All windows contain all values of the blocks. ``route``: the index of a pane that an
        ordered function reads.
        """
        ...


class PanePoints:
    """The points of a table of panes; ``routes``: the indices of these panes in the plan."""

    def __init__(self, panes: Panes, routes: Sequence[int], keys: KeyNumbers | None = None) -> None:
        self.keys: KeyNumbers = KeyTable() if keys is None else keys
        self._routes = {route: self._of_route(panes, route) for route in routes}

    def elements(self, route: int, times: Range) -> Elements:
        """Return the points in the windows of ``times``."""
        points = self._routes[route]
        return points.filter((points.ts > times.first_start) & (points.ts <= times.last_end))

    def ordered(self, route: int, times: Range) -> tuple[Elements, Blocks]:
        """Return the points in the windows of ``times``, and no blocks."""
        return self.elements(route, times), Blocks.none()

    def all_points(self) -> Iterator[tuple[int, Elements]]:
        """Yield (route, points) for each route."""
        yield from self._routes.items()

    def _of_route(self, panes: Panes, route: int) -> Elements:
        chosen = np.flatnonzero(panes.route == route)
        rows = panes.table.select(["key", "points"]).take(pa.array(chosen))
        lists = rows["points"].combine_chunks()
        points, parents = pc.list_flatten(lists), pc.list_parent_indices(lists).to_numpy()
        names = rows["key"].combine_chunks().dictionary_encode()
        numbers = self.keys.numbers(names.dictionary.to_pylist())
        end, due = panes.end[chosen], panes.due[chosen]
        return Elements.of_points(
            numbers[names.indices.to_numpy()[parents]],
            pc.struct_field(points, "ts").to_numpy(),
            pc.struct_field(points, "value").to_numpy(),
            np.where(due > end, due, NEVER)[parents],
        )
