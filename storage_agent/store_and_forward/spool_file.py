"""The file of the spool; damaged parts are moved to another file, and readable bodies stay.

Each body has a checksum, since SQLite itself has none. A damaged file is replaced by one with the
bodies that are still readable. The damaged file and damaged bodies remain beside it, as files
``NAME.damaged-…``, until an operator deletes them.
"""

import contextlib
import math
import shutil
import sqlite3
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mistbow.files import write_file
from mistbow.telemetry import get_logger
from storage_agent.request_key import BODY_MARK, RequestKey
from storage_agent.store_and_forward import wal_repair
from storage_agent.store_and_forward.acknowledged_id import AcknowledgedId

log = get_logger(__name__)

_KEY_AGE_S = 600.0
_KEY_BATCH = 1000
_MAX_ID = 2**62
_MAX_ATTEMPTS = 5_000
"""The maximum number of reads that search for the readable bodies of a damaged file."""

_PAGE_BYTES = 4096
_JOURNAL_AT = 18
_SIZE_AT = 28
"""The offset of the number of pages in the first page; 0: SQLite derives it from the file."""

_TABLES = """
    create table if not exists bodies (
        id integer primary key autoincrement,
        key text not null unique,
        points integer not null,
        body blob not null,
        checksum integer,
        digest integer
    );
    create table if not exists stored (
        key text primary key,
        since real not null,
        digest integer
    );
    create index if not exists stored_since on stored (since);
"""
_COLUMNS = "id, key, points, body, checksum, digest"
_ADDED_COLUMNS = (("bodies", "checksum"), ("bodies", "digest"), ("stored", "digest"))
"""The columns (table, name) that the files of earlier versions lack, in the order of addition."""

Status = Literal["waiting", "stored"]
"""``waiting``: the body waits in the spool; ``stored``: the body was recently stored in Ignite."""


@dataclass(frozen=True, slots=True)
class SpooledBody:
    """A body (JSON) that waits in the spool, its idempotency key, and its number of points."""

    id: int
    key: RequestKey
    points: int
    body: bytes


