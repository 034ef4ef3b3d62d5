"""The points of long windows, stored from micro-batch to micro-batch, in chunks of several lengths.

A chunk of the shortest length contains points; a chunk of each greater length contains one
aggregate for each key. So the elements of a window are few, whatever its length: points at both of
its ends, and longer and longer chunks towards its middle. For functions that need the order of
values, longer chunks contain sorted runs too. The file is deleted with the query; a later query
replays its stream.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from analytics_worker.evaluate.history.aggregates import AGGREGATE, Aggregates, Integers
from analytics_worker.evaluate.history.chunks import (
    LENGTHS_MS,
    POINTS_MS,
    RUN_LENGTHS_MS,
    chunk_ends,
    cover,
)
from analytics_worker.evaluate.history.elements import Elements, PanePoints, Range
from analytics_worker.evaluate.history.sorted_runs import Blocks, RunStore
from analytics_worker.evaluate.windows.windows import NEVER

_POINT = np.dtype([("key", np.int32), ("ts", np.int64), ("value", np.float64)])
_CHUNK = np.dtype([("key", np.int64), ("ts", np.int64), ("aggregate", AGGREGATE)])
_POINTS_LEVEL = 0

_SCHEMA = """
create table if not exists chunks (
  route integer, level integer, ts integer, batch integer, content blob,
  primary key (route, level, ts, batch)
) without rowid;
create table if not exists keys (number integer primary key, key text unique);
create table if not exists batches (batch integer);
"""
_FILE = "points.sqlite"
_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class StoredPane:
    """A pane whose points are stored.

    ``lookback``: the greatest duration (ms) from the beginning of a window to its tick.
    ``is_ordered``: whether a function needs the order of values.
    """

    lookback: int
    is_ordered: bool

    @property
    def run_levels(self) -> int:
        """The number of levels with sorted runs."""
        lengths = RUN_LENGTHS_MS if self.is_ordered else ()
        return sum(length <= self.lookback for length in lengths)


class PointStore:
    """The points of micro-batches before the micro-batch with the number ``batch``.

    ``closed``: the time (ms) up to which these micro-batches have closed windows. ``panes``: the
    panes by route. A repeated micro-batch finds the same points, since it first deletes what its
    first attempt stored.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        batch: int,
        closed: int,
        panes: Mapping[int, StoredPane],
    ) -> None:
        self._connection = connection
        self._batch = batch
        self._closed = closed
        self._panes = panes
        self._runs = RunStore(connection, batch)
        self.keys = _StoredKeys(connection)
        self.new: PanePoints | None = None
        self._start()
        for route, pane in panes.items():
            for level in range(len(LENGTHS_MS) + 1):
                connection.execute(
                    "delete from chunks where route = ? and level = ? and ts <= ?",
                    (route, level, closed - pane.lookback),
                )
            self._runs.delete_until(route, closed - pane.lookback)

    @classmethod
    @contextmanager
    def opened(
        cls, folder: Path, batch: int, closed: int, panes: Mapping[int, StoredPane]
    ) -> Iterator["PointStore"]:
        """Open the store in ``folder``; store the new points at the end, unless an error is raised.

        Raises ``RuntimeError`` if a later micro-batch has stored points.
        """
        connection = sqlite3.connect(folder / _FILE, timeout=_TIMEOUT_S, isolation_level=None)
        try:
            # After a power cut, nothing remains of a query, so the next query replays.
            connection.execute("pragma synchronous = off")
            connection.executescript(_SCHEMA)
            RunStore.create(connection)
            connection.execute("begin immediate")
            store = cls(connection, batch, closed, panes)
            yield store
            connection.execute("commit")
        finally:
            connection.close()

    def elements(self, route: int, times: Range) -> Elements:
        """Return all points in the windows of ``times``, in chunks that no window divides."""
        found = [] if self.new is None else [self.new.elements(route, times)]
        found += self._stored(route, times)
        return Elements.concatenated(found)

    def ordered(self, route: int, times: Range) -> tuple[Elements, Blocks]:
        """Return all points in the windows of ``times``: points, and blocks of sorted values."""
        found = [] if self.new is None else [self.new.elements(route, times)]
        levels, shortest = self._panes[route].run_levels, RUN_LENGTHS_MS[0]
        start = times.last_start + -times.last_start % shortest
        end = min(times.first_end, self._closed)
        end -= end % shortest
        if start >= end or not levels:
            found += self._read(route, _POINTS_LEVEL, times.first_start, times.last_end)
            return Elements.concatenated(found), Blocks.none()
        found += self._read(route, _POINTS_LEVEL, times.first_start, start)
        found += self._read(route, _POINTS_LEVEL, end, times.last_end)
        return Elements.concatenated(found), self._runs.blocks(route, levels, start, end)

    def add(self, until: int) -> None:
        """Store the points of ``new``; micro-batches up to this one close windows up to ``until``.

        A chunk that has ended receives its aggregates, and its sorted run; late points add further
        aggregates and runs to it.
        """
        if self.new is None:
            return
        for route, added in self.new.all_points():
            self._add_runs(route, added, until)
            self._insert(route, _POINTS_LEVEL, added, POINTS_MS)
            for level, length in enumerate(LENGTHS_MS, start=1):
                ended, now_ended = (time - time % length for time in (self._closed, until))
                shorter = self._read(route, level - 1, ended, now_ended)
                late = added.filter(added.ts <= now_ended)
                added = Elements.concatenated([*shorter, late]).chunks(length)
                self._insert(route, level, added, length)

    def _add_runs(self, route: int, added: Elements, until: int) -> None:
        for level, length in enumerate(RUN_LENGTHS_MS[: self._panes[route].run_levels]):
            ended, now_ended = (time - time % length for time in (self._closed, until))
            earlier = self._read(route, _POINTS_LEVEL, ended, now_ended)
            late = added.filter(added.ts <= now_ended)
            points = Elements.concatenated([*earlier, late])
            if len(points.ts):
                self._runs.add(route, level, points.key, points.ts, points.aggregates.value)

    def _start(self) -> None:
        execute = self._connection.execute
        last = execute("select max(batch) from batches").fetchone()[0]
        if last is not None and last > self._batch:
            raise RuntimeError(f"micro-batch {last} is already stored, after {self._batch}")
        if last == self._batch:
            execute("delete from chunks where batch = ?", (last,))
            self._runs.delete_batch()
        execute("delete from batches")
        execute("insert into batches values (?)", (self._batch,))

    def _stored(self, route: int, times: Range) -> Iterator[Elements]:
        """Yield the stored elements from ``first_start`` to ``last_end``.

        Between the last beginning and the first end of a window, they are the longest chunks that
        have ended; around these, they are points.
        """
        start = times.last_start + -times.last_start % POINTS_MS
        end = min(times.first_end, self._closed)
        end -= end % POINTS_MS
        if start >= end:
            yield from self._read(route, _POINTS_LEVEL, times.first_start, times.last_end)
            return
        yield from self._read(route, _POINTS_LEVEL, times.first_start, start)
        for level, first, last in cover(start, end, LENGTHS_MS):
            yield from self._read(route, level + 1, first, last)
        yield from self._read(route, _POINTS_LEVEL, end, times.last_end)

    def _read(self, route: int, level: int, after: int, until: int) -> Iterator[Elements]:
        """Yield the elements of earlier micro-batches after ``after`` and up to ``until`` (ms)."""
        # The last chunk with points may end after ``until``.
        length = POINTS_MS if level == _POINTS_LEVEL else LENGTHS_MS[level - 1]
        rows = self._connection.execute(
            "select content from chunks where route = ? and level = ? and ts > ? and ts <= ?"
            " and batch < ?",
            (route, level, after, until + -until % length, self._batch),
        ).fetchall()
        if not rows:
            return
        content = b"".join(row[0] for row in rows)
        if level == _POINTS_LEVEL:
            records = np.frombuffer(content, _POINT)
            records = records[(records["ts"] > after) & (records["ts"] <= until)]
            ts, values = (np.ascontiguousarray(records[name]) for name in ("ts", "value"))
            yield Elements.of_points(records["key"].astype(np.int64), ts, values)
        else:
            records = np.frombuffer(content, _CHUNK)
            key, ts = (np.ascontiguousarray(records[name]) for name in ("key", "ts"))
            due = np.full(len(ts), NEVER, np.int64)
            yield Elements(key, ts, due, Aggregates.of_records(records["aggregate"]))

    def _insert(self, route: int, level: int, added: Elements, length: int) -> None:
        if not len(added.ts):
            return
        records = _records(added, points=level == _POINTS_LEVEL)
        ends = chunk_ends(added.ts, length)
        order = np.argsort(ends, kind="stable")
        records, ends = records[order], ends[order]
        starts = np.flatnonzero(np.diff(ends, prepend=-1) != 0)
        rows = [
            (route, level, int(ends[first]), self._batch, part.tobytes())
            for first, part in zip(starts.tolist(), np.split(records, starts[1:]), strict=True)
        ]
        self._connection.executemany("insert into chunks values (?, ?, ?, ?, ?)", rows)


class _StoredKeys:
    """The numbers of keys, in the file of the store."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._numbers: dict[str, int] = {}

    def numbers(self, keys: Sequence[str]) -> Integers:
        """Return the numbers of keys; unknown keys receive new numbers."""
        execute = self._connection.execute
        for key in (each for each in keys if each not in self._numbers):
            execute("insert or ignore into keys (key) values (?)", (key,))
            found = execute("select number from keys where key = ?", (key,)).fetchone()
            self._numbers[key] = found[0]
        return np.array([self._numbers[key] for key in keys], np.int64)

    def keys(self, numbers: Integers) -> list[str]:
        """Return the keys with the given numbers."""
        execute = self._connection.execute
        return [
            execute("select key from keys where number = ?", (number,)).fetchone()[0]
            for number in numbers.tolist()
        ]


def _records(elements: Elements, *, points: bool) -> npt.NDArray[np.void]:
    records = np.zeros(len(elements.ts), _POINT if points else _CHUNK)
    records["key"], records["ts"] = elements.key, elements.ts
    if points:
        records["value"] = elements.aggregates.value
    else:
        for name, column in zip(AGGREGATE.names or (), elements.aggregates.columns, strict=True):
            records["aggregate"][name] = column
    return records
