"""The journal: what this site says of itself, in its stream ``metadata``."""

import asyncio
import secrets
from typing import Any

from mistbow.clock import Clock
from mistbow.errors import FencedError, UnavailableError
from mistbow.streams.events import event_rows
from mistbow.streams.schemas import EVENTS, METADATA
from mistbow.telemetry import get_logger
from storage_agent.fabric.facts import GONE, Facts, as_event, learn, read_facts
from storage_agent.streams.streams import Stream, Streams

log = get_logger(__name__)

STORE = "store"
"""The attribute that names the store: numbers of the stream mean something in that one only."""

_AT_ONCE = 5000
_PAUSE_S = 0.5
_SETTLE_S = 5.0


class Journal:
    """Writes what changes; whoever tells something waits for that only if it has to be sure."""

    def __init__(self, clock: Clock) -> None:
        self.facts: Facts = {}
        self._clock = clock
        self._told: Facts = {}
        self._woken = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._stream: Stream | None = None
        self._fenced: FencedError | None = None
        self._epoch = 0

    def tell(self, key: str, event: Any) -> None:
        """Say what is so now; None: the key is no more. What was said last counts."""
        self._told[key] = as_event(event)
        self._woken.set()

    async def settled(self) -> None:
        """Return when all that was told is stored; raises ``UnavailableError`` if it is not yet."""
        if self._fenced is not None:
            raise self._fenced
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._woken.set()
        try:
            async with asyncio.timeout(_SETTLE_S):
                await done
        except TimeoutError as error:
            raise UnavailableError(
                "this is not stored yet: a restart of the agent would undo it",
                hint="It will be stored once Ignite answers. Try again to be sure.",
            ) from error

    async def open(self, streams: Streams) -> None:
        """Recover what was said, and own the stream; raises ``UnavailableError``."""
        await streams.create(METADATA, EVENTS)
        stream = await streams.get(METADATA)
        self._epoch = (await stream.writer.claim()).epoch
        if STORE not in stream.log.attributes:
            await stream.writer.advance(self._epoch, attributes={STORE: secrets.token_hex(8)})
        self.facts = await read_facts(stream)
        self._stream = stream

    async def write(self) -> None:
        """Write what is told, for ever; the journal must be open."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            # Who comes to wait while this writes has told something since, perhaps.
            waiting, self._waiting = self._waiting, []
            try:
                await self._write_all()
                for done in waiting:
                    if not done.done():
                        done.set_result(None)
            except UnavailableError:
                self._waiting += waiting
                self._woken.set()
                await asyncio.sleep(_PAUSE_S)
            except FencedError as error:
                log.error("another agent writes this site's metadata; stop this one")
                self._fenced = error
                for done in (*waiting, *self._waiting):
                    if not done.done():
                        done.set_exception(error)
                return

    async def _write_all(self) -> None:
        assert self._stream is not None  # noqa: S101 - open() came first
        while new := self._new():
            rows = event_rows(self._clock(), new)
            await self._stream.writer.append(rows, epoch=self._epoch)
            learn(self.facts, rows)

    def _new(self) -> Facts:
        """Return some of what was told that is not written; forget what is."""
        told = self._told
        for key in [key for key, event in told.items() if self.facts.get(key, GONE) == event]:
            del told[key]
        return {key: told[key] for key in list(told)[:_AT_ONCE]}
