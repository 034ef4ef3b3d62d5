"""A stream of changes that a state is rebuilt from; one enabler writes it at a time."""

import uuid
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import FencedError
from mistbow.streams.events import event_rows, events_of
from mistbow.streams.schemas import EVENTS

Event = TypeVar("Event")


class Journal(Generic[Event]):
    """Events by key, as JSON in a stream; of each key the newest counts."""

    def __init__(
        self, agent: AsyncAgentClient, stream: str, decode: Callable[[str], Event]
    ) -> None:
        self._agent = agent
        self._stream = stream
        self._decode = decode
        self._epoch: int | None = None
        self._next = 0
        self.fenced = False

    async def unread(self) -> list[tuple[str, Event]]:
        """Return the events not returned or appended so far, oldest first.

        The first call makes this process the stream's writer, so that no other one adds events
        behind its back.
        """
        if self._epoch is None:
            await self._agent.create_stream(self._stream, EVENTS)
            self._epoch = (await self._agent.claim(self._stream)).epoch
        rows = await self._agent.read(self._stream, self._next)
        events = [(key, self._decode(event)) for _, key, event in events_of(rows.table)]
        self._next = rows.position.next
        return events

    def claim_again(self) -> None:
        """Take the stream over at the next reading, and read all of it."""
        self._epoch = None
        self._next = 0
        self.fenced = False

    async def append(self, key: str, event: Event, now: int) -> None:
        """Store an event; raises ``FencedError`` when another enabler has taken over."""
        rows = event_rows(now, {key: msgspec.json.encode(event).decode()})
        try:
            appended = await self._agent.append(
                self._stream, rows, epoch=self._epoch, idempotency_key=uuid.uuid4().hex
            )
        except FencedError:
            self.fenced = True
            raise
        self._next = appended.next

    async def check_owned(self) -> None:
        """Raise ``FencedError`` when another enabler has taken over."""
        if (await self._agent.info(self._stream)).epoch != self._epoch:
            self.fenced = True
        if self.fenced:
            raise FencedError(
                f"another enabler has taken over the {self._stream} of this site",
                hint="Talk to that one, or restart this one for it to take over again.",
            )