class SpoolFile:
    """A SQLite file in WAL mode with full synchronisation, which a single thread accesses.

    ``bodies`` and ``bytes``: the number and the size of the waiting bodies. ``stored_keys``: the
    number of remembered keys of stored bodies. Other threads may read these, but do not set them.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bodies = 0
        self.bytes = 0
        self.stored_keys = 0
        self._rebuilt = path.with_name(f"{path.name}.rebuilt")
        self._acknowledged = AcknowledgedId(path.with_name(f"{path.name}-acknowledged"))
        self._forgotten_at = -math.inf
        self._connection: sqlite3.Connection | None = None

    def exists(self) -> bool:
        """Return whether an earlier process has left a file."""
        return self.path.exists() or self._rebuilt.exists()

    def damaged(self) -> list[Path]:
        """Return the files that were set aside and not yet deleted."""
        found = self.path.parent.glob(f"{self.path.name}.damaged-*")
        return sorted(file for file in found if not file.name.endswith(("-shm", "-wal")))

    def open(self) -> sqlite3.Connection:
        """Open the file, after a repair if it is damaged; return the connection."""
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._finish_rebuild()
            try:
                self._connection = self._opened()
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise  # a full disk, for example: the next attempt may succeed
                self._connection = self._rebuild(error)
            self._measure()
        return self._connection

    def rebuild(self, error: sqlite3.Error) -> None:
        """Replace the file by one with all its readable bodies; ``error``: the damage."""
        self.close()
        self._connection = self._rebuild(error)
        self._measure()

    def close(self) -> None:
        """Close the file."""
        self._acknowledged.close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def insert(self, key: RequestKey, body: bytes, points: int) -> None:
        """Store a body, unless its key is known.

        Raises ``ReusedKeyError`` if the key belongs to another body.
        """
        if self.find(key):
            return
        row = (None, key.text, points, body, None, key.digest or None)
        # The commit waits for the disk, so the id is that of a durable body.
        id = _insert(self.open(), row)
        self.bodies += 1
        self.bytes += len(body)
        self._acknowledged.write(id)

    def find(self, key: RequestKey) -> Status | None:
        """Return the status of the body that has a key; None: the key is unknown.

        Raises ``ReusedKeyError`` if the key belongs to another body.
        """
        file = self.open()
        query = "select digest from bodies where key = ?"
        if found := file.execute(query, (key.text,)).fetchone():
            key.check(found[0] or 0)
            return "waiting"
        with contextlib.suppress(sqlite3.OperationalError):  # a full disk must not prevent reading
            self._expire_keys()
        before = time.monotonic() - _KEY_AGE_S
        if BODY_MARK in key.text:
            before = max(before, self._forgotten_at)
        query = "select digest from stored where key = ? and since > ?"
        found = file.execute(query, (key.text, before)).fetchone()
        if not found:
            return None
        key.check(found[0] or 0)
        return "stored"

    def select(self, count: int, max_bytes: int) -> list[SpooledBody]:
        """Return up to ``count`` of the oldest bodies, with up to ``max_bytes`` bytes in total.

        The oldest body is returned even if it is larger than ``max_bytes``. Bodies that do not
        match their checksum are set aside.
        """
        found: list[SpooledBody] = []
        damaged: list[Any] = []
        size = 0
        query = f"select {_COLUMNS} from bodies order by id limit ?"  # noqa: S608 - constants
        for row in self.open().execute(query, (count,)):
            if not _is_intact(row):
                damaged.append(row)
                continue
            size += len(row[3])
            if found and size > max_bytes:
                break
            found.append(SpooledBody(row[0], RequestKey(row[1], row[5] or 0), *row[2:4]))
        for row in damaged:
            self._set_aside(row, "the body does not match its checksum")
        return found

    def set_aside(self, body: SpooledBody, error: str) -> None:
        """Move a body that cannot be decoded or stored from the spool into a file of its own."""
        self._set_aside((body.id, body.key.text, body.points, body.body), error)
        self._measure()

    def keys_after(self, after: int) -> list[tuple[int, RequestKey]]:
        """Return (id, key) of the next bodies after the id ``after``."""
        query = "select id, key, digest from bodies where id > ? order by id limit ?"
        rows = self.open().execute(query, (after, _KEY_BATCH))
        return [(id, RequestKey(key, digest or 0)) for id, key, digest in rows]

    def delete(self, ids: Sequence[int]) -> None:
        """Remove bodies that are stored in Ignite, and record their keys."""
        now = time.monotonic()
        with self.open() as file:
            file.execute("begin")
            sizes = [size for each in ids for size in _size(file, each)]
            file.executemany(
                "insert or replace into stored select key, ?, digest from bodies where id = ?",
                [(now, each) for each in ids],
            )
            file.executemany("delete from bodies where id = ?", [(each,) for each in ids])
        self.bodies -= len(sizes)
        self.bytes -= sum(sizes)
        self.stored_keys += len(sizes)

    def forget_bodies(self) -> None:
        """Forget the keys of stored bodies that were derived from the bodies."""
        self._forgotten_at = time.monotonic()
        with contextlib.suppress(sqlite3.OperationalError):  # a full disk must not prevent this
            forgotten = self.open().execute("delete from stored where instr(key, ?)", (BODY_MARK,))
            self.stored_keys -= forgotten.rowcount

    def _opened(self) -> sqlite3.Connection:
        wal = self._beside("-wal")
        written = wal.read_bytes() if wal.exists() else b""
        if not self.path.exists():
            self._acknowledged.write(0)
        file = _connect(self.path)
        try:
            file.execute("select count(*) from sqlite_master").fetchone()
            if self._is_log_damaged(file, written):
                repaired = self._repaired(written)
                file.close()  # which stores what SQLite has read of the log, and deletes the log
                self._beside("-shm").unlink(missing_ok=True)
                wal.write_bytes(repaired)
                file = _connect(self.path)
            elif lost := self._lost_bodies(file):
                error = (
                    f"the end of the write-ahead log, with {lost} acknowledged bodies, is missing"
                )
                self._set_log_aside(written, error)
            _prepare(file)
            # What is missing is reported once.
            self._acknowledged.write(_max_id(file))
        except sqlite3.Error:
            file.close()
            raise
        return file

    def _is_log_damaged(self, file: sqlite3.Connection, written: bytes) -> bool:
        index = self._beside("-shm")
        if not written or not index.exists():
            return False
        lost = wal_repair.count_lost_commits(written, index.read_bytes())
        # A power cut can tear one commit, which is then not acknowledged.
        return lost > 1 or (lost == 1 and self._lost_bodies(file) > 0)

    def _lost_bodies(self, file: sqlite3.Connection) -> int:
        """Return the number of bodies that the spool has acknowledged after its last one."""
        return max(0, self._acknowledged.read() - _max_id(file))

    def _repaired(self, written: bytes) -> bytes:
        """Set a copy of a damaged log aside, and return the repaired log."""
        self._set_log_aside(written, "the write-ahead log is damaged")
        return wal_repair.repair(written, self.path.stat().st_size // 512)

    def _set_log_aside(self, written: bytes, error: str) -> None:
        copy = self._damaged_name()
        copy.write_bytes(written)
        log.error("spool_damaged", moved_to=copy.name, error=error)

    def _rebuild(self, error: sqlite3.Error) -> sqlite3.Connection:
        """Write the readable bodies to a new file, and then replace the damaged file by it."""
        self._rebuilt.unlink(missing_ok=True)
        bodies = points = 0
        with contextlib.closing(_connect(self._rebuilt, "delete")) as new:
            new.executescript(_TABLES)
            new.execute("begin")
            with self._salvageable() as old:
                for row in _readable(old):
                    _insert(new, row)
                    bodies, points = bodies + 1, points + row[2]
                with contextlib.suppress(sqlite3.DatabaseError):
                    for row in old.execute("select key, since, digest from stored"):
                        new.execute("insert or ignore into stored values (?, ?, ?)", row)
            new.execute("commit")
        damaged = self._damaged_name()
        log.error(
            "spool_damaged",
            moved_to=damaged.name,
            error=str(error),
            recovered_bodies=bodies,
            recovered_points=points,
        )
        self._acknowledged.write(0)
        for ending in ("-shm", "-wal", ""):
            with contextlib.suppress(FileNotFoundError):
                self._beside(ending).rename(damaged.with_name(damaged.name + ending))
        self._finish_rebuild()
        return self._opened()

    @contextlib.contextmanager
    def _salvageable(self) -> Iterator[sqlite3.Connection]:
        """Open a copy of the damaged file, whose first page is new, so that SQLite accepts it.

        The first page has the schema, and the size, which is wrong if the file was truncated.
        """
        with tempfile.TemporaryDirectory(dir=self.path.parent, prefix="salvage-") as folder:
            copy = Path(folder, self.path.name)
            shutil.copyfile(self.path, copy)
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(self._beside("-wal"), f"{copy}-wal")
            with copy.open("r+b") as file:
                file.write(_first_page())
            with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as old:
                old.text_factory = _text
                yield old

    def _finish_rebuild(self) -> None:
        if not self._rebuilt.exists():
            return
        if self.path.exists():
            self._rebuilt.unlink()  # not complete: the damaged file is set aside after it is
        else:
            self._rebuilt.rename(self.path)

    def _set_aside(self, row: Sequence[Any], error: str) -> None:
        file = self._beside(f".damaged-{time.time_ns()}.json")
        content = row[3] if isinstance(row[3], bytes) else str(row[3]).encode(errors="replace")
        # The file is durable before the deletion: a power cut must not lose both copies.
        write_file(file, content)
        log.error("spool_damaged", moved_to=file.name, error=error, lost_points=row[2])
        self.open().execute("delete from bodies where id = ?", (row[0],))
        self.bodies -= 1
        self.bytes -= len(content)

    def _measure(self) -> None:
        if self._connection is None:
            return
        query = "select count(*), coalesce(sum(length(body)), 0) from bodies"
        self.bodies, self.bytes = self._connection.execute(query).fetchone()
        [self.stored_keys] = self._connection.execute("select count(*) from stored").fetchone()

    def _expire_keys(self) -> None:
        before = time.monotonic() - _KEY_AGE_S
        expired = self.open().execute("delete from stored where since < ?", (before,))
        self.stored_keys -= expired.rowcount

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    def _damaged_name(self) -> Path:
        return self._beside(f".damaged-{time.time_ns()}")


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error of SQLite means that the file is damaged, and not its disk."""
    return type(error) is sqlite3.DatabaseError


