"""The stream of changes that deployments are rebuilt from; one enabler writes it at a time."""

import uuid
from collections.abc import Iterator

import msgspec
import pyarrow as pa

from analytics_enabler.deployments.model import Event
from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import FencedError
from mistbow.streams.schemas import DEPLOYMENTS, EVENTS


class Journal:
    """Events by deployment id, in the storage agent; of each id the newest counts."""

    def __init__(self, agent: AsyncAgentClient) -> None:
        self._agent = agent
        self._epoch: int | None = None
        self._next = 0
        self.fenced = False

    async def unread(self) -> list[tuple[str, Event]]:
        """Return the events not returned or appended so far, oldest first.

        The first call makes this process the stream's writer, so that no other one adds events
        behind its back.
        """
        if self._epoch is None:
            await self._agent.create_stream(DEPLOYMENTS, EVENTS)
            self._epoch = (await self._agent.claim(DEPLOYMENTS)).epoch
        rows = await self._agent.read(DEPLOYMENTS, self._next)
        events = list(_decoded(rows.table))
        self._next = rows.position.next
        return events

    async def append(self, deployment_id: str, event: Event, now: int) -> None:
        """Store an event; raises ``FencedError`` when another enabler has taken over."""
        row = {"ts": now, "key": deployment_id, "event": msgspec.json.encode(event).decode()}
        rows = pa.RecordBatch.from_pylist([row], schema=EVENTS)
        try:
            appended = await self._agent.append(
                DEPLOYMENTS, rows, epoch=self._epoch, idempotency_key=uuid.uuid4().hex
            )
        except FencedError:
            self.fenced = True
            raise
        self._next = appended.next

    async def check_owned(self) -> None:
        """Raise ``FencedError`` when another enabler has taken over."""
        if (await self._agent.info(DEPLOYMENTS)).epoch != self._epoch:
            self.fenced = True
        if self.fenced:
            raise FencedError(
                "another enabler has taken over the deployments of this site",
                hint="Talk to that one, or restart this one for it to take over again.",
            )


def _decoded(rows: pa.Table) -> Iterator[tuple[str, Event]]:
    keys, events = rows["key"].to_pylist(), rows["event"].to_pylist()
    for key, event in zip(keys, events, strict=True):
        yield key, msgspec.json.decode(event, type=Event)
