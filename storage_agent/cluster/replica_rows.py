"""Reads the rows of a replica at another site, with their positions in this site's stream."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import quote

import msgspec
import pyarrow as pa

from mistbow.errors import ConflictError
from mistbow.streams.models import (
    StreamInfo,
)
from mistbow.streams.schemas import METADATA
from mistbow.streams.wire import ChunkDecoder
from storage_agent.membership.facts import Facts, apply_events
from storage_agent.membership.network import PeerNetwork, PeerRequest
from storage_agent.membership.peer_streams import fetch
from storage_agent.replication.replica_attributes import read_attributes
from storage_agent.streams.streams import REPLICA_PREFIX

_READ_S = 60.0


@dataclass(frozen=True, slots=True)
class NumberedRows:
    """Rows with consecutive positions in the source stream.

    ``next``: the position after the last row.
    """

    rows: pa.RecordBatch
    next: int

    @property
    def first(self) -> int:
        """The position of the first row."""
        return self.next - int(self.rows.num_rows)

    def within(self, start: int, stop: int) -> "NumberedRows":
        """Return the rows at positions from ``start`` to ``stop`` (exclusive)."""
        begin, end = max(start, self.first), min(stop, self.next)
        rows = self.rows.slice(begin - self.first, max(0, end - begin))
        return NumberedRows(rows, max(begin, end))


class _Offset(msgspec.Struct, frozen=True):
    next: int
    frontier: int


class ReplicaRows:
    """Reads an unfiltered replica of one of this site's streams at another site.

    ``site``: the site that stores the replica. ``stream``: the name of this site's stream.
    ``store``: the name of the store from which the replica was copied.
    """

    def __init__(self, network: PeerNetwork, site: str, stream: str) -> None:
        self._network = network
        self._site = site
        self._prefix = f"{REPLICA_PREFIX}{network.own}/"
        self._name = self._prefix + stream
        self._base = 0
        self._head = 0
        self._first = 0
        self.store: str | None = None

    async def open(self) -> "ReplicaRows":
        """Read the first position and the head of the replica, and return this reader.

        Raises ``ConflictError`` if the replica is filtered, or another ``MistbowError`` if the site
        does not answer or has no such replica.
        """
        info = await fetch(self._network, self._site, self._target("/info"), StreamInfo)
        attributes = read_attributes(info.attributes)
        copy = attributes.copy
        if copy is not None and (not copy.filter.all or copy.withheld):
            raise ConflictError(
                f"the replica {self._name} at {self._site} has only some rows of its source",
                hint="Choose a site with a complete copy; GET /replication lists the copies.",
            )
        self._base, self.store = attributes.base, attributes.store
        self._first, self._head = info.first, info.head
        return self

    async def parts(self, start: int) -> AsyncIterator[NumberedRows]:
        """Yield the rows of the replica from the position ``start`` in the source stream on.

        The first item may also contain a few earlier rows.
        """
        low, high = self._first, self._head
        # Find the end of the last segment before ``start``: positions grow along the replica.
        while low < high:
            middle = (low + high) // 2
            reached = await self._offset_after(middle)
            if reached.frontier - self._base <= start:
                low = max(reached.next, middle + 1)
            else:
                high = middle
        # Segment by segment: only a segment's end shows which positions of the source have no row.
        while low < self._head:
            reached = await self._offset_after(low)
            rows = await self._read_rows(low, reached.next)
            yield NumberedRows(rows, reached.frontier - self._base)
            low = reached.next

    async def schema(self) -> pa.Schema:
        """Return the schema of the replica's rows."""
        number = self._first
        return (await self._read(self._target("", f"&from={number}&to={number}")))[0].schema

    async def facts(self) -> Facts:
        """Return this site's facts, as stored in the metadata replica at the other site."""
        found = Facts()
        target = f"/streams/{quote(self._prefix + METADATA)}?site={self._site}".encode()
        for rows in await self._read(target):
            apply_events(found, rows)
        return found

    async def _offset_after(self, number: int) -> _Offset:
        target = self._target("/offset", f"&from={number}&max_rows=1")
        return await fetch(self._network, self._site, target, _Offset)

    async def _read_rows(self, start: int, stop: int) -> pa.RecordBatch:
        batches = await self._read(self._target("", f"&from={start}&to={stop}"))
        filled = [batch for batch in batches if batch.num_rows]
        return pa.concat_batches(filled) if filled else batches[0]

    async def _read(self, target: bytes) -> list[pa.RecordBatch]:
        call = PeerRequest(self._site, "GET", target, wait_s=_READ_S)
        return [chunk.rows for chunk in ChunkDecoder().feed(await self._network.read(call))]

    def _target(self, suffix: str, query: str = "") -> bytes:
        return f"/streams/{quote(self._name)}{suffix}?site={self._site}{query}".encode()
