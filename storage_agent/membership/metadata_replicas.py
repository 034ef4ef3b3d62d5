"""Replicates the peers' metadata to this site, in the streams ``replicas/SITE/metadata``."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any

from mistbow.clock import Clock
from mistbow.errors import MistbowError, NotFoundError, UnavailableError
from mistbow.runtime.tasks import cancel_and_wait
from mistbow.streams.events import REMOVED, event_rows
from mistbow.streams.models import (
    StreamInfo,
)
from mistbow.streams.schemas import EVENTS, METADATA
from mistbow.streams.wire import Chunk
from mistbow.telemetry import get_logger
from storage_agent.membership.facts import Facts, apply_many_events, read_facts
from storage_agent.membership.journal import STORE, fact_batches
from storage_agent.membership.network import PeerNetwork
from storage_agent.membership.peer_streams import fetch, follow_chunks, follow_while_reachable
from storage_agent.membership.peers import Peers
from storage_agent.streams.conform import conform_received
from storage_agent.streams.streams import REPLICA_PREFIX, Stream, Streams, is_metadata_replica

log = get_logger(__name__)

POSITION = "position"
"""The name of the attribute with the position up to which the source's metadata was read."""


class MetadataReplica:
    """The replica of a site's metadata: a stored stream, and the facts in this stream."""

    def __init__(self, stream: Stream, facts: Facts, clock: Clock) -> None:
        self.facts = facts
        self._stream = stream
        self._clock = clock

    @property
    def position(self) -> int:
        """The position in the source at which the next read begins."""
        return int(self._stream.log.attributes.get(POSITION, 0))

    @property
    def store(self) -> str | None:
        """The name of the store from which the rows were read; None: no rows were read."""
        return self._stream.log.attributes.get(STORE)

    async def begin(self, store: str, head: int) -> None:
        """Prepare to read the metadata of a store; ``head``: the head of the metadata stream.

        If the store has changed, or if ``head`` is below the position of this replica, this method
        removes all facts, and sets the position to 0.
        """
        if self.store == store and self.position <= head:
            return
        for removed in fact_batches([(key, REMOVED) for key in self.facts]):
            await self._append(removed)
        await self._set_attributes({STORE: store, POSITION: 0})

    async def add(self, chunk: Chunk) -> None:
        """Store the rows of a chunk, and apply the rows to the facts.

        After a crash, the same rows may be stored twice, which changes no fact. Raises
        ``UnavailableError``, and stores nothing, if the rows are not those of metadata.
        """
        rows = conform_received(chunk.rows, self._stream.log.schema)
        if rows.num_rows:
            await self._stream.writer.append(rows, epoch=self._stream.log.epoch)
            await apply_many_events(self.facts, rows)
        if chunk.position.next != self.position:
            await self._set_attributes({POSITION: chunk.position.next})

    async def _append(self, events: Mapping[str, str]) -> None:
        rows = event_rows(self._clock(), events)
        await self._stream.writer.append(rows, epoch=self._stream.log.epoch)
        await apply_many_events(self.facts, rows)

    async def _set_attributes(self, attributes: dict[str, Any]) -> None:
        await self._stream.writer.advance(self._stream.log.epoch, attributes=attributes)


class MetadataReplicas:
    """Follows the metadata of every peer, directly or through another peer."""

    def __init__(self, peers: Peers, network: PeerNetwork, clock: Clock) -> None:
        self._peers = peers
        self._network = network
        self._clock = clock
        self._streams: Streams | None = None
        self._replicas: dict[str, MetadataReplica] = {}

    def facts(self, site: str) -> Facts:
        """Return the facts of a site; empty before the first read of the site's metadata."""
        replica = self._replicas.get(site)
        return Facts() if replica is None else replica.facts

    def store(self, site: str) -> str | None:
        """Return the name of the store from which the facts of a site were read.

        Returns None if no facts were read.
        """
        replica = self._replicas.get(site)
        return None if replica is None else replica.store

    async def open(self, streams: Streams) -> list[str]:
        """Open the stored replicas, and return the names of their source sites.

        Replicas that cannot be read are deleted.
        Raises ``UnavailableError`` if Ignite does not answer.
        """
        self._streams = streams
        self._replicas.clear()
        for stream in streams.all():
            if is_metadata_replica(stream.name):
                await self._open_or_drop(streams, stream.name)
        return sorted(self._replicas)

    async def _open_or_drop(self, streams: Streams, name: str) -> None:
        """Open a stored replica; delete it if its rows cannot be read, and follow its site again.

        Earlier versions stored any rows that a stolen site sent. These must not stop this agent.
        """
        try:
            await self._open_replica(name.split("/")[1])
        except MistbowError:
            raise
        except Exception as error:
            log.error("metadata_replica_dropped", stream=name, exc_info=error)
            await streams.delete(name)

    async def run(self) -> None:
        """Follow the metadata of all peers, including peers that join later, until cancelled."""
        async with asyncio.TaskGroup() as group:
            followed: dict[str, asyncio.Task[None]] = {}
            while True:
                changed = self._peers.changed()
                for site in self._peers.forgotten:
                    if site in followed or site in self._replicas:
                        await self._delete(site, followed.pop(site, None))
                for peer in self._peers:
                    if peer.site not in followed:
                        following = self._follow(peer.site)
                        task = group.create_task(following, name=f"follow {peer.site}")
                        followed[peer.site] = task
                await changed.wait()

    async def _follow(self, site: str) -> None:
        await follow_while_reachable(
            self._peers, site, METADATA, lambda on_chunk: self._follow_once(site, on_chunk)
        )

    async def _follow_once(self, site: str, on_chunk: Callable[[], None]) -> None:
        # The replica of a site that exists only in a report is never created.
        info = await fetch(self._network, site, _target(site, "/info"), StreamInfo)
        replica = await self._open_replica(site)
        await replica.begin(str(info.attributes.get(STORE)), info.head)
        target = _target(site, "", f"&follow=true&from={replica.position}")
        async with aclosing(follow_chunks(self._network, site, target)) as chunks:
            async for chunk in chunks:
                await replica.add(chunk)
                on_chunk()

    async def _delete(self, site: str, following: asyncio.Task[None] | None) -> None:
        """Stop following a forgotten site, and delete the replica of its metadata."""
        if following is not None:
            await cancel_and_wait([following])
        self._replicas.pop(site, None)
        assert self._streams is not None  # noqa: S101 - this runs after open()
        try:
            with contextlib.suppress(NotFoundError):
                await self._streams.delete(_stream_name(site))
        except MistbowError as error:
            # The next start of this agent deletes it.
            log.info("metadata_deletion_failed", site=site, error=error.message)
        except Exception as error:
            # The metadata of the other sites is still followed.
            log.error("metadata_deletion_failed", site=site, exc_info=error)

    async def _open_replica(self, site: str) -> MetadataReplica:
        if site not in self._replicas:
            if self._streams is None:
                raise UnavailableError("the agent is starting")
            name = _stream_name(site)
            await self._streams.create(name, EVENTS)
            stream = await self._streams.get(name)
            replica = MetadataReplica(stream, await read_facts(stream), self._clock)
            self._replicas[site] = replica
        return self._replicas[site]


def _stream_name(site: str) -> str:
    return f"{REPLICA_PREFIX}{site}/{METADATA}"


def _target(site: str, suffix: str, query: str = "") -> bytes:
    return f"/streams/{METADATA}{suffix}?site={site}{query}".encode()
