"""Reads this site's offloaded points from the replicas that store them."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from mistbow.client.operation_model import Copy
from mistbow.errors import UnavailableError
from mistbow.streams.schemas import METADATA, RAW
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.journal import STORE
from storage_agent.replication.filters import canonical_text
from storage_agent.replication.follower.replica_server import (
    ReplicaPointsRequest,
    read_replica_points,
)
from storage_agent.replication.offload.offloads import PREFIX, Offload, offloads_of
from storage_agent.series import Series
from storage_agent.streams.streams import Streams
from storage_agent.timeseries.grouped_points import COLUMNS
from storage_agent.timeseries.history import latest_points


@dataclass(frozen=True, slots=True)
class OffloadedSeries:
    """Series whose points up to ``to`` (ms) were offloaded to another site.

    The other site has all points at positions before ``before``. Points at later positions are at
    this site, and maybe at the other site as well.
    """

    series: Collection[Series]
    to: int
    before: int
    offload: Offload
    points: "OffloadedPoints"

    def read(
        self, start: int, end: int, columns: Sequence[str], reached: int
    ) -> AsyncIterator[pa.RecordBatch]:
        """Yield batches of points with ``start <= ts <= end`` (ms) from the other site.

        ``reached``: the position in this site's stream ``raw`` that the replica must have reached
        before the other site answers.
        """
        return self.points.read(self, start, end, columns, reached)

    def reason(self, start: int, end: int, error: str) -> str:
        """Return the message that the points from ``start`` to ``end`` (ms) could not be read.

        ``error``: the message of the error that prevented the read.
        """
        series_filter = self.offload.filter
        points = "points" if series_filter.all else f"points of {canonical_text(series_filter)}"
        return f"{points} from {start} to {end} were offloaded to {self.offload.target}: {error}"


class OffloadedPoints:
    """Stores the progress of offloads, and reads offloaded points from the targets.

    Implements ``history.RemotePoints``.
    """

    def __init__(self, membership: FabricMembership) -> None:
        # Locked from a decision that depends on the offloads and the copies until it is stored.
        self.changing = asyncio.Lock()
        self._membership = membership
        self._streams: Streams | None = None
        # The numbers of the running reads. (target, copy id) -> the number of the last read that
        # began before the present step of the offload was stored.
        self._running_reads: set[int] = set()
        self._last_read = 0
        self._last_read_before: dict[tuple[str, str], int] = {}

    def open(self, streams: Streams) -> None:
        """Set the streams of this site; the offloads are stored as attributes of ``raw``."""
        self._streams = streams

    def all(self) -> dict[tuple[str, str], Offload]:
        """Return the offloads: (target, copy id) -> offload."""
        raw = None if self._streams is None else self._streams.find_open(RAW)
        return {} if raw is None else offloads_of(raw.log)

    def of(self, copy: Copy) -> Offload | None:
        """Return the offload of a copy; None: no offload of the copy has begun."""
        return self.all().get((copy.target, copy.id))

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Return a context manager that registers a read as running until the context ends."""
        self._last_read += 1
        read = self._last_read
        self._running_reads.add(read)
        try:
            yield
        finally:
            self._running_reads.discard(read)

    def has_earlier_reads(self, offload: Offload) -> bool:
        """Return whether reads are still running that began before ``offload`` was stored.

        Such reads expect the offloaded points at this site.
        """
        last = self._last_read_before.get((offload.target, offload.id), 0)
        return any(read <= last for read in self._running_reads)

    async def record(self, attributes: dict[str, object]) -> None:
        """Store ``attributes`` of the stream ``raw``, which add, change or remove an offload.

        Reads that begin later get the offloaded points from the target of the offload. Raises
        ``UnavailableError`` while the agent is starting.
        """
        if self._streams is None:
            raise UnavailableError("the agent is starting")
        raw = await self._streams.get(RAW)
        await raw.writer.advance(raw.log.epoch, attributes=attributes)
        for target, copy_id in offloads_of(raw.log):
            if PREFIX + copy_id in attributes:
                self._last_read_before[target, copy_id] = self._last_read

    @property
    def store(self) -> str:
        """The name of this site's store; empty while the streams are not open."""
        metadata = None if self._streams is None else self._streams.find_open(METADATA)
        return "" if metadata is None else str(metadata.log.attributes.get(STORE))

    def among(self, series: Collection[Series]) -> Iterator[OffloadedSeries]:
        """Yield the offloaded series in ``series``, as an ``OffloadedSeries`` for each offload.

        A series is in at most one ``OffloadedSeries``. Series that were not offloaded are omitted.
        """
        for offload in self.all().values():
            metrics, entities = frozenset(offload.filter.metric), frozenset(offload.filter.entity)
            matching = {
                (metric, entity)
                for metric, entity in series
                if (not metrics or metric in metrics) and (not entities or entity in entities)
            }
            if matching:
                yield OffloadedSeries(matching, offload.to, offload.before, offload, self)

    async def read(
        self,
        offloaded: OffloadedSeries,
        start: int,
        end: int,
        columns: Sequence[str],
        reached: int,
    ) -> AsyncIterator[pa.RecordBatch]:
        """Yield batches of offloaded points from the target; see ``OffloadedSeries.read``.

        Raises a ``MistbowError`` if the read fails.
        """
        offload = offloaded.offload
        request = ReplicaPointsRequest(
            source=self._membership.site,
            id=offload.id,
            instance=offload.replica,
            store=self.store,
            series=tuple(offloaded.series),
            start=start,
            end=end,
            columns=tuple(columns),
            reached=reached,
            deleted=self._last_deletion(),
        )
        found = read_replica_points(self._membership.network, offload.target, request)
        async with aclosing(found) as chunks:
            async for chunk in chunks:
                yield chunk.rows

    async def latest(self, series: Collection[Series]) -> dict[Series, tuple[int, float]]:
        """Return the latest offloaded point of each series: series -> (time (ms), value)."""
        found: dict[Series, tuple[int, float]] = {}
        for offloaded in self.among(series):

            def read(
                some: Collection[Series],
                start: int,
                end: int,
                offloaded: OffloadedSeries = offloaded,
            ) -> AsyncIterator[pa.RecordBatch]:
                return self.read(replace(offloaded, series=some), start, end, COLUMNS, 0)

            found |= await latest_points(read, offloaded.series, offloaded.to, offloaded.to)
        return found

    def _last_deletion(self) -> int:
        """Return the number of the last deletion that replicas must have applied to answer a read.

        Returns 0 if there is no such deletion.
        """
        raw = None if self._streams is None else self._streams.find_open(RAW)
        if raw is None:
            return 0
        tombstones = raw.log.manifest.current.tombstones
        return max((each.id for each in tombstones if not each.local), default=0)
