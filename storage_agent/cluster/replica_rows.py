"""What a replica at another site has of a stream of this one, by this stream's own numbers."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import quote

import msgspec
import pyarrow as pa

from mistbow.client.agent_model import StreamInfo
from mistbow.errors import ConflictError
from mistbow.streams.schemas import METADATA
from mistbow.streams.wire import ChunkDecoder
from storage_agent.fabric.facts import Facts, learn
from storage_agent.fabric.following import ask
from storage_agent.fabric.journal import STORE
from storage_agent.fabric.network import Network, Outgoing
from storage_agent.replication.told import Copy
from storage_agent.streams.streams import REPLICAS

_READ_S = 60.0


@dataclass(frozen=True, slots=True)
class Part:
    """Rows whose numbers in the source end before ``next``, without a gap at their end."""

    rows: pa.RecordBatch
    next: int

    @property
    def first(self) -> int:
        """The number of its first row."""
        return self.next - int(self.rows.num_rows)

    def within(self, start: int, stop: int) -> "Part":
        """Return what of it has numbers from ``start`` before ``stop``."""
        begin, end = max(start, self.first), min(stop, self.next)
        return Part(self.rows.slice(begin - self.first, max(0, end - begin)), max(begin, end))


class _Furthest(msgspec.Struct, frozen=True):
    next: int
    frontier: int


class ReplicaRows:
    """The replica of ``stream`` at ``site``, as a whole: no part of its rows is left out."""

    def __init__(self, network: Network, site: str, stream: str) -> None:
        self._network = network
        self._site = site
        self._own = f"{REPLICAS}{network.own}/"
        self._name = self._own + stream
        self._base = 0
        self._head = 0
        self._first = 0
        self.store: str | None = None

    async def open(self) -> "ReplicaRows":
        """Ask what there is; raises a ``MistbowError`` if it is no whole replica."""
        about = await ask(self._network, self._site, self._target("/info"), StreamInfo)
        copy = about.attributes.get("copy")
        if copy is not None:
            wanted = msgspec.json.decode(copy, type=Copy)
            if not wanted.filter.all or wanted.withheld:
                raise ConflictError(f"{self._site} has only some of the rows of {self._name}")
        self._base = int(about.attributes.get("base", 0))
        self._first, self._head = about.first, about.head
        self.store = about.attributes.get(STORE)
        return self

    async def parts(self, start: int) -> AsyncIterator[Part]:
        """Yield what it has from a number of the source on, perhaps a little from before it."""
        low, high = self._first, self._head
        # Where the last commit ends that is before ``start``: positions grow along the replica.
        while low < high:
            middle = (low + high) // 2
            reached = await self._after(middle)
            if reached.frontier - self._base <= start:
                low = max(reached.next, middle + 1)
            else:
                high = middle
        # A commit at a time: only there it is known which numbers of the source have no row.
        while low < self._head:
            reached = await self._after(low)
            rows = await self._rows(low, reached.next)
            yield Part(rows, reached.frontier - self._base)
            low = reached.next

    async def schema(self) -> pa.Schema:
        """Return what the rows are."""
        number = self._first
        return (await self._read(self._target("", f"&from={number}&to={number}")))[0].schema

    async def facts(self) -> Facts:
        """Return what this site's metadata came to when it was last followed there."""
        found: Facts = {}
        target = f"/streams/{quote(self._own + METADATA)}?site={self._site}".encode()
        for rows in await self._read(target):
            learn(found, rows)
        return found

    async def _after(self, number: int) -> _Furthest:
        target = self._target("/offset", f"&from={number}&max_rows=1")
        return await ask(self._network, self._site, target, _Furthest)

    async def _rows(self, start: int, stop: int) -> pa.RecordBatch:
        batches = await self._read(self._target("", f"&from={start}&to={stop}"))
        filled = [batch for batch in batches if batch.num_rows]
        return pa.concat_batches(filled) if filled else batches[0]

    async def _read(self, target: bytes) -> list[pa.RecordBatch]:
        answer = await self._network.send(Outgoing(self._site, "GET", target, wait_s=_READ_S))
        return [chunk.rows for chunk in ChunkDecoder().feed(await answer.read())]

    def _target(self, more: str, query: str = "") -> bytes:
        return f"/streams/{quote(self._name)}{more}?site={self._site}{query}".encode()
