"""A stream of events from which an enabler restores its state.

Only one enabler at a time may append to the stream.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

import msgspec
import pyarrow as pa

from analytics.plan.orders import Lease
from mistbow.client.agent import AsyncAgentClient
from mistbow.clock import Clock, system_clock
from mistbow.errors import FencedError
from mistbow.streams.events import event_rows, events_of
from mistbow.streams.schemas import EVENTS

_GENERATION = "generation"
"""The attribute of a stream with the time (s since the epoch) of its first claim."""

MAX_APPEND_BYTES = 4 * 2**20
"""The size (bytes of JSON) of the events of one append; a larger event is alone in an append."""

Event = TypeVar("Event")


class EventJournal(Generic[Event]):
    """A stream of events with keys; the newest event with a key is the state of the key.

    The events are stored as JSON.
    """

    def __init__(
        self,
        agent: AsyncAgentClient,
        stream: str,
        decode: Callable[[str], Event],
        clock: Clock = system_clock,
    ) -> None:
        self._agent = agent
        self._stream = stream
        self._decode = decode
        self._clock = clock
        self._lease: Lease | None = None
        self._next_position = 0
        self.is_current = False
        """Whether ``unread`` returned all events, or they were appended without an error since."""
        self.fenced = False
        """Whether this enabler is fenced: another enabler has claimed the lease of the stream."""

    async def unread(self) -> list[tuple[str, Event]]:
        """Return (key, event) pairs that were neither returned nor appended so far, oldest first.

        The first call claims the lease of the stream; after the claim, appends by other enablers
        are refused. So there are no such events while the journal is current.
        """
        if self.is_current:
            return []
        if self._lease is None:
            self._lease = await self._claim()
        rows = await self._agent.read(self._stream, self._next_position)
        events = [(key, self._decode(event)) for _, key, event in events_of(rows.table)]
        self._next_position = rows.position.next
        self.is_current = True
        return events

    async def _claim(self) -> Lease:
        await self._agent.create_stream(self._stream, EVENTS)
        epoch = (await self._agent.claim(self._stream)).epoch
        info = await self._agent.info(self._stream)
        generation = info.attributes.get(_GENERATION)
        if generation is None:
            # A stream that replaces a lost one begins at epoch 1 again, but later.
            generation = self._clock() // 1000
            attributes = {_GENERATION: generation}
            await self._agent.advance(self._stream, epoch, attributes=attributes)
        return Lease(generation, epoch)

    def reclaim(self) -> None:
        """Make the next ``unread`` call claim the lease and read the stream from its start."""
        self._lease = None
        self._next_position = 0
        self.is_current = self.fenced = False

    async def append(self, key: str, event: Event, now: int) -> None:
        """Store an event; raises ``FencedError`` if another enabler has the lease.

        ``now``: the time of the event (ms).
        """
        await self.append_all({key: event}, now)

    async def append_all(self, events: Mapping[str, Event], now: int) -> None:
        """Store events (key -> event); up to ``MAX_APPEND_BYTES`` together, all or none of them.

        Raises ``FencedError`` if another enabler has the lease. ``now``: the time of the events
        (ms). After an error, the events may have been stored nevertheless, so they are unread.
        """
        encoded = {key: msgspec.json.encode(event) for key, event in events.items()}
        next_position = self._next_position
        try:
            for keys in _batches(encoded):
                rows = event_rows(now, {key: encoded[key].decode() for key in keys})
                next_position = await self._append(rows)
        except BaseException:
            self.is_current = False
            raise
        self._next_position = next_position

    async def _append(self, rows: pa.RecordBatch) -> int:
        """Append rows; return the next position."""
        try:
            appended = await self._agent.append(
                self._stream, rows, epoch=self._epoch, idempotency_key=uuid.uuid4().hex
            )
        except FencedError:
            self.fenced = True
            raise
        return appended.next

    async def set_generation(self, generation: int) -> None:
        """Store the generation of the lease; raises ``FencedError`` without the lease."""
        lease = await self.lease()
        attributes = {_GENERATION: generation}
        await self._agent.advance(self._stream, lease.epoch, attributes=attributes)
        self._lease = Lease(generation, lease.epoch)

    async def lease(self) -> Lease:
        """Return the lease of this enabler; raises ``FencedError`` if another enabler has it."""
        epoch = (await self._agent.info(self._stream)).epoch
        if self._lease is not None and epoch != self._lease.epoch:
            self.fenced = True
        if self.fenced or self._lease is None:
            raise FencedError(
                f"another enabler has claimed the stream {self._stream} of this site",
                hint="Send requests to that enabler. This one takes over when that one has ended.",
            )
        return self._lease

    async def has_lease(self) -> bool:
        """Return whether this enabler has claimed the lease, and no other enabler since then."""
        if self._lease is None:
            return False
        try:
            await self.lease()
        except FencedError:
            return False
        return True

    @property
    def current_lease(self) -> Lease | None:
        """The lease of this enabler; None: not claimed yet, or fenced."""
        return None if self.fenced else self._lease

    @property
    def _epoch(self) -> int | None:
        return None if self._lease is None else self._lease.epoch


def _batches(encoded: Mapping[str, bytes]) -> Iterator[list[str]]:
    """Split events into appends; yield the keys of each."""
    keys: list[str] = []
    size = 0
    for key, event in encoded.items():
        if keys and size + len(event) > MAX_APPEND_BYTES:
            yield keys
            keys, size = [], 0
        keys.append(key)
        size += len(event)
    if keys:
        yield keys
