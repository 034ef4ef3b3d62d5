"""Pages of the points that a /get selects, in the order of site, series and time."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from mistbow.client.agent_model import POINT_SCHEMA, Missing, ReplicaSource
from storage_agent.http.cursors import PageKey
from storage_agent.http.points import GetBody
from storage_agent.series import Metadata, Series, series_of
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.grouped_points import (
    GroupedPoints,
    SeriesSlice,
    encode_slices,
    join_chunks,
)
from storage_agent.timeseries.history import History
from storage_agent.timeseries.point_queries import series_filter, time_range
from storage_agent.timeseries.selection import SeriesSelection
from storage_agent.timeseries.series_order import SeriesOrder
from storage_agent.work_threads import in_thread_if_many

_SLACK_POINTS = 50_000
"""The number of points beyond the page that are collected before they are dropped."""

_MAX_GROUP_SERIES = 50_000
_MAX_GROUP_GROWTH = 8
_GET_TIMES = attrgetter("times")
_FIRST_SPAN_MS = 1000
"""The time range, per point of the page, in which a single series is searched first."""


@dataclass(frozen=True, slots=True)
class NodePoints:
    """The points of one node in a page.

    ``replica``: the replica from which the points were read; None: the node itself answered.
    """

    node: str
    series: Sequence[SeriesSlice]
    replica: ReplicaSource | None = None

    def to_json(self) -> Iterator[bytes]:
        """Yield the parts of the node's JSON object in the answer to a /get."""
        head: dict[str, Any] = {"node": self.node}
        if self.replica is not None:
            head |= {"from": self.replica.at, "stale_ms": self.replica.stale_ms}
        yield msgspec.json.encode(head)[:-1] + b',"data":'
        yield from encode_slices(iter(self.series))
        yield b"}"

    def to_rows(self) -> pa.RecordBatch:
        """Return the points as rows of the schema ``POINT_SCHEMA``."""
        counts = [len(each.times) for each in self.series]
        indices = pa.array(np.repeat(np.arange(len(counts), dtype=np.int32), counts))
        names = ([series_of(each.metadata)[part] for each in self.series] for part in (0, 1))
        metrics, entities = (
            pa.DictionaryArray.from_arrays(indices, pa.array(each, pa.string())).dictionary_decode()
            for each in names
        )
        times = np.concatenate([each.times for each in self.series])
        values = np.concatenate([each.values for each in self.series])
        nodes = pa.repeat(self.node, len(times))
        return pa.RecordBatch.from_arrays(
            [nodes, metrics, entities, pa.array(times), pa.array(values)], schema=POINT_SCHEMA
        )


