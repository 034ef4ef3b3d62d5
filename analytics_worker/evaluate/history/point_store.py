"""The points of long windows, stored from micro-batch to micro-batch, in chunks of several lengths.

A chunk of the shortest length contains points; a chunk of each greater length contains one
aggregate for each key. So the elements of a window are few, whatever its length: points at both of
its ends, and longer and longer chunks towards its middle. The file is deleted with the query; a
later query replays its stream.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from analytics_worker.evaluate.history.aggregates import AGGREGATE, Aggregates, Integers
from analytics_worker.evaluate.history.elements import Elements, PanePoints, Range
from analytics_worker.evaluate.windows.windows import NEVER

_POINTS_MS = 1000
"""The length (ms) of a chunk with points."""

_LENGTHS_MS = tuple(_POINTS_MS * 16**number for number in range(6))
"""The lengths (ms) of the chunks with aggregates, from 1 s to 12 days."""

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


class PointStore:
    """The points of micro-batches before the micro-batch with the number ``batch``.

    ``closed``: the time (ms) up to which these micro-batches have closed windows. ``lookbacks``:
    route -> the duration (ms) from the beginning of the longest window to its tick. A repeated
    micro-batch finds the same points, since it first deletes what its first attempt stored.
    """

    def __init__(
        self, connection: sqlite3.Connection, batch: int, closed: int, lookbacks: Mapping[int, int]
    ) -> None:
        self._connection = connection
        self._batch = batch
        self._closed = closed
        self.keys = _StoredKeys(connection)
        self.new: PanePoints | None = None
        self._start()
        for route, lookback in lookbacks.items():
            for level in range(len(_LENGTHS_MS) + 1):
                connection.execute(
                    "delete from chunks where route = ? and level = ? and ts <= ?",
                    (route, level, closed - lookback),
                )

    @classmethod
    @contextmanager
    def opened(
        cls, folder: Path, batch: int, closed: int, lookbacks: Mapping[int, int]
    ) -> Iterator["PointStore"]:
        """Open the store in ``folder``; store the new points at the end, unless an error is raised.

        Raises ``RuntimeError`` if a later micro-batch has stored points.
        """
        connection = sqlite3.connect(folder / _FILE, timeout=_TIMEOUT_S, isolation_level=None)
        try:
            # Nothing is left of a query after a power cut: it replays.
            connection.execute("pragma synchronous = off")
            connection.executescript(_SCHEMA)
            connection.execute("begin immediate")
            store = cls(connection, batch, closed, lookbacks)
            yield store
            connection.execute("commit")
        finally:
            connection.close()

    def elements(self, route: int, times: Range) -> Elements:
        """Return all points in the windows of ``times``, in chunks that no window divides."""
        found = [] if self.new is None else [self.new.elements(route, times)]
        found += self._stored(route, times)
        return Elements.concatenated(found)

    def add(self, until: int) -> None:
        """Store the points of ``new``; micro-batches up to this one close windows up to ``until``.

        A chunk that has ended receives its aggregates; late points add further aggregates to it.
        """
        if self.new is None:
            return
        for route, added in self.new.all_points():
            self._insert(route, _POINTS_LEVEL, added, _POINTS_MS)
            for level, length in enumerate(_LENGTHS_MS, start=1):
                ended, now_ended = (time - time % length for time in (self._closed, until))
                shorter = self._read(route, level - 1, ended, now_ended)
                late = added.filter(added.ts <= now_ended)
                added = Elements.concatenated([*shorter, late]).chunks(length)
                self._insert(route, level, added, length)

    def _start(self) -> None:
        execute = self._connection.execute
        last = execute("select max(batch) from batches").fetchone()[0]
        if last is not None and last > self._batch:
            raise RuntimeError(f"micro-batch {last} is already stored, after {self._batch}")
        if last == self._batch:
            execute("delete from chunks where batch = ?", (last,))
        execute("delete from batches")
        execute("insert into batches values (?)", (self._batch,))

    def _stored(self, route: int, times: Range) -> Iterator[Elements]:
        """Yield the stored elements from ``first_start`` to ``last_end``.

        Between the last beginning and the first end of a window, they are the longest chunks that
        have ended; around these, they are points.
        """
        start = times.last_start + -times.last_start % _POINTS_MS
        end = min(times.first_end, self._closed)
        end -= end % _POINTS_MS
        if start >= end:
            yield from self._read(route, _POINTS_LEVEL, times.first_start, times.last_end)
            return
        yield from self._read(route, _POINTS_LEVEL, times.first_start, start)
        for level, first, last in _cover(start, end):
            yield from self._read(route, level, first, last)
        yield from self._read(route, _POINTS_LEVEL, end, times.last_end)

    def _read(self, route: int, level: int, after: int, until: int) -> Iterator[Elements]:
        """Yield the elements of earlier micro-batches after ``after`` and up to ``until`` (ms)."""
        # The last chunk with points may end after ``until``.
        length = _POINTS_MS if level == _POINTS_LEVEL else _LENGTHS_MS[level - 1]
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
        ends = added.ts + -added.ts % length
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


def _cover(start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield (level, first, last): the longest chunks that cover the times ``start`` to ``end``.

    ``start`` and ``end`` are multiples of the shortest length (ms); the chunks of a level cover the
    times after ``first`` up to ``last``.

    >>> list(_cover(14_000, 34_000))
    [(1, 14000, 16000), (2, 16000, 32000), (1, 32000, 34000)]
    """
    while start < end:
        level = max(
            number
            for number, length in enumerate(_LENGTHS_MS, start=1)
            if start % length == 0 and start + length <= end
        )
        length = _LENGTHS_MS[level - 1]
        last = end - end % length
        if level < len(_LENGTHS_MS) and (rest := -start % _LENGTHS_MS[level]):
            last = min(last, start + rest)
        yield level, start, last
        start = last