def _connect(path: Path, journal: str = "wal") -> sqlite3.Connection:
    file = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    file.text_factory = _text
    try:
        file.execute(f"pragma journal_mode={journal}")
        file.execute("pragma synchronous=full")
    except sqlite3.Error:
        file.close()
        raise
    return file


def _prepare(file: sqlite3.Connection) -> None:
    """Check the structure of a file, and create missing tables.

    Raises ``sqlite3.DatabaseError`` if the structure is damaged.
    """
    [problem] = file.execute("pragma quick_check(1)").fetchone()
    if problem != "ok":
        raise sqlite3.DatabaseError(str(problem))
    file.executescript(_TABLES)
    for table, column in _ADDED_COLUMNS:
        if column not in {row[1] for row in file.execute(f"pragma table_info({table})")}:
            file.execute(f"alter table {table} add column {column} integer")
    # Keys do not age while the agent is down: no client could repeat a body.
    file.execute("update stored set since = ?", (time.monotonic(),))


def _text(data: bytes) -> str:
    """Return a text that may be damaged; its checksum is compared later."""
    return data.decode(errors="replace")


def _checksum(key: str, points: int, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(f"{key}\0{points}\0".encode()))


def _is_intact(row: Sequence[Any]) -> bool:
    _, key, points, body, checksum, _ = row
    typed = isinstance(key, str) and isinstance(points, int) and isinstance(body, bytes)
    # An earlier version stored no checksums.
    return typed and checksum in (None, _checksum(key, points, body))


