"""What can be changed while an agent runs: how long streams are kept, and in how much room."""

import asyncio
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mistbow.clock import Clock
from mistbow.errors import InvalidRequestError
from mistbow.settings import AgentSettings
from storage_agent.ignite_client import IgniteClient
from storage_agent.streams.housekeeping import Bound
from storage_agent.streams.index import EARLIEST
from storage_agent.streams.log import StreamLog
from storage_agent.text_cell import TextCell

_KEY = "configuration"
_STORE_S = 5.0
_DAY_MS = 86_400_000
_MOST_MS = 36_525 * _DAY_MS

Millis = Annotated[int, Meta(ge=1000, le=_MOST_MS)]
Bytes = Annotated[int, Meta(ge=2**20, le=2**60)]
WhenFull = Literal["evict", "refuse"]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """``retention_ms``: rows go so long after they came; None: never.

    ``streams``: the same for single streams, or for all that begin alike: ``results/*``.
    ``most_bytes``: what all streams may take; None: all there is. ``when_full``: what then.
    """

    retention_ms: Millis | None
    streams: dict[str, Millis | None]
    most_bytes: Bytes | None
    when_full: WhenFull

    def retention_of(self, stream: str) -> int | None:
        """Return how long a stream's rows are kept, milliseconds; None: for ever.

        >>> config = Config(retention_ms=5000, streams={"a/*": 2000, "a/b": None},
        ...     most_bytes=None, when_full="evict")
        >>> [config.retention_of(name) for name in ("a/b", "a/c", "b")]
        [None, 2000, 5000]
        """
        if stream in self.streams:
            return self.streams[stream]
        fitting = [
            name
            for name in self.streams
            if name.endswith("*") and stream.startswith(name.removesuffix("*"))
        ]
        return self.streams[max(fitting, key=len)] if fitting else self.retention_ms


class ConfigChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change; what is left out stays. A null in ``streams`` keeps that stream for ever."""

    retention_ms: Millis | UnsetType | None = UNSET
    streams: Annotated[dict[str, Millis | None], Meta(max_length=1000)] | UnsetType = UNSET
    most_bytes: Bytes | UnsetType | None = UNSET
    when_full: WhenFull | UnsetType = UNSET


class ConfigCell:
    """The configuration as it is now; what was changed is kept in Ignite, the rest is settings."""

    def __init__(self, settings: AgentSettings, ignite: IgniteClient) -> None:
        self._ignite = ignite
        self._lock = asyncio.Lock()
        self._cell = TextCell(ignite, _KEY)
        self._changed: dict[str, object] = {}
        self._settings: dict[str, object] = {
            "retention_ms": settings.retention_s and settings.retention_s * 1000,
            "streams": {},
            "most_bytes": settings.max_disk_mb and settings.max_disk_mb * 2**20,
            "when_full": settings.when_full,
        }
        self.current = self._made({})

    async def load(self) -> None:
        """Read what was changed."""
        self._adopt(await self._cell.load())

    async def change(self, change: ConfigChange) -> Config:
        """Change something, for good, whoever changes something else at the same time.

        Raises ``InvalidRequestError`` for a name that fits none, and ``UnavailableError``: then it
        may be stored all the same.
        """
        given = {
            name: value
            for name in change.__struct_fields__
            if (value := getattr(change, name)) is not UNSET
        }
        for name in given.get("streams", {}):
            if not name or "*" in name.removesuffix("*"):
                hint = "A stream's name, or how several begin and a *: results/*"
                raise InvalidRequestError(f"streams: {name!r} names no streams", hint=hint)
        async with self._lock:
            await self._ignite.insist(lambda: self._store(given), _STORE_S)
            return self.current

    async def _store(self, given: dict[str, object]) -> None:
        """Store what is given beside what others changed; may be repeated after an error.

        By compare-and-set: a change that was given up, and lands late, undoes none after it.
        """
        while True:
            text = msgspec.json.encode({**self._changed, **given}, order="deterministic").decode()
            if text == self._cell.text or await self._cell.swap(text):
                self._adopt(text)
                return
            await self.load()

    def _adopt(self, stored: str | None) -> None:
        self._changed = {} if stored is None else msgspec.json.decode(stored)
        self.current = self._made(self._changed)

    def bound(self) -> Bound:
        """Return how much room streams may take."""
        return Bound(self.current.most_bytes, self.current.when_full == "evict")

    def expired_before(self, log: StreamLog, clock: Clock) -> int:
        """Return the time (ms) before which what came to a stream has expired."""
        retention = self.current.retention_of(log.name)
        if retention is None:
            return EARLIEST
        now = clock()
        held = [keep_ms for keep_ms, _ in log.holds(now).values()]
        return now - max(retention, *held, 0)

    def _made(self, changed: dict[str, object]) -> Config:
        return msgspec.convert({**self._settings, **changed}, Config)
