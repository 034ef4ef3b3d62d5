"""The log of one stream: what Ignite holds of it, as far as this agent knows."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from mistbow.errors import MistbowError
from storage_agent import metrics
from storage_agent.streams.ahead import Ahead
from storage_agent.streams.index import PAGE, Entry, Index
from storage_agent.streams.recent_keys import AGE_S, RecentKeys
from storage_agent.streams.segment_store import SegmentStore
from storage_agent.streams.segments import Segment, segment_key
from storage_agent.streams.state import StateCell

_ASKED_S = 60.0

Listener = Callable[[Segment, Entry], None]
"""Is told of each segment, in their order, after it is stored or found in Ignite."""


class StreamLog:
    """A stream's index, epoch and frontier; reading its segments; waiting for its changes.

    Only the stream's ``Writer`` calls what changes it.
    """

    def __init__(self, name: str, schema: pa.Schema, store: SegmentStore) -> None:
        self.name = name
        self.schema = schema
        self.index = Index()
        self.keys = RecentKeys()
        self.state = StateCell(store.ignite, name)
        self.ahead = Ahead()
        self.epoch = 0
        self.frontier = 0
        self.bytes = 0
        self.work = asyncio.Event()
        self.listener: Listener | None = None
        self._store = store
        self._pages = 0
        self._changed = asyncio.Event()
        self._asked_until = 0.0

    @property
    def head(self) -> int:
        """The next number."""
        return self.index.head

    @property
    def attributes(self) -> dict[str, Any]:
        """What the stream's writers noted of it."""
        return self.state.current.attributes

    @property
    def last_segment(self) -> str | None:
        """The key of the last segment."""
        return segment_key(self.name, self.index[-1].first) if len(self.index) else None

    def frontier_at(self, number: int) -> int:
        """Return how far event time is for who has read all rows before ``number``."""
        return self.frontier if number >= self.head else self.index.frontier_at(number)

    async def segments(self, entries: Sequence[Entry]) -> list[Segment]:
        """Return the segments of entries of the index."""
        found = await self._store.get_all(self.name, [entry.first for entry in entries])
        if len(found) != len(entries):
            raise MistbowError(f"segments of the stream {self.name} are gone")
        return found

    @property
    def asked(self) -> bool:
        """Whether somebody asked lately, so that the frontier is worth moving."""
        return asyncio.get_running_loop().time() < self._asked_until

    def ask(self) -> asyncio.Event:
        """Have the frontier kept fresh for a while; returns what is set at the next change."""
        if not self.asked:
            self.work.set()
        self._asked_until = asyncio.get_running_loop().time() + _ASKED_S
        return self._changed

    async def recover(self) -> None:
        """Read everything from Ignite; to be called once, before all else."""
        self._pages = await self._store.load_pages(self.name, self.index)
        await self.state.load()
        if len(self.index):
            [last] = await self.segments([self.index[-1]])
            await self._recover_keys()
            self.epoch, self.frontier = last.header.epoch, last.header.frontier
            self.ahead = Ahead(last.header.released)
            self.ahead.recover(self.index)
        await self.catch_up()
        self.move_frontier(self.state.current.frontier)

    async def catch_up(self) -> None:
        """Follow the segments that others stored at and after the head."""
        while (segment := await self._store.get(self.name, self.head)) is not None:
            self._follow(segment)

    async def store(self, segment: Segment, data: bytes) -> bool:
        """Store a segment at the head; returns False when another one was there first.

        May be repeated with the same segment after an error.
        """
        winner = await self._store.put(segment, data)
        if winner is segment:
            self.bytes += len(data)
        self._follow(winner)
        return winner is segment

    def move_frontier(self, frontier: int) -> None:
        """Announce a frontier that is stored; it never goes back."""
        self.frontier = max(self.frontier, frontier)
        self._announce()

    async def put_pages(self) -> None:
        """Store the pages of the index that are full."""
        while len(self.index) // PAGE > self._pages:
            await self._store.put_page(self.name, self._pages, self.index, self.keys)
            self._pages += 1

    def _follow(self, segment: Segment) -> None:
        header = segment.header
        entry = Entry.of(segment)
        self.index.append(entry)
        self.keys.learn(header.keys)
        self.ahead.absorb(segment, entry)
        self.epoch = max(self.epoch, header.epoch)
        if self.listener is not None:
            self.listener(segment, entry)
        metrics.HEAD.labels(self.name).set(self.head)
        self.move_frontier(header.frontier)

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _recover_keys(self) -> None:
        oldest = self.index[-1].created - int(AGE_S * 1000)
        recent = []
        for page in range(self._pages - 1, -1, -1):
            if self.index[(page + 1) * PAGE - 1].created < oldest:
                break
            recent.append(await self._store.load_keys(self.name, page))
        for known in reversed(recent):
            self.keys.learn(known)
