"""The spool: request bodies with points, on this node's disk, in the order of their arrival.

Once ``append`` has returned, the body survives a power cut. A full disk does not damage the file.
The idempotency key of a body is retained for ten minutes after the body is stored in Ignite, to
recognize a repeated body.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from mistbow.errors import StorageFullError, UnavailableError
from mistbow.telemetry import get_logger
from storage_agent import metrics
from storage_agent.log_limit import LogLimit
from storage_agent.request_key import RequestKey
from storage_agent.store_and_forward.spool_file import (
    SpooledBody,
    SpoolFile,
    Status,
    is_damage,
)
from storage_agent.work_threads import upkeep_beside

log = get_logger(__name__)

T = TypeVar("T")


class Spool:
    """Stores up to ``max_bytes`` bytes of bodies in a file, which a single thread accesses."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.problem: str | None = None
        self._file = SpoolFile(path)
        self._max_bytes = max_bytes
        self._reserved = 0
        self._opened_once = False
        self._log_limit = LogLimit()
        # The file is created with the first body: most agents never need it.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="spool")

    @property
    def bodies(self) -> int:
        """The number of bodies that wait."""
        return self._file.bodies

    @property
    def is_open(self) -> bool:
        """Whether ``open`` has succeeded; until then, ``bodies`` is 0 although bodies may wait."""
        return self._opened_once

    async def open(self) -> None:
        """Open the file that an earlier process may have left, and count the bodies in the file.

        After the first success, further calls have no effect. ``problem`` is set while the file
        cannot be opened.
        """
        if self._opened_once:
            return
        try:
            if await self._work(self._file.exists):
                await self._work(self._file.open)
        except UnavailableError as error:
            self.problem = error.text
            raise
        self.problem = None
        self._opened_once = True

    async def status(self, key: RequestKey) -> Status | None:
        """Return the status of the body that has an idempotency key; None if the key is unknown.

        Raises ``ReusedKeyError`` if the key belongs to another body.
        """
        await self.open()
        is_empty = not (self._file.bodies or self._file.stored_keys)
        return None if is_empty else await self._work(self._file.find, key)

    async def append(self, key: RequestKey, body: bytes, points: int) -> None:
        """Store a body, unless the spool already has the body's idempotency key.

        ``points``: the number of points in the body. Raises ``ReusedKeyError`` if the key belongs
        to another body, and ``StorageFullError`` if the body exceeds the remaining space.
        """
        size = len(body)
        if self._file.bytes + self._reserved + size > self._max_bytes:
            raise StorageFullError(
                "Ignite is unavailable, and the spool is full: "
                f"the limit is {self._max_bytes} bytes",
                hint="Try again when Ignite is back, or raise MISTBOW_SPOOL_MB.",
            )
        # The file counts the body when it is stored; for a moment, the body is counted twice.
        self._reserved += size
        try:
            await self._work(self._file.insert, key, body, points)
        finally:
            self._reserved -= size

    async def next(self, count: int, max_bytes: int) -> list[SpooledBody]:
        """Return up to ``count`` of the oldest bodies, with up to ``max_bytes`` bytes in total.

        The oldest body is returned even if it is larger than ``max_bytes``. Damaged bodies are set
        aside.
        """
        return await self._work(self._file.select, count, max_bytes)

    async def remove(self, done: Sequence[SpooledBody]) -> None:
        """Remove bodies that are stored in Ignite, but retain the bodies' keys for ten minutes."""
        await self._work(self._file.delete, [each.id for each in done])

    async def set_aside(self, body: SpooledBody, error: str) -> None:
        """Move a body that cannot be decoded or stored from the spool into a file of its own."""
        await self._work(self._file.set_aside, body, error)

    async def remove_stored(self, is_stored: Callable[[RequestKey], bool]) -> None:
        """Remove the bodies whose points Ignite already has.

        ``is_stored``: given the key of a body, returns whether Ignite has the body's points.
        """
        after = 0
        while some := await self._work(self._file.keys_after, after):
            after = some[-1][0]
            done = [each for each, key in some if is_stored(key)]
            await self._work(self._file.delete, done)

    async def forget_bodies(self) -> None:
        """Forget the keys of stored bodies that were derived from the bodies.

        The same bodies can then store their points again, after a deletion.
        """
        if self._file.stored_keys:
            await self._work(self._file.forget_bodies)

    async def damaged(self) -> list[Path]:
        """Return the damaged parts of the spool that are set aside, until they are deleted."""
        found = await upkeep_beside(self._file.damaged)
        metrics.SPOOL_DAMAGED_FILES.set(len(found))
        return found

    async def close(self) -> None:
        """Close the file, and end the thread of the spool."""
        await self._work(self._file.close)
        self._thread.shutdown()

    async def _work(self, work: Callable[..., T], *arguments: Any) -> T:
        """Call a function in the spool's thread; repeat it once after the repair of a damage."""

        def attempt() -> T:
            try:
                return work(*arguments)
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                self._file.rebuild(error)
                return work(*arguments)

        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, attempt)
        except (sqlite3.Error, OSError) as error:
            hint = "Check the disk of this node, and the owner of the file, and try again."
            # On a full disk, each request fails.
            if (suppressed := self._log_limit.permit()) is not None:
                log.warning("spool_io_failed", error=str(error), hint=hint, suppressed=suppressed)
            raise UnavailableError(
                f"the spool {self._file.path} cannot be read or written: {error}", hint=hint
            ) from error
        finally:
            metrics.SPOOLED_BODIES.set(self._file.bodies)
            metrics.SPOOLED_BYTES.set(self._file.bytes)
