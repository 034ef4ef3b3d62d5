"""The index of label sets, from which the agent answers /series, /labels and /label/NAME/values.

The row of each point contains the labels of the point's series. A read of the index scans the rows
that were appended since the previous read, up to a maximum number. If no row of a series was
scanned, the labels are taken from the metadata of the series; the metadata does not contain labels
that clients set.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from mistbow.streams.schemas import RAW
from storage_agent.membership.facts import published_series
from storage_agent.membership.proxy import UNREACHABLE
from storage_agent.promql.labels import Labels, PointLabels, result_labels, sort_labels
from storage_agent.promql.querier import Querier, Sources
from storage_agent.series import Metadata, Series
from storage_agent.settings import AgentSettings
from storage_agent.streams import subscription
from storage_agent.streams.streams import Stream
from storage_agent.timeseries.points import node_attributes
from storage_agent.timeseries.selection import SeriesSelection

_MAX_SCANNED_ROWS = 200_000
"""The maximum number of rows of a stream that one read scans; older rows are not scanned."""

_MAX_LABEL_SETS = 200_000
"""The maximum number of label sets in the cache of a stream; a larger cache is cleared."""


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
        """Return the sorted label sets of series with points at or after ``since`` (ms).

        The label sets of all results of insights are included. If the requested site is
        unreachable, returns label sets from the metadata that the site published, and appends a
        message about the missing parts to ``missing``.
        """
        if (unreachable := UNREACHABLE.get()) is not None:
            missing.append(
                f"{unreachable.reason}; labels that clients set, the results of its insights, and "
                "the times of its latest points are missing"
            )
            return await asyncio.to_thread(self._labels_of_site, unreachable.site)
        await self._points.update(await self._sources.streams.get(RAW))
        found: list[Labels] = []
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
        of_points: Sequence[tuple[tuple[str, str], Labels]],
        of_results: Sequence[Labels],
    ) -> list[Labels]:
        """Return the sorted label sets of results, and of the series with points since ``since``
        (ms).

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
        distinct = list(found)
        return [distinct[number] for number in sort_labels(distinct).tolist()]

    def _labels_of_site(self, name: str) -> list[Labels]:
        """Return the sorted label sets of the series whose metadata the site ``name`` published."""
        membership = self._sources.membership
        site = next(each for each in membership.fabric().sites if each.name == name)
        node = {**site.labels, "node": site.node, "site": site.name}
        if site.region:
            node["region"] = site.region
        published = published_series(membership.facts_of(name))
        return sorted(
            {self._labels_from_metadata(series, metadata, node) for series, metadata in published}
        )

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
    """

    def __init__(self, columns: Sequence[str], make: Callable[[str, str], Labels]) -> None:
        self.labels: dict[tuple[str, str], Labels] = {}
        self._columns = columns
        self._make = make
        self._next = 0
        self._updating = asyncio.Lock()

    async def update(self, stream: Stream) -> None:
        """Add the labels of the rows that were appended to the stream since the last update."""
        async with self._updating:
            await self._update(stream)

    async def _update(self, stream: Stream) -> None:
        head = stream.log.head
        if head < self._next or len(self.labels) > _MAX_LABEL_SETS:
            self.labels.clear()
            self._next = 0
        begin = max(self._next, head - _MAX_SCANNED_ROWS)
        selector = subscription.RowSelector(
            stream, subscription.RowSelection(columns=self._columns)
        )
        async for chunk in subscription.read(stream.log, selector, begin, head):
            self.labels |= await asyncio.to_thread(self._new_labels, chunk.rows)
        self._next = head

    def _new_labels(self, rows: pa.RecordBatch) -> dict[tuple[str, str], Labels]:
        pairs = _pairs(rows, self._columns)
        return {pair: self._make(*pair) for pair in pairs if pair not in self.labels}


def _pairs(rows: pa.RecordBatch, columns: Sequence[str]) -> list[tuple[str, str]]:
    """Return the distinct pairs of values in two text columns."""
    first, second = (_dictionary_encode(rows[name]) for name in columns)
    if not rows.num_rows:
        return []
    width = len(second.dictionary)
    codes = first.indices.to_numpy().astype(np.int64) * width + second.indices.to_numpy()
    distinct = np.unique(codes)
    firsts = first.dictionary.take(pa.array(distinct // width)).to_pylist()
    seconds = second.dictionary.take(pa.array(distinct % width)).to_pylist()
    return list(zip(firsts, seconds, strict=True))


def _dictionary_encode(column: pa.Array) -> pa.DictionaryArray:
    return column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
