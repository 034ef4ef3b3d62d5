"""What other sites said of themselves, followed and kept here: ``replicas/SITE/metadata``."""

import asyncio
import contextlib
from contextlib import aclosing
from typing import Any

from mistbow.client.agent_model import StreamInfo
from mistbow.clock import Clock
from mistbow.errors import MistbowError, NotFoundError, UnavailableError
from mistbow.streams.events import event_rows
from mistbow.streams.schemas import EVENTS, METADATA
from mistbow.streams.wire import Chunk
from mistbow.tasks import end
from mistbow.telemetry import get_logger
from storage_agent.fabric.facts import GONE, Facts, learn, read_facts
from storage_agent.fabric.following import ask, chunks_of, keep_following
from storage_agent.fabric.journal import STORE
from storage_agent.fabric.neighbours import Neighbours
from storage_agent.fabric.network import Network
from storage_agent.streams.streams import REPLICAS, Stream, Streams

log = get_logger(__name__)

POSITION = "position"


class Replica:
    """One site's metadata: what it comes to, and how far it was read."""

    def __init__(self, stream: Stream, facts: Facts, clock: Clock) -> None:
        self.facts = facts
        self._stream = stream
        self._clock = clock

    @property
    def position(self) -> int:
        """The number from which to read on."""
        return int(self._stream.log.attributes.get(POSITION, 0))

    @property
    def store(self) -> str | None:
        """The store that what is kept was read from."""
        return self._stream.log.attributes.get(STORE)

    async def begin(self, store: str, head: int) -> None:
        """Read from a store; anew if it is another one than before, or has lost its end."""
        if self.store == store and self.position <= head:
            return
        if self.facts:
            await self._append(dict.fromkeys(self.facts, GONE))
        await self._note({STORE: store, POSITION: 0})

    async def add(self, chunk: Chunk) -> None:
        """Keep rows; after a crash the last ones may be there twice, which comes to the same."""
        if chunk.rows.num_rows:
            await self._stream.writer.append(chunk.rows, epoch=self._stream.log.epoch)
            learn(self.facts, chunk.rows)
        if chunk.position.next != self.position:
            await self._note({POSITION: chunk.position.next})

    async def _append(self, events: Facts) -> None:
        rows = event_rows(self._clock(), events)
        await self._stream.writer.append(rows, epoch=self._stream.log.epoch)
        learn(self.facts, rows)

    async def _note(self, attributes: dict[str, Any]) -> None:
        await self._stream.writer.advance(self._stream.log.epoch, attributes=attributes)


class Replicas:
    """Follows every other site's metadata, straight or relayed."""

    def __init__(self, neighbours: Neighbours, network: Network, clock: Clock) -> None:
        self._neighbours = neighbours
        self._network = network
        self._clock = clock
        self._streams: Streams | None = None
        self._kept: dict[str, Replica] = {}

    def facts(self, site: str) -> Facts:
        """Return what a site said of itself, as far as it is known."""
        kept = self._kept.get(site)
        return {} if kept is None else kept.facts

    def store(self, site: str) -> str | None:
        """Return the name of the store that a site's facts are from, as far as it is known."""
        kept = self._kept.get(site)
        return None if kept is None else kept.store

    async def open(self, streams: Streams) -> list[str]:
        """Recover what is kept, and return whose it is; raises ``UnavailableError``."""
        self._streams = streams
        self._kept.clear()
        for stream in streams.all():
            parts = stream.name.split("/")
            if stream.name.startswith(REPLICAS) and len(parts) == 3 and parts[2] == METADATA:
                await self._keep(parts[1])
        return sorted(self._kept)

    async def run(self) -> None:
        """Follow all sites, also those that are learned later."""
        async with asyncio.TaskGroup() as group:
            followed: dict[str, asyncio.Task[None]] = {}
            while True:
                changed = self._neighbours.changed()
                for site in self._neighbours.forgotten:
                    if site in followed or site in self._kept:
                        await self._drop(site, followed.pop(site, None))
                for each in self._neighbours:
                    if each.site not in followed:
                        following = self._follow(each.site)
                        task = group.create_task(following, name=f"follow {each.site}")
                        followed[each.site] = task
                await changed.wait()

    async def _follow(self, site: str) -> None:
        await keep_following(self._neighbours, site, METADATA, lambda: self._follow_once(site))

    async def _follow_once(self, site: str) -> None:
        replica = await self._keep(site)
        info = await ask(self._network, site, _target(site, "/info"), StreamInfo)
        await replica.begin(str(info.attributes.get(STORE)), info.head)
        target = _target(site, "", f"&follow=true&from={replica.position}")
        async with aclosing(chunks_of(self._network, site, target)) as chunks:
            async for chunk in chunks:
                await replica.add(chunk)

    async def _drop(self, site: str, following: asyncio.Task[None] | None) -> None:
        """Delete what a site that is forgotten said of itself."""
        if following is not None:
            await end([following])
        self._kept.pop(site, None)
        assert self._streams is not None  # noqa: S101 - this runs after open()
        try:
            with contextlib.suppress(NotFoundError):
                await self._streams.delete(_kept_in(site))
        except MistbowError as error:
            # It is tried again when this agent is started again.
            log.info("a forgotten site's metadata is not deleted", site=site, error=error.message)

    async def _keep(self, site: str) -> Replica:
        if site not in self._kept:
            if self._streams is None:
                raise UnavailableError("the agent is starting")
            name = _kept_in(site)
            await self._streams.create(name, EVENTS)
            stream = await self._streams.get(name)
            self._kept[site] = Replica(stream, await read_facts(stream), self._clock)
        return self._kept[site]


def _kept_in(site: str) -> str:
    return f"{REPLICAS}{site}/{METADATA}"


def _target(site: str, more: str, query: str = "") -> bytes:
    return f"/streams/{METADATA}{more}?site={site}{query}".encode()
