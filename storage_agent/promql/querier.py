"""The reading of samples for queries, from the points of this site and the results of insights.

The points of an unreachable site are read from replicas.
"""

import asyncio
import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.client.fields import MAX_TIMESTAMP_MS
from mistbow.streams.results import latest_revisions
from mistbow.streams.schemas import POINTS, RESULT_ROWS, results_stream
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.facts import published_series
from storage_agent.membership.proxy import UNREACHABLE, UnreachableSite
from storage_agent.promql.errors import PromqlError
from storage_agent.promql.labels import (
    ENTITY,
    INSIGHT,
    NAME,
    RAW_NAME,
    Labels,
    PointLabels,
    make_labels,
    metric_name,
    result_labels,
)
from storage_agent.promql.matchers import Selector, match_series
from storage_agent.promql.parse import SampleRange
from storage_agent.promql.samples import Samples, UnsortedSamples, merge_samples
from storage_agent.replication.failover.failover import PointsRequest
from storage_agent.replication.replication import Replication
from storage_agent.series import Metadata, Series
from storage_agent.settings import AgentSettings
from storage_agent.streams import subscription
from storage_agent.streams.columns import as_list
from storage_agent.streams.read_access import is_readable
from storage_agent.streams.streams import Stream, Streams
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.history import History
from storage_agent.timeseries.selection import SeriesSelection

_POINTS = ("metric", "attributes", "ts", "value")
_RESULTS = ("insight", "key", "ts", "value", "revision")


class Sources(Protocol):
    """The parts of an agent from which queries read.

    The properties raise ``UnavailableError`` while the agent starts.
    """

    @property
    def streams(self) -> Streams:
        """The streams of this site."""
        ...

    @property
    def catalogue(self) -> Catalogue:
        """The catalogue of this site's series."""
        ...

    @property
    def history(self) -> History:
        """The points of this site."""
        ...

    @property
    def membership(self) -> FabricMembership:
        """The membership: all peers of this agent, with the reachability of each peer."""
        ...

    @property
    def replication(self) -> Replication:
        """The replication, by which replicas are read in place of unreachable sites."""
        ...


class Querier:
    """Reads points, and results of insights, as samples."""

    def __init__(self, sources: Sources, settings: AgentSettings) -> None:
        self._sources = sources
        self._point_labels = PointLabels.of_settings(settings)

    async def select(
        self, sample_range: SampleRange, max_samples: int, missing: list[str]
    ) -> Samples:
        """Return the samples that a selector matches in a time range.

        Appends a message to ``missing`` for samples that could not be read. If the samples are more
        than ``max_samples``, raises ``TooLargeError`` (too many points) or ``PromqlError`` (too
        many results of insights).
        """
        selector = sample_range.selector
        start, end = max(0, sample_range.start), min(sample_range.end, MAX_TIMESTAMP_MS)
        if start > end:
            return merge_samples([])
        results: Sequence[pa.Table] = ()
        if (unreachable := UNREACHABLE.get()) is not None:
            points = await self._read_replicas(
                unreachable, selector, start, end, max_samples, missing
            )
        else:
            missing += self._sources.history.unstored()
            series = await self._select_series(selector, start)
            points = await self._sources.history.read(
                series, start, end, columns=_POINTS, max_points=max_samples, missing=missing
            )
            results = await self._read_results(selector, start, end, max_samples - points.num_rows)

        def convert() -> Samples:
            columns = [points[name] for name in _POINTS]
            parts = [_match_rows(columns, self._point_labels.with_empty_cache(), selector)]
            for table in results:
                settled = latest_revisions(table)
                # Withdrawn results and texts have no value.
                valid = settled.filter(pc.is_valid(settled["value"]))
                columns = [valid[name] for name in ("insight", "key", "ts", "value")]
                parts.append(_match_rows(columns, result_labels, selector))
            return merge_samples(parts)

        return await asyncio.to_thread(convert)

    async def _select_series(self, selector: Selector, start: int) -> Collection[Series]:
        """Return series that may match a selector and have points at or after ``start`` (ms)."""
        catalogue = self._sources.catalogue
        metrics = await asyncio.to_thread(_match_metrics, selector, catalogue.metrics())
        if not metrics:
            return ()
        found = catalogue.select(metrics, _required_entities(selector))

        def narrow() -> SeriesSelection:
            recent = found.where(found.has_latest & (found.ts >= start))
            entities = _match_entities(selector, recent.entity_names())
            return recent if entities is None else recent.where(recent.has_entity(entities))

        return await asyncio.to_thread(narrow)

    async def _read_replicas(
        self,
        unreachable: UnreachableSite,
        selector: Selector,
        start: int,
        end: int,
        max_samples: int,
        missing: list[str],
    ) -> pa.Table:
        """Return the points of an unreachable site from its replicas; columns: ``_POINTS``.

        Appends a message to ``missing`` for data that could not be read.
        """
        published = published_series(self._sources.membership.facts_of(unreachable.site))
        series = await asyncio.to_thread(_candidate_series, selector, published)
        schema = pa.schema([POINTS.field(name) for name in _POINTS])
        if _may_select_results(selector):
            missing.append(f"{unreachable.reason}; the results of its insights are missing")
            if not series:
                return schema.empty_table()
        request = PointsRequest(series, start, end, _POINTS, max_samples)
        failover_reader = self._sources.replication.failover_reader
        batches, reasons = await failover_reader.points(
            unreachable.site, request, unreachable.reason
        )
        missing.extend(reasons)
        return pa.Table.from_batches(batches, schema)

    def result_streams(self) -> list[Stream]:
        """Return those streams of insights' results at this agent that the caller may read."""
        prefix = results_stream("")
        return [
            stream
            for stream in self._sources.streams.all()
            if stream.name.startswith(prefix)
            and stream.log.schema.equals(RESULT_ROWS)
            and is_readable(stream.name)
        ]

    async def _read_results(
        self, selector: Selector, start: int, end: int, max_samples: int
    ) -> Sequence[pa.Table]:
        if not _may_select_results(selector):
            return []
        selection = subscription.RowSelection(columns=_RESULTS, min_ts=start, max_ts=end)
        tables = []
        for stream in self.result_streams():
            stream_selector = subscription.RowSelector(stream, selection)
            batches = []
            async for chunk in subscription.read(stream.log, stream_selector, 0):
                batches.append(chunk.rows)
                max_samples -= chunk.rows.num_rows
                if max_samples < 0:
                    raise PromqlError(
                        "the query reads too many results of insights: select a shorter time, "
                        "or raise MISTBOW_PROMQL_SAMPLES"
                    )
            tables.append(pa.Table.from_batches(batches, stream_selector.schema))
        return tables