def _insert(file: sqlite3.Connection, row: Sequence[Any]) -> int:
    """Insert a body; return its id."""
    id, key, points, body, _, digest = row
    query = f"insert or ignore into bodies ({_COLUMNS}) values (?, ?, ?, ?, ?, ?)"  # noqa: S608
    inserted = file.execute(query, (id, key, points, body, _checksum(key, points, body), digest))
    return inserted.lastrowid or 0


def _size(file: sqlite3.Connection, id: int) -> list[int]:
    """Return the size of the body with an id; empty: there is no such body."""
    return [size for (size,) in file.execute("select length(body) from bodies where id = ?", (id,))]


def _first_page() -> bytes:
    """Return the first page of an empty spool, in which the size of the file is left open.

    Equal statements created the tables of each spool, so their first pages are equal too. A column
    that was added later is null in earlier rows.
    """
    with contextlib.closing(sqlite3.connect(":memory:")) as file:
        file.executescript(_TABLES)
        page = bytearray(file.serialize()[:_PAGE_BYTES])
    page[_SIZE_AT : _SIZE_AT + 4] = bytes(4)
    page[_JOURNAL_AT : _JOURNAL_AT + 2] = b"\2\2"  # a write-ahead log, if there is one
    return bytes(page)


def _max_id(file: sqlite3.Connection) -> int:
    """Return the greatest id that was ever given to a body in a file; 0: none."""
    table = "select 1 from sqlite_master where name = 'sqlite_sequence'"
    if not file.execute(table).fetchone():
        return 0
    [last] = file.execute("select max(seq) from sqlite_sequence").fetchone()
    return last if isinstance(last, int) else 0


def _last_id(file: sqlite3.Connection) -> int:
    with contextlib.suppress(sqlite3.DatabaseError):
        [last] = file.execute("select seq from sqlite_sequence").fetchone() or (_MAX_ID,)
        if isinstance(last, int) and last > 0:
            return last
    return _MAX_ID


def _readable(file: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
    """Yield the intact rows of a damaged file, by the order of their ids.

    A range of ids that cannot be read is divided into halves, down to single rows.
    """
    query = f"select {_COLUMNS} from bodies where id between ? and ? order by id"  # noqa: S608
    ranges = [(0, _last_id(file))]
    for _ in range(_MAX_ATTEMPTS):
        if not ranges:
            return
        first, last = ranges.pop()
        try:
            for row in file.execute(query, (first, last)):
                first = row[0] + 1
                if _is_intact(row):
                    yield row
        except sqlite3.DatabaseError:
            middle = (first + last) // 2
            if first < last:
                ranges += [(middle + 1, last), (first, middle)]