@dataclass(frozen=True, slots=True)
class SitePage:
    """The points of one site in a page.

    ``last``: the series and the time (ms) of the last point, if the site may have later points;
    None: the page contains the last point of the site.
    """

    nodes: Sequence[NodePoints] = ()
    last: tuple[Series, int] | None = None
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True, slots=True)
class PointPage:
    """A page of points; ``next``: the key of the last point; None: this is the last page."""

    nodes: Sequence[NodePoints]
    next: PageKey | None
    missing: tuple[Missing, ...] = ()

    def __len__(self) -> int:
        return count_points(self.nodes)

    @property
    def replicas(self) -> tuple[ReplicaSource, ...]:
        """The replicas from which the page was read."""
        return tuple(each.replica for each in self.nodes if each.replica is not None)

    def to_rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the points as rows of the schema ``POINT_SCHEMA``."""
        return (each.to_rows() for each in self.nodes if each.series)

    def to_json(self, cursor: str | None) -> Iterator[bytes]:
        """Yield the chunks of the JSON answer; ``cursor``: the cursor of the next page, if any."""
        end = {"next": cursor} | ({"missing": self.missing} if self.missing else {})
        return join_chunks(
            chain(
                (b'{"monitoring":[',),
                _join_with_commas(self.nodes),
                (b"],", msgspec.json.encode(end)[1:]),
            )
        )


def count_points(nodes: Sequence[NodePoints]) -> int:
    """Return the number of points of nodes."""
    # Without a step of Python for each series.
    return sum(sum(map(len, map(_GET_TIMES, each.series))) for each in nodes)


def cut_series(
    series: Sequence[SeriesSlice], after: tuple[Series, int] | None, limit: int
) -> tuple[list[SeriesSlice], bool]:
    """Return (the first ``limit`` points after a point, whether there are more points).

    ``series``: in order, see ``SeriesSlice``. ``after``: the series and the time of the point. Like
    ``GroupedPoints.cut``, this function does not divide points of one series with equal times.
    """
    selected: list[SeriesSlice] = []
    room = limit
    for each in series:
        key = series_of(each.metadata)
        if after is not None and key < after[0]:
            continue
        begin = 0
        if after is not None and key == after[0]:
            begin = int(np.searchsorted(each.times, after[1], "right"))
        if begin == len(each.times):
            continue
        if room <= 0:
            return selected, True
        last = each.times[min(begin + room, len(each.times)) - 1]
        end = int(np.searchsorted(each.times, last, "right"))
        selected.append(SeriesSlice(each.metadata, each.times[begin:end], each.values[begin:end]))
        room -= end - begin
        if end < len(each.times):
            return selected, True
    return selected, False


class PageReader:
    """Reads pages of the points of this node that a body selects; ignores the field ``nodes``."""

    def __init__(self, node: str, catalogue: Catalogue, history: History, body: GetBody) -> None:
        self._node = node
        self._catalogue = catalogue
        self._history = history
        self._body = body
        self._order = SeriesOrder(catalogue, body)

    async def read(self, after: tuple[Series, int] | None, limit: int) -> SitePage:
        """Return the first ``limit`` points after the point ``after``.

        ``after``: the series and the time (ms) of a point; None: from the first point on.
        """
        times = time_range(self._body)
        reading = _Reading(self._catalogue, self._history, self._body, self._order, after, limit)
        reading.reasons += self._history.unstored()
        await (reading.read_latest() if times is None else reading.read_range(*times))
        nodes = (NodePoints(self._node, reading.series),) if reading.series else ()
        missing = tuple(Missing(self._node, reason) for reason in dict.fromkeys(reading.reasons))
        return SitePage(nodes, reading.last if reading.has_more else None, missing)


@dataclass(slots=True)
class _Reading:
    """One page that is being read.

    ``left``: the number of points that the page still lacks. ``reasons``: why points are missing.
    """

    catalogue: Catalogue
    history: History
    body: GetBody
    order: SeriesOrder
    after: tuple[Series, int] | None
    left: int
    series: list[SeriesSlice] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    has_more: bool = False

    @property
    def last(self) -> tuple[Series, int] | None:
        """The last point that was read."""
        if not self.series:
            return self.after
        return series_of(self.series[-1].metadata), int(self.series[-1].times[-1])

    async def read_latest(self) -> None:
        """Read the latest values of series."""
        async for some in self.order.after(self.after and self.after[0]):
            latest = some.where(some.has_latest)
            page = latest.part(0, self.left)
            self.series += await in_thread_if_many(len(page), partial(_latest_slices, page))
            self.left -= len(page)
            self.has_more = len(latest) > len(page)
            if self.has_more:
                return

    async def read_range(self, start: int, end: int) -> None:
        """Read the points from ``start`` to ``end`` (ms, inclusive).

        The series are read in groups, since each group takes a pass over the stored points. A group
        is small if its series, or the series before it, have many points.
        """
        if self.after is not None:
            await self._resume(*self.after, end)
        average = self.history.count_rows(start, end) / max(1, len(self.catalogue))
        size = 1
        async for left in self.order.after(self.after and self.after[0]):
            while len(left):
                if self.left <= 0:
                    self.has_more = True
                if self.has_more:
                    return
                group, left = left.part(0, size), left.part(size, len(left))
                count = await self._read_group(group, start, end)
                per_series = max(count / len(group), 1 / _MAX_GROUP_GROWTH)
                room = max(self.left, 0)
                growth = max(_MAX_GROUP_GROWTH * len(group), room / max(average, 1.0))
                size = max(1, int(min(room / per_series, growth, _MAX_GROUP_SERIES)))

    async def _resume(self, series: Series, ts: int, end: int) -> None:
        """Read the points after the time ``ts`` of the series at which the last page ended."""
        metadata = self.catalogue.metadata(series)
        if metadata is not None and series_filter(self.body)(metadata):
            await self._read_group({series: metadata}, ts + 1, end)

    async def _read_group(self, group: Mapping[Series, Metadata], start: int, end: int) -> int:
        """Read points of a group of series; return the number of points."""
        points = await in_thread_if_many(len(group), lambda: GroupedPoints(group))
        limit = self.left
        if len(group) > 1:
            self.has_more = await self._collect(points, start, end, limit)
        else:
            # Short ranges first: a series may have many more points than the page.
            span = _FIRST_SPAN_MS * limit
            while start <= end and not self.has_more:
                stop = min(end, start + span - 1)
                self.has_more = await self._collect(points, start, stop, limit)
                start, span = stop + 1, span * _MAX_GROUP_GROWTH
                if len(points) >= limit:
                    self.has_more |= start <= end
                    break
        self.left -= len(points)
        self.series += await asyncio.to_thread(lambda: list(points.slices()))
        return len(points)

    async def _collect(self, points: GroupedPoints, start: int, end: int, limit: int) -> bool:
        """Add the first points of a time range to ``points``; return whether there are more."""
        has_more = False
        batches = self.history.batches(points.series, start, end, missing=self.reasons)
        async for batch in batches:
            await in_thread_if_many(batch.num_rows, partial(points.add, batch))
            if len(points) > limit + _SLACK_POINTS:
                has_more |= await asyncio.to_thread(points.cut, limit)
        return await in_thread_if_many(len(points), lambda: points.cut(limit)) or has_more


def _latest_slices(page: SeriesSelection) -> list[SeriesSlice]:
    return [
        SeriesSlice(metadata, page.ts[place : place + 1], page.value[place : place + 1])
        for place, metadata in enumerate(page.values())
    ]


def _join_with_commas(nodes: Sequence[NodePoints]) -> Iterator[bytes]:
    for number, each in enumerate(nodes):
        if number:
            yield b","
        yield from each.to_json()
