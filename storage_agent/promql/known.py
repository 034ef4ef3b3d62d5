"""Which labels there are, for /series and the like, as the newest rows and the catalogue say.

Points tell their labels themselves, so the newest are looked through, as many as have come since
last time and not more than so many. A series that is not among them is known by its metadata: all
but the labels that its sender gave it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from mistbow.settings import AgentSettings
from mistbow.streams.schemas import RAW
from storage_agent.agent import Agent
from storage_agent.fabric.relay import SILENT
from storage_agent.monitoring.catalogue import Metadata, Series
from storage_agent.monitoring.points import node_attributes
from storage_agent.promql.labels import Labels, point_labels, result_labels
from storage_agent.promql.store import Store
from storage_agent.replication.told import series_told
from storage_agent.streams import reading
from storage_agent.streams.streams import Stream

_NEWEST = 200_000
"""Most rows of a stream that are looked through at once."""

_MOST_KNOWN = 200_000
"""Most sets of labels of a stream that are kept; beyond that, all are found anew."""


class KnownLabels:
    """Label sets of an agent's points and results."""

    def __init__(self, agent: Agent, settings: AgentSettings, store: Store) -> None:
        self._agent = agent
        self._store = store
        overridable, fixed = node_attributes(settings)
        self._node = {**overridable, **fixed}
        self._points = _Seen(("metric", "attributes"), point_labels)
        self._results: dict[str, _Seen] = {}

    async def all(self, since: int, missing: list[str]) -> list[Labels]:
        """Return the labels of all series, without those whose last point is before a time (ms).

        What is not known of a site that is silent is told in ``missing``.
        """
        if (silent := SILENT.get()) is not None:
            missing.append(
                f"{silent.reason}; labels that senders gave, results of insights that lie there, "
                "and when the last points came are not known here"
            )
            return self._told_by(silent.site)
        catalogue = self._agent.catalogue
        await self._points.look(await self._agent.streams.get(RAW))
        found: set[Labels] = set()
        told: set[Series] = set()
        for (metric, attributes), labels in self._points.labels.items():
            series = (metric, str(msgspec.json.decode(attributes)["entityID"]))
            told.add(series)
            latest = catalogue.latest(series)
            if latest is not None and latest.ts >= since:
                found.add(labels)
        for series, metadata in catalogue.all():
            latest = catalogue.latest(series)
            if series not in told and latest is not None and latest.ts >= since:
                found.add(_described(series, metadata, self._node))
        for stream in self._store.result_streams():
            seen = self._results.setdefault(stream.name, _Seen(("insight", "key"), result_labels))
            await seen.look(stream)
            found.update(seen.labels.values())
        return sorted(found)

    def _told_by(self, name: str) -> list[Labels]:
        """Return the labels of the series of another site, as it told of them."""
        member = self._agent.member
        site = next(each for each in member.fabric().sites if each.name == name)
        node = {**site.labels, "node": site.node, "site": site.name}
        if site.region:
            node["region"] = site.region
        told = series_told(member.told_by(name))
        return sorted({_described(series, metadata, node) for series, metadata in told})


def _described(series: Series, metadata: Metadata, node: Mapping[str, str]) -> Labels:
    """Return the labels of points of a series, without those that their sender gave them."""
    parts: dict[str, Any] = {
        f"{part}.{name}": value
        for part in ("pod", "container")
        for name, value in metadata.get(part, {}).items()
    }
    for name in ("entityID", "entityType", "group"):
        parts[name] = metadata.get(name)
    return point_labels(series[0], msgspec.json.encode({**node, **parts}).decode())


class _Seen:
    """The distinct pairs of two columns of a stream, and the labels that each stands for."""

    def __init__(self, columns: Sequence[str], make: Callable[[str, str], Labels]) -> None:
        self.labels: dict[tuple[str, str], Labels] = {}
        self._columns = columns
        self._make = make
        self._next = 0

    async def look(self, stream: Stream) -> None:
        """Look through what is new."""
        head = stream.log.head
        if head < self._next or len(self.labels) > _MOST_KNOWN:
            self.labels.clear()
            self._next = 0
        begin = max(self._next, head - _NEWEST)
        selector = reading.Selector(stream, reading.Selection(columns=self._columns))
        async for chunk in reading.read(stream.log, selector, begin, head):
            for pair in _pairs(chunk.rows, self._columns):
                if pair not in self.labels:
                    self.labels[pair] = self._make(*pair)
        self._next = head


def _pairs(rows: pa.RecordBatch, columns: Sequence[str]) -> list[tuple[str, str]]:
    """Return the distinct pairs of the texts in two columns."""
    first, second = (_encoded(rows[name]) for name in columns)
    if not rows.num_rows:
        return []
    width = len(second.dictionary)
    codes = first.indices.to_numpy().astype(np.int64) * width + second.indices.to_numpy()
    distinct = np.unique(codes)
    firsts = first.dictionary.take(pa.array(distinct // width)).to_pylist()
    seconds = second.dictionary.take(pa.array(distinct % width)).to_pylist()
    return list(zip(firsts, seconds, strict=True))


def _encoded(column: pa.Array) -> pa.DictionaryArray:
    return column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
