"""Sorted runs: the values of chunks of points, sorted by key and value, in blocks.

A reader that needs values of certain ranks reads the few blocks that can contain these values.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from analytics_worker.evaluate.history.aggregates import Integers
from analytics_worker.evaluate.history.chunks import RUN_LENGTHS_MS, chunk_ends, cover
from analytics_worker.operators.points import Floats

PAGE_VALUES = 512
"""The number of values in a page, which is read as a whole."""

_BLOCK = np.dtype(
    [
        ("key", np.int32), ("page", np.int32), ("first", np.int32), ("count", np.int32),
        ("min", np.float64), ("max", np.float64),
    ]
)  # fmt: skip
_SCHEMA = """
create table if not exists runs (
  route integer, level integer, ts integer, batch integer, blocks blob,
  primary key (route, level, ts, batch)
) without rowid;
create table if not exists pages (
  route integer, level integer, ts integer, batch integer, page integer, content blob,
  primary key (route, level, ts, batch, page)
) without rowid;
"""

RunName = tuple[int, int, int, int]
"""The route, the level, the end (ms) and the micro-batch of a run."""


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Blocks of sorted values: each has the values of one key in one page of a run.

    ``records``: an array with the fields of ``_BLOCK``. ``run``: the index of the run of each block
    in ``names``.
    """

    records: npt.NDArray[np.void]
    run: Integers
    names: Sequence[RunName] = ()
    connection: sqlite3.Connection | None = None
    pages: dict[tuple[RunName, int], Floats] = field(default_factory=dict)

    @classmethod
    def none(cls) -> "Blocks":
        """Return no blocks."""
        return cls(np.zeros(0, _BLOCK), np.zeros(0, np.int64))

    def by_key(self) -> Mapping[int, "Blocks"]:
        """Return key number -> the blocks of this key."""
        if not len(self.run):
            return {}
        order = np.argsort(self.records["key"], kind="stable")
        keys = self.records["key"][order]
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        parts = np.split(order, starts[1:])
        return {int(key): self.take(part) for key, part in zip(keys[starts], parts, strict=True)}

    def take(self, indices: Integers) -> "Blocks":
        """Return the blocks at the given indices."""
        return Blocks(
            self.records[indices], self.run[indices], self.names, self.connection, self.pages
        )

    @property
    def count(self) -> int:
        """The number of values in all blocks."""
        return int(self.records["count"].sum())

    def values(self) -> list[Floats]:
        """Read the values of each block."""
        found = []
        for record, run in zip(self.records, self.run.tolist(), strict=True):
            page = self._page(self.names[run], int(record["page"]))
            first = int(record["first"])
            found.append(page[first : first + int(record["count"])])
        return found

    def _page(self, name: RunName, number: int) -> Floats:
        page = self.pages.get((name, number))
        if page is None:
            assert self.connection is not None  # noqa: S101 - it has blocks
            (content,) = self.connection.execute(
                "select content from pages where route = ? and level = ? and ts = ? and batch = ?"
                " and page = ?",
                (*name, number),
            ).fetchone()
            page = self.pages[name, number] = np.frombuffer(content, np.float64)
        return page


class RunStore:
    """The runs in a file of points, written by micro-batches before the micro-batch ``batch``."""

    def __init__(self, connection: sqlite3.Connection, batch: int) -> None:
        self._connection = connection
        self._batch = batch

    @staticmethod
    def create(connection: sqlite3.Connection) -> None:
        """Create the tables, unless they exist."""
        connection.executescript(_SCHEMA)

    def delete_batch(self) -> None:
        """Delete what an earlier attempt of the micro-batch stored."""
        for table in ("runs", "pages"):
            self._connection.execute(f"delete from {table} where batch = ?", (self._batch,))  # noqa: S608

    def delete_until(self, route: int, ts: int) -> None:
        """Delete the runs of a pane that end at a time (ms) or earlier."""
        for table in ("runs", "pages"):
            for level in range(len(RUN_LENGTHS_MS)):
                self._connection.execute(
                    f"delete from {table} where route = ? and level = ? and ts <= ?",  # noqa: S608
                    (route, level, ts),
                )

    def add(self, route: int, level: int, key: Integers, ts: Integers, values: Floats) -> None:
        """Store points as runs: one for each chunk of the level."""
        ends = chunk_ends(ts, RUN_LENGTHS_MS[level])
        order = np.lexsort((values, key, ends))
        key, ends, values = key[order], ends[order], values[order]
        starts = np.flatnonzero(np.diff(ends, prepend=-1))
        for first, last in zip(starts.tolist(), [*starts[1:].tolist(), len(ends)], strict=True):
            name = route, level, int(ends[first]), self._batch
            self._insert(name, key[first:last], values[first:last])

    def blocks(self, route: int, levels: int, start: int, end: int) -> Blocks:
        """Return the blocks with the points from ``start`` to ``end`` (ms), in few runs.

        ``levels``: the number of levels that the pane has; both times are multiples of the length
        of the shortest chunk of a run.
        """
        names: list[RunName] = []
        parts = []
        for level, first, last in cover(start, end, RUN_LENGTHS_MS[:levels]):
            rows = self._connection.execute(
                "select ts, batch, blocks from runs where route = ? and level = ? and ts > ?"
                " and ts <= ? and batch < ?",
                (route, level, first, last, self._batch),
            )
            for ts, batch, content in rows:
                names.append((route, level, ts, batch))
                parts.append(np.frombuffer(content, _BLOCK))
        if not parts:
            return Blocks.none()
        run = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        return Blocks(np.concatenate(parts), run, names, self._connection)

    def _insert(self, name: RunName, key: Integers, values: Floats) -> None:
        """Store one run of values that are sorted by key and value."""
        at = np.arange(len(key))
        starts = np.flatnonzero((np.diff(key, prepend=-1) != 0) | (at % PAGE_VALUES == 0))
        ends = np.append(starts[1:], len(key))
        blocks = np.zeros(len(starts), _BLOCK)
        blocks["key"], blocks["page"] = key[starts], starts // PAGE_VALUES
        blocks["first"], blocks["count"] = starts % PAGE_VALUES, ends - starts
        blocks["min"], blocks["max"] = values[starts], values[ends - 1]
        execute = self._connection.execute
        execute("insert into runs values (?, ?, ?, ?, ?)", (*name, blocks.tobytes()))
        self._connection.executemany(
            "insert into pages values (?, ?, ?, ?, ?, ?)", _pages(name, values)
        )


def _pages(name: RunName, values: Floats) -> Iterator[tuple[int, int, int, int, int, bytes]]:
    for number, first in enumerate(range(0, len(values), PAGE_VALUES)):
        yield (*name, number, values[first : first + PAGE_VALUES].tobytes())
