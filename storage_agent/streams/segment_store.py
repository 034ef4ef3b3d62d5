"""Where segments are: in Ignite, and the last used ones in memory too."""

from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from mistbow.telemetry import get_logger
from storage_agent import metrics
from storage_agent.ignite_client import HISTORICAL, IgniteClient
from storage_agent.streams.index import PAGE, Index
from storage_agent.streams.recent_keys import RecentKeys
from storage_agent.streams.segments import (
    Appended,
    Segment,
    decode_segment,
    segment_key,
)

log = get_logger(__name__)

_CACHED_BYTES = 32 * 2**20
_PAGES_AT_ONCE = 64


class SegmentStore:
    """The segments and index pages of all streams."""

    def __init__(self, ignite: IgniteClient) -> None:
        self.ignite = ignite
        self._cached: OrderedDict[str, Segment] = OrderedDict()
        self._bytes = 0

    async def get(self, stream: str, first: int) -> Segment | None:
        """Return the segment that begins at ``first``."""
        found = await self.get_all(stream, [first])
        return found[0] if found else None

    async def get_all(self, stream: str, firsts: Sequence[int]) -> list[Segment]:
        """Return those of the segments that there are, in their order."""
        keys = [segment_key(stream, first) for first in firsts]
        missing = [key for key in keys if key not in self._cached]
        # What was cached may leave the cache while Ignite answers.
        found = {key: self._cached[key] for key in keys if key in self._cached}
        for key in found:
            self._cached.move_to_end(key)
        for key, data in (await self.ignite.get_all(HISTORICAL, missing)).items():
            found[key] = decode_segment(data)
            self._remember(key, found[key])
        return [found[key] for key in keys if key in found]

    async def put(self, segment: Segment, data: bytes) -> Segment:
        """Store a segment unless its place is taken; returns the segment that has the place.

        It may be repeated with the same segment after an error: the nonce tells whose it is.
        """
        header = segment.header
        key = segment_key(header.stream, header.first)
        if not await self.ignite.put_if_absent(HISTORICAL, key, data):
            stored = decode_segment(await self.ignite.get(HISTORICAL, key))
            if stored.header.nonce != header.nonce:
                return stored
        metrics.SEGMENTS.labels(header.stream).inc()
        metrics.SEGMENT_BYTES.labels(header.stream).inc(len(data))
        self._remember(key, segment)
        return segment

    async def load_pages(self, stream: str, index: Index) -> int:
        """Fill an empty index from its pages; returns how many there are."""
        pages = 0
        while True:
            keys = [_page_key(stream, pages + i) for i in range(_PAGES_AT_ONCE)]
            found = await self.ignite.get_all(HISTORICAL, keys)
            for key in keys:
                if key not in found:
                    return pages
                index.append_page(found[key])
                pages += 1

    async def put_page(self, stream: str, page: int, index: Index, keys: RecentKeys) -> None:
        """Store a full page, and the idempotency keys of its segments before it."""
        first, last = index[page * PAGE], index[(page + 1) * PAGE - 1]
        known = keys.between(first.first, last.next)
        await self.ignite.put(HISTORICAL, _keys_key(stream, page), msgspec.msgpack.encode(known))
        await self.ignite.put(HISTORICAL, _page_key(stream, page), index.page(page))

    async def load_keys(self, stream: str, page: int) -> dict[str, Appended]:
        """Return the idempotency keys of a page's segments."""
        data = await self.ignite.get(HISTORICAL, _keys_key(stream, page))
        return msgspec.msgpack.decode(data, type=dict[str, Appended])

    def _remember(self, key: str, segment: Segment) -> None:
        if key not in self._cached:
            self._bytes += segment.size
        self._cached[key] = segment
        self._cached.move_to_end(key)
        while self._bytes > _CACHED_BYTES:
            _, oldest = self._cached.popitem(last=False)
            self._bytes -= oldest.size


def _page_key(stream: str, page: int) -> str:
    return f"{stream}/index/{page:010d}"


def _keys_key(stream: str, page: int) -> str:
    return f"{stream}/keys/{page:010d}"
