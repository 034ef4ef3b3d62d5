"""Reading samples for queries: this site's points, and the results of insights that lie here.

For another site that is silent, what replicas have of its points.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.streams.results import settle
from mistbow.streams.schemas import POINTS, RESULT_ROWS, results_stream
from storage_agent.agent import Agent
from storage_agent.fabric.relay import SILENT, Silent
from storage_agent.monitoring.bodies import LATEST_MS
from storage_agent.monitoring.catalogue import Metadata, Series
from storage_agent.promql.labels import (
    INSIGHT,
    NAME,
    RAW_NAME,
    Labels,
    make_labels,
    metric_name,
    point_labels,
    result_labels,
)
from storage_agent.promql.matching import Selector, fitting
from storage_agent.promql.parsing import Need
from storage_agent.promql.problems import PromqlError
from storage_agent.promql.samples import Rows, Samples, collected
from storage_agent.replication.standing_in import PointsAsked
from storage_agent.replication.told import series_told
from storage_agent.streams import reading
from storage_agent.streams.columns import as_list
from storage_agent.streams.signed import is_readable
from storage_agent.streams.streams import Stream

_POINTS = ("metric", "attributes", "ts", "value")
_RESULTS = ("insight", "key", "ts", "value", "revision")


class Store:
    """Reads what an agent keeps, as samples."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def read(self, need: Need, most: int, missing: list[str]) -> Samples:
        """Return the samples that a query needs; raises when there are more than ``most``.

        What cannot be read is told in ``missing``.
        """
        start, end = max(0, need.start), min(need.end, LATEST_MS)
        if start > end:
            return collected([])
        results: Sequence[pa.Table] = ()
        if (silent := SILENT.get()) is not None:
            points = await self._points_of(silent, need.selector, start, end, most, missing)
        else:
            series = self.chosen(need.selector, start)
            points = await self._agent.history.read(
                series, start, end, columns=_POINTS, most=most, missing=missing
            )
            results = await self._results(need.selector, start, end, most - points.num_rows)

        def made() -> Samples:
            columns = [points[name] for name in _POINTS]
            parts = [_rows(columns, point_labels, need.selector)]
            for table in results:
                settled = settle(table)
                # What is withdrawn has no value, and neither do texts.
                stands = settled.filter(pc.is_valid(settled["value"]))
                columns = [stands[name] for name in ("insight", "key", "ts", "value")]
                parts.append(_rows(columns, result_labels, need.selector))
            return collected(parts)

        return await asyncio.to_thread(made)

    def chosen(self, selector: Selector, start: int) -> Collection[Series]:
        """Return the series that may fit, and have points at or after a time."""
        catalogue = self._agent.catalogue

        def lasts(series: Series) -> bool:
            latest = catalogue.latest(series)
            return latest is not None and latest.ts >= start

        return {each for each in _fitting(selector, catalogue.all()) if lasts(each)}

    async def _points_of(
        self,
        silent: Silent,
        selector: Selector,
        start: int,
        end: int,
        most: int,
        missing: list[str],
    ) -> pa.Table:
        """Return points of a site that does not answer, from replicas."""
        series = _fitting(selector, series_told(self._agent.member.told_by(silent.site)))
        schema = pa.schema([POINTS.field(name) for name in _POINTS])
        if _may_be_results(selector):
            missing.append(f"{silent.reason}; results of insights that lie there are missing")
            if not series:
                return schema.empty_table()
        asked = PointsAsked(series, start, end, _POINTS, most)
        stand_ins = self._agent.replication.stand_ins
        batches, lack = await stand_ins.points(silent.site, asked, silent.reason)
        missing.extend(lack)
        return pa.Table.from_batches(batches, schema)

    def result_streams(self) -> list[Stream]:
        """Return the streams of results that this agent keeps and the caller may read."""
        prefix = results_stream("")
        return [
            stream
            for stream in self._agent.streams.all()
            if stream.name.startswith(prefix)
            and stream.log.schema.equals(RESULT_ROWS)
            and is_readable(stream.name)
        ]

    async def _results(
        self, selector: Selector, start: int, end: int, most: int
    ) -> Sequence[pa.Table]:
        if not _may_be_results(selector):
            return []
        asked = reading.Selection(columns=_RESULTS, min_ts=start, max_ts=end)
        tables = []
        for stream in self.result_streams():
            chosen = reading.Selector(stream, asked)
            batches = []
            async for chunk in reading.read(stream.log, chosen, 0):
                batches.append(chunk.rows)
                most -= chunk.rows.num_rows
                if most < 0:
                    raise PromqlError(
                        "the query reads too many results of insights: ask for less time, or raise "
                        "MISTBOW_PROMQL_SAMPLES"
                    )
            tables.append(pa.Table.from_batches(batches, chosen.schema))
        return tables


def _fitting(selector: Selector, told: Iterable[tuple[Series, Metadata]]) -> set[Series]:
    """Return the series that may fit, by metric and entity."""
    known = [series for series, _ in told]
    metrics = sorted({metric for metric, _ in known})
    entities = sorted({entity for _, entity in known})
    named = [make_labels({NAME: metric_name(m), RAW_NAME: m}) for m in metrics]
    owned = [make_labels({"entityID": entity}) for entity in entities]
    metrics_fit = dict(zip(metrics, fitting(selector.on(NAME), named), strict=True))
    entities_fit = dict(zip(entities, fitting(selector.on("entityID"), owned), strict=True))
    return {each for each in known if metrics_fit[each[0]] and entities_fit[each[1]]}


def _may_be_results(selector: Selector) -> bool:
    """Tell whether results of insights can fit."""
    names = [m for m in selector.matchers if m.name == NAME and m.op == "="]
    return all(matcher.value.startswith(INSIGHT) for matcher in names)


def _rows(
    columns: Sequence[pa.ChunkedArray],
    make: Callable[[str, str], Labels],
    selector: Selector,
) -> Rows:
    """Return the samples whose labels, made of two columns of texts, fit."""
    first, second = (_dictionary(column) for column in columns[:2])
    width = max(1, len(second.dictionary))
    codes = first.indices.to_numpy().astype(np.int64) * width + second.indices.to_numpy()
    distinct, inverse = np.unique(codes, return_inverse=True)
    firsts, seconds = as_list(first.dictionary), as_list(second.dictionary)
    made = [make(firsts[code // width], seconds[code % width]) for code in distinct.tolist()]
    fits = fitting(selector, made)
    series = np.where(fits, np.arange(len(made)), -1)[inverse]
    ts, values = (column.to_numpy() for column in columns[2:4])
    return Rows(made, series, ts, values)


def _dictionary(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return texts as one array with one dictionary."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # of no rows at all
        return pa.array([], pa.string()).dictionary_encode()
    return whole
