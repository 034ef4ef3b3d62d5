"""The journal: writes this site's facts to its stream ``metadata``."""

import asyncio
import math
import secrets
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mistbow.clock import Clock
from mistbow.errors import FencedError, TooLargeError, UnavailableError
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.runtime.slices import Slices
from mistbow.streams.events import REMOVED, event_rows
from mistbow.streams.schemas import EVENTS, METADATA
from mistbow.telemetry import get_logger
from storage_agent.membership.facts import (
    Facts,
    apply_events,
    encode_fact,
    read_facts,
)
from storage_agent.streams.streams import Stream, Streams

log = get_logger(__name__)

STORE = "store"
"""The name of the attribute that contains the name of a site's store.

Positions in different stores are unrelated.
"""

_MAX_EVENTS = 1000
_MAX_BYTES = 2**20
"""The maximum number of events in one append, and their maximum size (bytes).

Ignite limits the size of a segment. A single event may be larger.
"""
_MAX_QUOTED = 100

_RETRY_S = 0.5
_FLUSH_S = 5.0


def fact_batches(events: Iterable[tuple[str, str]]) -> Iterator[dict[str, str]]:
    """Yield events, key -> event, in batches that fit into one append each.

    ``events``: pairs of key and event; all keys differ.
    """
    batch: dict[str, str] = {}
    size = 0
    for key, event in events:
        length = _size(key, event)
        if batch and (size + length > _MAX_BYTES or len(batch) == _MAX_EVENTS):
            yield batch
            batch, size = {}, 0
        batch[key] = event
        size += length
    if batch:
        yield batch


class FactJournal:
    """Appends changed facts to the stream ``metadata`` in the background."""

    def __init__(self, clock: Clock) -> None:
        self.facts = Facts()
        self._clock = clock
        self._published: dict[str, str] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._stream: Stream | None = None
        self._fenced: FencedError | None = None
        self._epoch = 0
        schedule = Schedule("fact_write", interval_s=math.inf, retry_s=_RETRY_S)
        self._writing = PeriodicTask(self._write, schedule)

    def publish(self, key: str, value: Any) -> None:
        """Set the fact ``key`` to ``value``, and store the change in the background.

        If ``value`` is None, remove the fact.
        """
        self.publish_event(key, encode_fact(value))

    def publish_event(self, key: str, event: str) -> None:
        """Set a fact to an encoded value, and store the change in the background."""
        # Most facts that are published at a start are stored already.
        is_open = self._stream is not None
        if is_open and key not in self._published and self.facts.get(key, REMOVED) == event:
            return
        self._published[key] = event
        self._writing.wake()

    async def flush(self) -> None:
        """Wait until all published facts are stored.

        Raises ``UnavailableError`` after a timeout, ``TooLargeError`` if a fact is too large to
        store, and ``FencedError`` if another agent writes the stream.
        """
        if self._fenced is not None:
            raise self._fenced
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._writing.wake()
        try:
            async with asyncio.timeout(_FLUSH_S):
                await done
        except TimeoutError as error:
            raise UnavailableError(
                "the change is in force, but not stored yet: a restart of the agent would undo it",
                hint="It will be stored once Ignite answers. Repeat the request to be sure.",
            ) from error

    async def open(self, streams: Streams) -> None:
        """Claim the stream ``metadata``, and read the stored facts; raises ``UnavailableError``."""
        await streams.create(METADATA, EVENTS)
        stream = await streams.get(METADATA)
        self._epoch = (await stream.writer.claim()).epoch
        if STORE not in stream.log.attributes:
            await stream.writer.advance(self._epoch, attributes={STORE: secrets.token_hex(8)})
        self.facts = await read_facts(stream)
        self._stream = stream

    async def run(self) -> None:
        """Write published facts until cancelled; the journal must be open."""
        await self._writing.run()

    async def _write(self) -> None:
        if self._fenced is not None:
            return
        # A caller that begins to wait during the write may have published more since.
        waiting, self._waiting = self._waiting, []
        try:
            refused = await self._append_changes()
        except FencedError as error:
            log.error(
                "metadata_writer_fenced",
                hint="another agent writes for this site; stop one of the two",
            )
            self._fenced = error
            for done in (*waiting, *self._waiting):
                if not done.done():
                    done.set_exception(error)
            return
        except BaseException:
            self._waiting += waiting
            raise
        for done in waiting:
            if not done.done():
                done.set_result(None) if refused is None else done.set_exception(refused)

    async def _append_changes(self) -> TooLargeError | None:
        """Store the published facts; return the error of one that is too large, or None."""
        assert self._stream is not None  # noqa: S101 - open() came first
        refused = None
        while changes := await self._take_changes():
            rows = event_rows(self._clock(), changes)
            try:
                await self._stream.writer.append(rows, epoch=self._epoch)
            except TooLargeError as error:
                # This fact is alone, since a batch of several is never too large. It must not
                # prevent others from being stored.
                refused = error
                self._reject(changes, error)
            else:
                apply_events(self.facts, rows)
        return refused

    def _reject(self, changes: Mapping[str, str], error: TooLargeError) -> None:
        for key, event in changes.items():
            log.error("fact_rejected", key=key[:_MAX_QUOTED], error=error.message[:_MAX_QUOTED])
            if self._published.get(key) == event:
                del self._published[key]

    async def _take_changes(self) -> dict[str, str]:
        """Return a batch of published facts that differ from the stored facts: key -> event.

        Published facts that already equal the stored facts are removed from ``_published``.
        """
        changes: dict[str, str] = {}
        size = 0
        async for key in Slices().over(list(self._published)):
            event = self._published[key]
            is_readable = event == REMOVED or self.facts.accepts(key, event)
            if not is_readable:
                # No site would read this fact, and this agent would write it again and again.
                log.error("fact_rejected", key=key[:_MAX_QUOTED])
            if not is_readable or self.facts.get(key, REMOVED) == event:
                del self._published[key]
                continue
            size += _size(key, event)
            if changes and size > _MAX_BYTES:
                break
            changes[key] = event
            if len(changes) == _MAX_EVENTS:
                break
        return changes


def _size(key: str, event: str) -> int:
    return len(key.encode()) + len(event.encode())
