"""The spool: bodies of points on this node's disk, in the order in which they came.

A SQLite file in WAL mode with full synchronisation: what ``append`` returned from survives a power
cut, and a disk that is full refuses without harm to what is there.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mistbow.errors import StorageFullError, UnavailableError
from storage_agent import metrics

T = TypeVar("T")

_TABLE = """
    create table if not exists bodies (
        id integer primary key autoincrement,
        key text not null,
        points integer not null,
        body blob not null
    )
"""


@dataclass(frozen=True, slots=True)
class Spooled:
    """A body that waits, as JSON, with its idempotency key."""

    id: int
    key: str
    points: int
    body: bytes


class Spool:
    """At most ``most_bytes`` of bodies; all work on the file is done in one thread."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        self.bodies = 0
        self._path = path
        self._most = most_bytes
        self._bytes = 0
        self._file: sqlite3.Connection | None = None
        # Made when there is something to keep: most agents never need it.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="spool")

    async def open(self) -> None:
        """Find what waits from before."""
        if self._path.exists():
            await self._run(self._open)

    async def append(self, key: str, body: bytes, points: int) -> None:
        """Keep a body; raises ``StorageFullError`` when it does not fit."""
        if self._bytes + len(body) > self._most:
            raise StorageFullError(
                f"Ignite is away, and what waits for it takes the {self._most} bytes that it may",
                hint="Try again when Ignite is back, or raise MISTBOW_SPOOL_MB.",
            )
        try:
            await self._run(self._insert, key, body, points)
        except sqlite3.Error as error:
            raise UnavailableError(
                f"Ignite is away, and this node's disk takes nothing: {error}",
                hint="Try again in a moment.",
            ) from error
        self._count(1, len(body))

    async def next(self, most: int, most_bytes: int) -> list[Spooled]:
        """Return the oldest bodies, at least one, and no more bytes than that together."""
        return await self._run(self._select, most, most_bytes)

    async def remove(self, done: Sequence[Spooled]) -> None:
        """Forget bodies, which are stored elsewhere."""
        await self._run(self._delete, done[-1].id)
        self._count(-len(done), -sum(len(each.body) for each in done))

    async def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            await self._run(self._file.close)
        self._thread.shutdown()

    async def _run(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def _count(self, bodies: int, size: int) -> None:
        self.bodies += bodies
        self._bytes += size
        metrics.SPOOLED_BODIES.set(self.bodies)
        metrics.SPOOLED_BYTES.set(self._bytes)

    # What follows runs in the spool's thread only.

    def _open(self) -> sqlite3.Connection:
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
            file.execute("pragma journal_mode=wal")
            file.execute("pragma synchronous=full")
            file.execute(_TABLE)
            found = file.execute("select count(*), coalesce(sum(length(body)), 0) from bodies")
            self._count(*found.fetchone())
            self._file = file
        return self._file

    def _insert(self, key: str, body: bytes, points: int) -> None:
        self._open().execute(
            "insert into bodies (key, points, body) values (?, ?, ?)", (key, points, body)
        )

    def _select(self, most: int, most_bytes: int) -> list[Spooled]:
        query = "select id, key, points, body from bodies order by id limit ?"
        found: list[Spooled] = []
        size = 0
        for row in self._open().execute(query, (most,)):
            each = Spooled(*row)
            size += len(each.body)
            if found and size > most_bytes:
                break
            found.append(each)
        return found

    def _delete(self, last: int) -> None:
        self._open().execute("delete from bodies where id <= ?", (last,))
