"""Where commits and runs are: in Ignite, and the last used ones in memory too."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from mistbow.errors import UnavailableError
from storage_agent import metrics
from storage_agent.ignite_client import HISTORICAL, IgniteClient
from storage_agent.streams import runs
from storage_agent.streams.cache import Cache
from storage_agent.streams.runs import Commits
from storage_agent.streams.segments import (
    Appended,
    Segment,
    decode_segment,
    segment_key,
)

_CACHED_BYTES = 48 * 2**20
_REMOVED_AT_ONCE = 500
_HERE_BYTES = 64 * 2**10
"""So much is decoded between other requests; more is in a thread of its own."""

Decode = Callable[[bytes], Any]
Size = Callable[[Any], int]


class SegmentStore:
    """The commits and runs of all streams."""

    def __init__(self, ignite: IgniteClient) -> None:
        self.ignite = ignite
        self.cache = Cache(_CACHED_BYTES)

    async def get(self, stream: str, first: int) -> Segment | None:
        """Return the commit that begins at ``first``."""
        found = await self.get_all(stream, [first])
        return found[0] if found else None

    async def get_all(self, stream: str, firsts: Sequence[int]) -> list[Segment]:
        """Return those of the commits that there are, in their order."""
        keys = [segment_key(stream, first) for first in firsts]
        found = await self._all(keys, decode_segment, lambda segment: segment.size)
        return [found[key] for key in keys if key in found]

    async def put(self, segment: Segment, data: bytes) -> Segment:
        """Store a commit unless its place is taken; returns the one that has the place.

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
        kept = replace(segment, stored=len(data))
        self.cache.put(key, kept, kept.size)
        return kept

    async def commits(self, stream: str, run: str) -> tuple[Commits, dict[str, Appended]]:
        """Return the commits of a run, and the idempotency keys that it keeps."""
        key = _run_key(stream, run, "commits")
        [found] = await self._parts([key], runs.decode_commits, lambda it: len(it[0]) * 56)
        loaded: tuple[Commits, dict[str, Appended]] = found
        return loaded

    async def firsts_of(self, stream: str, run: str) -> list[int]:
        """Return the first numbers of a run's commits; none if the run is removed already."""
        key = _run_key(stream, run, "commits")
        found = await self._all([key], runs.decode_commits, lambda it: len(it[0]) * 56)
        return list(found[key][0].first.tolist()) if found else []

    async def points(self, stream: str, blocks: Iterable[tuple[str, int]]) -> list[pa.Table]:
        """Return some blocks of runs of points."""
        keys = [_run_key(stream, run, str(block)) for run, block in blocks]
        return await self._parts(keys, runs.decode_points, lambda table: int(table.nbytes))

    async def rows(self, stream: str, run: str, part: str = "0") -> pa.RecordBatch:
        """Return the rows of a run that is not sorted; ``part`` ahead: those that wait."""
        key = _run_key(stream, run, part)
        [found] = await self._parts([key], runs.decode_rows, lambda batch: int(batch.nbytes))
        return found

    async def put_part(self, stream: str, run: str, part: str, data: bytes) -> None:
        """Store a part of a run: a block, ``commits``, or ``ahead``."""
        await self.ignite.put(HISTORICAL, _run_key(stream, run, part), data)

    async def remove_run(self, stream: str, run: str, blocks: int) -> None:
        """Remove all parts of a run."""
        parts = [*map(str, range(blocks)), "commits", "ahead"]
        await self._remove([_run_key(stream, run, part) for part in parts])

    async def remove_commits(self, stream: str, firsts: Sequence[int]) -> None:
        """Remove commits."""
        await self._remove([segment_key(stream, first) for first in firsts])

    async def _remove(self, keys: Sequence[str]) -> None:
        for begin in range(0, len(keys), _REMOVED_AT_ONCE):
            some = keys[begin : begin + _REMOVED_AT_ONCE]
            await self.ignite.remove_all(HISTORICAL, some)
            for key in some:
                self.cache.drop(key)

    async def _all(self, keys: Sequence[str], decode: Decode, size: Size) -> dict[str, Any]:
        known = {key: self.cache.get(key) for key in keys}
        # What was cached may leave the cache while Ignite answers.
        found = {key: value for key, value in known.items() if value is not None}
        missing = [key for key in keys if key not in found]
        read = await _decoded(await self.ignite.get_all(HISTORICAL, missing), decode)
        for key, value in read.items():
            self.cache.put(key, value, size(value))
        return found | read

    async def _parts(self, keys: Sequence[str], decode: Decode, size: Size) -> list[Any]:
        found = await self._all(keys, decode, size)
        if len(found) < len(keys):
            raise UnavailableError("a run was replaced while it was read", hint="Try again.")
        return [found[key] for key in keys]


async def _decoded(stored: dict[str, bytes], decode: Decode) -> dict[str, Any]:
    def work() -> dict[str, Any]:
        return {key: decode(data) for key, data in stored.items()}

    if sum(map(len, stored.values())) <= _HERE_BYTES:
        return work()
    return await asyncio.to_thread(work)


def _run_key(stream: str, run: str, part: str) -> str:
    return f"{stream}/run/{run}/{part}"
