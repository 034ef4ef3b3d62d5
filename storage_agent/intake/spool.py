"""The spool: bodies of points on this node's disk, in the order in which they came.

A SQLite file in WAL mode with full synchronisation: what ``append`` returned from survives a power
cut, and a disk that is full refuses without harm to what is there. The keys of bodies stay for a
while after these are stored elsewhere, so that a repeat is told from a new body, however many there
are.
"""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from mistbow.errors import StorageFullError, UnavailableError
from mistbow.telemetry import get_logger
from storage_agent import metrics

log = get_logger(__name__)

T = TypeVar("T")

_AGE_S = 600.0
_KEYS_AT_ONCE = 1000
_TABLES = """
    create table if not exists bodies (
        id integer primary key autoincrement,
        key text not null unique,
        points integer not null,
        body blob not null
    );
    create table if not exists stored (
        key text primary key,
        since real not null
    );
    create index if not exists stored_since on stored (since);
"""

Known = Literal["waiting", "stored"]
"""What of a body is known by its key: it waits here, or came out of here lately."""


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
        self._looked = False
        self._keys = 0  # of bodies that are stored
        self._path = path
        self._most = most_bytes
        self._bytes = 0
        self._file: sqlite3.Connection | None = None
        # Made when there is something to keep: most agents never need it.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="spool")

    async def open(self) -> None:
        """Find what waits from before."""
        if self._path.exists():
            await self._work(self._open)
        self._count(0, 0)
        self._looked = True

    async def known(self, key: str) -> Known | None:
        """Return what is known of the body of a key."""
        if not self._looked:
            await self.open()
        return await self._work(self._find, key) if self.bodies or self._keys else None

    async def append(self, key: str, body: bytes, points: int) -> None:
        """Keep a body unless its key is known; raises ``StorageFullError`` when it does not fit."""
        if self._bytes + len(body) > self._most:
            raise StorageFullError(
                f"Ignite is away, and what waits for it takes the {self._most} bytes that it may",
                hint="Try again when Ignite is back, or raise MISTBOW_SPOOL_MB.",
            )
        if await self._work(self._insert, key, body, points):
            self._count(1, len(body))

    async def next(self, most: int, most_bytes: int) -> list[Spooled]:
        """Return the oldest bodies, at least one, and no more bytes than that together."""
        return await self._work(self._select, most, most_bytes)

    async def remove(self, done: Sequence[Spooled]) -> None:
        """Forget bodies, which are stored elsewhere; their keys are known for a while yet."""
        await self._work(self._delete, [each.id for each in done])
        self._count(-len(done), -sum(len(each.body) for each in done))

    async def settle(self, is_stored: Callable[[str], bool]) -> None:
        """Forget the bodies of keys that are stored elsewhere already."""
        after = 0
        while some := await self._work(self._keys_after, after):
            after = some[-1][0]
            done = [(each, size) for each, key, size in some if is_stored(key)]
            await self._work(self._delete, [each for each, _ in done])
            self._count(-len(done), -sum(size for _, size in done))

    async def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            await self._work(self._file.close)
        self._thread.shutdown()

    async def _work(self, work: Callable[..., T], *arguments: Any) -> T:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, work, *arguments)
        except sqlite3.Error as error:
            log.warning("the spool does not work", error=str(error))
            raise UnavailableError(
                f"this node's disk, where points wait for Ignite, does not work: {error}",
                hint="Try again in a moment.",
            ) from error

    def _count(self, bodies: int, size: int) -> None:
        self.bodies += bodies
        self._bytes += size
        metrics.SPOOLED_BODIES.set(self.bodies)
        metrics.SPOOLED_BYTES.set(self._bytes)

    # What follows runs in the spool's thread only.

    def _open(self) -> sqlite3.Connection:
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._file = self._opened()
            except sqlite3.OperationalError:
                raise  # the disk is full, say: it may be better the next time
            except sqlite3.DatabaseError as error:
                damaged = f"{self._path.name}.damaged-{time.time_ns()}"
                log.error("the spool is damaged and set aside", kept=damaged, error=str(error))
                for part in self._path.parent.glob(f"{self._path.name}*"):
                    if ".damaged-" not in part.name:
                        part.rename(part.with_name(part.name.replace(self._path.name, damaged)))
                self._file = self._opened()
        return self._file

    def _opened(self) -> sqlite3.Connection:
        file = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
        file.execute("pragma journal_mode=wal")
        file.execute("pragma synchronous=full")
        file.executescript(_TABLES)
        found = file.execute("select count(*), coalesce(sum(length(body)), 0) from bodies")
        self._count(*found.fetchone())
        # The time before this start counts for nothing: nobody could repeat anything.
        file.execute("update stored set since = ?", (time.monotonic(),))
        [self._keys] = file.execute("select count(*) from stored").fetchone()
        return file

    def _insert(self, key: str, body: bytes, points: int) -> bool:
        if self._find(key):
            return False
        self._open().execute(
            "insert into bodies (key, points, body) values (?, ?, ?)", (key, points, body)
        )
        return True

    def _find(self, key: str) -> Known | None:
        file = self._open()
        if file.execute("select 1 from bodies where key = ?", (key,)).fetchone():
            return "waiting"
        with contextlib.suppress(sqlite3.Error):  # a disk that is full hinders nobody from reading
            self._forget_keys()
        known = "select 1 from stored where key = ? and since >= ?"
        found = file.execute(known, (key, time.monotonic() - _AGE_S)).fetchone()
        return "stored" if found else None

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

    def _keys_after(self, after: int) -> list[tuple[int, str, int]]:
        query = "select id, key, length(body) from bodies where id > ? order by id limit ?"
        return self._open().execute(query, (after, _KEYS_AT_ONCE)).fetchall()

    def _delete(self, ids: Sequence[int]) -> None:
        """Have only the keys of bodies be left."""
        now = time.monotonic()
        with self._open() as file:
            file.execute("begin")
            file.executemany(
                "insert or replace into stored select key, ? from bodies where id = ?",
                [(now, each) for each in ids],
            )
            file.executemany("delete from bodies where id = ?", [(each,) for each in ids])
        self._keys += len(ids)

    def _forget_keys(self) -> None:
        before = time.monotonic() - _AGE_S
        self._keys -= self._open().execute("delete from stored where since < ?", (before,)).rowcount
