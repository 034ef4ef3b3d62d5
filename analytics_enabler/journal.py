"""A stream of events from which an enabler restores its state.

Only one enabler at a time may append to the stream.
"""

import uuid
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import FencedError
from mistbow.streams.events import event_rows, events_of
from mistbow.streams.schemas import EVENTS

Event = TypeVar("Event")


class EventJournal(Generic[Event]):
    """A stream of events with keys; the newest event with a key is the state of the key.

    The events are stored as JSON.
    """

    def __init__(
        self, agent: AsyncAgentClient, stream: str, decode: Callable[[str], Event]
    ) -> None:
        self._agent = agent
        self._stream = stream
        self._decode = decode
        self._epoch: int | None = None
        self._next_position = 0
        self.fenced = False
        """Whether this enabler is fenced: another enabler has claimed the lease of the stream."""

    async def unread(self) -> list[tuple[str, Event]]:
        """Return (key, event) pairs that were neither returned nor appended so far, oldest first.

        The first call claims the lease of the stream; after the claim, appends by other enablers
        are refused.
        """
        if self._epoch is None:
            await self._agent.create_stream(self._stream, EVENTS)
            self._epoch = (await self._agent.claim(self._stream)).epoch
        rows = await self._agent.read(self._stream, self._next_position)
        events = [(key, self._decode(event)) for _, key, event in events_of(rows.table)]
        self._next_position = rows.position.next
        return events

    def reclaim(self) -> None:
        """Make the next ``unread`` call claim the lease and read the stream from its start."""
        self._epoch = None
        self._next_position = 0
        self.fenced = False

    async def append(self, key: str, event: Event, now: int) -> None:
        """Store an event; raises ``FencedError`` if another enabler has the lease.

        ``now``: the time of the event (ms).
        """
        rows = event_rows(now, {key: msgspec.json.encode(event).decode()})
        try:
            appended = await self._agent.append(
                self._stream, rows, epoch=self._epoch, idempotency_key=uuid.uuid4().hex
            )
        except FencedError:
            self.fenced = True
            raise
        self._next_position = appended.next

    async def check_lease(self) -> None:
        """Raise ``FencedError`` if another enabler has the lease."""
        if (await self._agent.info(self._stream)).epoch != self._epoch:
            self.fenced = True
        if self.fenced:
            raise FencedError(
                f"another enabler has claimed the stream {self._stream} of this site",
                hint="Send requests to that enabler, or restart this enabler to claim the stream "
                "again.",
            )
