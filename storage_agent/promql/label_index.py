"""The index of label sets, from which the agent answers /series, /labels and /label/NAME/values.

The row of each point contains the labels of the point's series. A read of the index scans the rows
that were appended since the previous read, up to a maximum number. If no row of a series was
scanned, the labels are taken from the metadata of the series; the metadata does not contain labels
that clients set.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from mistbow.streams.schemas import RAW
from storage_agent.membership.facts import published_series
from storage_agent.membership.proxy import UNREACHABLE
from storage_agent.promql.labels import Labels, PointLabels, result_labels
from storage_agent.promql.querier import Querier, Sources
from storage_agent.series import Metadata, Series
from storage_agent.settings import AgentSettings
from storage_agent.streams import subscription
from storage_agent.streams.columns import dictionary_encode
from storage_agent.streams.manifest import Manifest
from storage_agent.streams.streams import Stream
from storage_agent.timeseries.points import node_attributes
from storage_agent.timeseries.selection import SeriesSelection

_MAX_SCANNED_ROWS = 200_000
"""The maximum number of rows of a stream that one read scans; older rows are not scanned."""

_MAX_LABEL_SETS = 200_000
"""The maximum number of label sets in the cache of a stream; a larger cache is cleared."""

_Pair = tuple[str, str]
"""The values of a row in the two columns that determine the labels."""


class _Attributes(msgspec.Struct, rename={"entity": "entityID"}):
    entity: str


_ENTITY = msgspec.json.Decoder(_Attributes)


class LabelIndex:
    """Finds the label sets of all series in PromQL: series of points, and results of insights."""

    def __init__(self, sources: Sources, settings: AgentSettings, querier: Querier) -> None:
        self._sources = sources
        self._querier = querier
        overridable, fixed = node_attributes(settings)
        self._node = {**overridable, **fixed}
        self._point_labels = PointLabels.of_settings(settings)
        self._points = _LabelCache(("metric", "attributes"), self._point_labels)
        self._results: dict[str, _LabelCache] = {}

    async def label_sets(self, since: int, missing: list[str]) -> list[Labels]:
        """Return the distinct label sets of series with points at or after ``since`` (ms).

        The label sets of all results of insights are included. If the requested site is
        unreachable, returns label sets from the metadata that the site published, and appends a
        message about the missing parts to ``missing``.
        """
        if (unreachable := UNREACHABLE.get()) is not None:
            missing.append(
                f"{unreachable.reason}; labels that clients set, the results of its insights, and "
                "the times of its latest points are missing"
            )
            return await self._labels_of_site(unreachable.site)
        await self._points.update(await self._sources.streams.get(RAW))
        found: list[Labels] = []
        existing = {stream.name for stream in self._sources.streams.all()}
        self._results = {n: each for n, each in self._results.items() if n in existing}
        for stream in self._querier.result_streams():
            cache = self._results.setdefault(
                stream.name, _LabelCache(("insight", "key"), result_labels)
            )
            await cache.update(stream)
            found += cache.labels.values()
        series = self._sources.catalogue.select()
        labels = list(self._points.labels.items())
        return await asyncio.to_thread(self._merge, series, since, labels, found)

    def _merge(
        self,
        series: SeriesSelection,
        since: int,
        of_points: Sequence[tuple[_Pair, Labels]],
        of_results: Sequence[Labels],
    ) -> list[Labels]:
        """Return the label sets of results, and of the series with points since ``since`` (ms).

        ``of_points``: the labels that are known from rows of points, as ((metric, attributes),
        labels); the labels of other series are taken from their metadata. ``of_results``: the label
        sets of results.
        """
        # In the order of the selection, in which the metadata follows.
        recent = dict.fromkeys(series.where(series.has_latest & (series.ts >= since)), False)
        found = set(of_results)
        for (metric, attributes), labels in of_points:
            key = (metric, _ENTITY.decode(attributes).entity)
            if key in recent:
                recent[key] = True
                found.add(labels)
        if not all(recent.values()):
            for key, metadata in series.items():
                if not recent.get(key, True):
                    found.add(self._labels_from_metadata(key, metadata, self._node))
        while recent:
            recent.popitem()  # one by one: other threads wait while memory is freed
        return list(found)

    async def _labels_of_site(self, name: str) -> list[Labels]:
        """Return the label sets of the series whose metadata the site ``name`` published."""
        membership = self._sources.membership
        site = next(each for each in membership.fabric().sites if each.name == name)
        node = {**site.labels, "node": site.node, "site": site.name}
        if site.region:
            node["region"] = site.region
        published = published_series(membership.facts_of(name))
        return await asyncio.to_thread(self._labels_of_series, published, node)

    def _labels_of_series(
        self, series: Iterable[tuple[Series, Metadata]], node: Mapping[str, str]
    ) -> list[Labels]:
        return list({self._labels_from_metadata(key, metadata, node) for key, metadata in series})

    def _labels_from_metadata(
        self, series: Series, metadata: Metadata, node: Mapping[str, str]
    ) -> Labels:
        """Return the labels of a series from its metadata, without labels that clients set.

        ``node``: the attributes of the node that stores the series.
        """
        parts: dict[str, Any] = {
            f"{part}.{name}": value
            for part in ("pod", "container")
            for name, value in metadata.get(part, {}).items()
        }
        for name in ("entityID", "entityType", "group"):
            parts[name] = metadata.get(name)
        return self._point_labels(series[0], msgspec.json.encode({**node, **parts}).decode())


class _LabelCache:
    """Caches the labels of each distinct pair of values in two columns of a stream.

    ``columns``: the names of the two columns. ``make``: returns the labels of a pair of values.
    After a deletion of rows, all labels are read again, because a deleted row does not show whether
    other rows have its labels.
    """

    def __init__(self, columns: Sequence[str], make: Callable[[str, str], Labels]) -> None:
        self.labels: dict[_Pair, Labels] = {}
        self._columns = columns
        self._make = make
        self._key = ""
        self._tombstone = 0
        self._first = 0
        self._next = 0
        # Pair -> the end of the last part of the stream that has rows with the pair.
        self._last: dict[_Pair, int] = {}
        self._updating = asyncio.Lock()

    async def update(self, stream: Stream) -> None:
        """Add the labels of new rows of the stream, and remove those that only removed rows had."""
        async with self._updating:
            await self._update(stream)

    async def _update(self, stream: Stream) -> None:
        log = stream.log
        head, first, manifest = log.head, log.first, log.manifest.current
        replaced = log.key != self._key or head < self._next
        if replaced or self._misses_rows(manifest) or len(self.labels) > _MAX_LABEL_SETS:
            self.labels, self._last, self._next = {}, {}, 0
        elif first > self._first:
            await asyncio.to_thread(self._drop_evicted, first)
        self._key, self._first, self._tombstone = log.key, first, manifest.last_tombstone
        begin = max(self._next, head - _MAX_SCANNED_ROWS)
        selector = subscription.RowSelector(
            stream, subscription.RowSelection(columns=self._columns)
        )
        async for chunk in subscription.read(log, selector, begin, head):
            pairs, new = await asyncio.to_thread(self._read, chunk.rows)
            self.labels |= new
            self._last |= dict.fromkeys(pairs, chunk.position.next)
        self._next = head

    def _misses_rows(self, manifest: Manifest) -> bool:
        """Return whether rows were deleted since the last update, other than by an offload."""
        deletions = manifest.last_tombstone - self._tombstone
        new = [each for each in manifest.tombstones if each.id > self._tombstone]
        # Compaction has removed the tombstones that are missing.
        return len(new) < deletions or not all(each.local for each in new)

    def _drop_evicted(self, first: int) -> None:
        """Remove the labels that no row at the position ``first`` or after it has."""
        self._last = {pair: end for pair, end in self._last.items() if end > first}
        self.labels = {pair: self.labels[pair] for pair in self._last}

    def _read(self, rows: pa.RecordBatch) -> tuple[list[_Pair], dict[_Pair, Labels]]:
        """Return the pairs in rows, and the labels of those pairs that are new."""
        pairs = _pairs(rows, self._columns)
        return pairs, {pair: self._make(*pair) for pair in pairs if pair not in self.labels}


def _pairs(rows: pa.RecordBatch, columns: Sequence[str]) -> list[_Pair]:
    """Return the distinct pairs of values in two text columns."""
    first, second = (dictionary_encode(rows[name]) for name in columns)
    if not rows.num_rows:
        return []
    width = len(second.dictionary)
    codes = first.indices.to_numpy().astype(np.int64) * width + second.indices.to_numpy()
    distinct = np.unique(codes)
    firsts = first.dictionary.take(pa.array(distinct // width)).to_pylist()
    seconds = second.dictionary.take(pa.array(distinct % width)).to_pylist()
    return list(zip(firsts, seconds, strict=True))