def _candidate_series(selector: Selector, series: Iterable[tuple[Series, Metadata]]) -> set[Series]:
    """Return the series whose metric and entity can match a selector.

    Other labels are not checked.
    """
    keys = [key for key, _ in series]
    metrics = set(_match_metrics(selector, list({metric for metric, _ in keys})))
    entities = _match_entities(selector, list({entity for _, entity in keys}))
    return {
        each for each in keys if each[0] in metrics and (entities is None or each[1] in entities)
    }


def _match_metrics(selector: Selector, metrics: Sequence[str]) -> list[str]:
    """Return the metrics that a selector can match."""
    labels = [make_labels({NAME: metric_name(each), RAW_NAME: each}) for each in metrics]
    return list(itertools.compress(metrics, match_series(selector.restrict_to(NAME), labels)))


def _match_entities(selector: Selector, entities: Sequence[str]) -> set[str] | None:
    """Return the entities that a selector can match; None: all entities."""
    entity_matchers = _entity_matchers(selector)
    if not entity_matchers.matchers:
        return None
    labels = [make_labels({ENTITY: entity}) for entity in entities]
    return set(itertools.compress(entities, match_series(entity_matchers, labels)))


def _entity_matchers(selector: Selector) -> Selector:
    """Return the matchers of ``entityID`` that match no series without this label.

    In PromQL, some series have no label ``entityID``, because another label states the entity. A
    matcher that matches the empty value can match such a series, so it excludes no entity.
    """
    of_entity = selector.restrict_to(ENTITY).matchers
    return Selector(tuple(m for m in of_entity if not match_series(Selector((m,)), [()])[0]))


def _required_entities(selector: Selector) -> list[str]:
    """Return the only entity that a selector can match; empty if there may be several."""
    return [each.value for each in _entity_matchers(selector).matchers if each.op == "="][:1]


def _may_select_results(selector: Selector) -> bool:
    """Return whether a selector can match results of insights."""
    names = [m for m in selector.matchers if m.name == NAME and m.op == "="]
    return all(matcher.value.startswith(INSIGHT) for matcher in names)


def _match_rows(
    columns: Sequence[pa.ChunkedArray],
    make: Callable[[str, str], Labels],
    selector: Selector,
) -> UnsortedSamples:
    """Convert the rows whose labels match a selector to samples; the other rows are dropped.

    ``columns``: two text columns, the times (ms), and the values. ``make``: returns the labels of a
    row from the values of the two text columns.
    """
    first, second = (_dictionary(column) for column in columns[:2])
    width = max(1, len(second.dictionary))
    codes = first.indices.to_numpy().astype(np.int64) * width + second.indices.to_numpy()
    distinct, inverse = np.unique(codes, return_inverse=True)
    firsts, seconds = as_list(first.dictionary), as_list(second.dictionary)
    labels = [make(firsts[code // width], seconds[code % width]) for code in distinct.tolist()]
    matches = match_series(selector, labels)
    series = np.where(matches, np.arange(len(labels)), -1)[inverse]
    ts, values = (column.to_numpy() for column in columns[2:4])
    return UnsortedSamples(labels, series, ts, values)


def _dictionary(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return a text column as a single dictionary-encoded array."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    combined = column.unify_dictionaries().combine_chunks()
    if isinstance(combined, pa.ChunkedArray):  # a column without chunks
        return pa.array([], pa.string()).dictionary_encode()
    return combined
