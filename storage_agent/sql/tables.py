"""The tables that SQL queries can read: series metadata, latest values, points, and streams."""

import asyncio
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.auth.callers import current_caller
from mistbow.errors import ForbiddenError, NotFoundError
from mistbow.streams.schemas import POINTS
from storage_agent.series import Series
from storage_agent.sql.messages import Scan
from storage_agent.streams import subscription
from storage_agent.streams.read_access import check_readable
from storage_agent.streams.streams import Stream, Streams
from storage_agent.streams.subscription import RowSelection, RowSelector
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.history import History
from storage_agent.timeseries.metadata_columns import METADATA_COLUMNS, SERIES_FIELDS
from storage_agent.timeseries.selection import SeriesSelection, used

_BATCH_SERIES = 5_000
_MIN_TS, _MAX_TS = -(2**63), 2**63 - 1

_VALUE_COLUMNS = [pa.field("ts", pa.int64(), nullable=False), pa.field("value", pa.float64())]


class Table(Protocol):
    """A table that queries can read."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the table, with all columns."""
        ...

    async def column_values(self) -> dict[str, list[str]]:
        """Return column -> all values of the column, sorted.

        Columns whose values are not known without reading the rows are omitted.
        """
        ...

    def batches(self, scan: Scan) -> AsyncIterator[pa.RecordBatch]:
        """Yield the rows and columns that a scan selects, and possibly other rows."""
        ...


@dataclass(frozen=True, slots=True)
class SqlTables:
    """The SQL tables of an agent."""

    streams: Streams
    catalogue: Catalogue
    history: History

    async def find(self, name: str) -> Table | None:
        """Return the table with a name; None: the table does not exist.

        Raises ``ForbiddenError`` for a stream if the caller's token is limited to some entities, or
        lacks the signature in the stream's name, which restricts the readers of the stream.
        """
        match name:
            case "latest":
                return SeriesTable(self.catalogue, with_latest=True)
            case "metadata":
                return SeriesTable(self.catalogue, with_latest=False)
            case "historical":
                return HistoricalTable(self.catalogue, self.history)
        try:
            stream = await self.streams.get(name)
        except NotFoundError:
            return None
        if current_caller().entity_prefix:
            raise ForbiddenError(
                f"the token is limited to some entities, and cannot read the stream {name}",
                hint="The token reads the tables latest, historical and metadata.",
            )
        check_readable(name)
        return StreamTable(stream)


@dataclass(frozen=True, slots=True)
class SeriesTable:
    """The table that has a row for each series, with the metadata of the series.

    ``with_latest``: the rows also contain the latest values, and series without a latest value are
    omitted.
    """

    catalogue: Catalogue
    with_latest: bool

    @property
    def schema(self) -> pa.Schema:
        """The schema: metric, entity, the latest value (if ``with_latest``), and the metadata."""
        metadata = [pa.field(name, kind) for name, (kind, _) in METADATA_COLUMNS.items()]
        return pa.schema([*SERIES_FIELDS, *(_VALUE_COLUMNS if self.with_latest else ()), *metadata])

    async def column_values(self) -> dict[str, list[str]]:
        """Return an empty dict: all rows are in memory, so scans are not restricted by values."""
        return {}

    async def batches(self, scan: Scan) -> AsyncIterator[pa.RecordBatch]:
        """Yield the rows of all series that the caller may read."""
        series = await _readable(self.catalogue)
        if self.with_latest:
            series = series.where(series.has_latest)
        schema = pa.schema([self.schema.field(name) for name in scan.columns])
        for begin in range(0, len(series), _BATCH_SERIES):
            part = series.part(begin, begin + _BATCH_SERIES)
            yield await asyncio.to_thread(_rows_of, part, schema)


@dataclass(frozen=True, slots=True)
class HistoricalTable:
    """The table of all points that this agent stores, including future points."""

    catalogue: Catalogue
    history: History

    @property
    def schema(self) -> pa.Schema:
        """The schema ``POINTS``."""
        return POINTS

    async def column_values(self) -> dict[str, list[str]]:
        """Return the sorted values of the columns ``metric`` and ``entity``: column -> values.

        Only the series that the caller may read are included.
        """
        series = await _readable(self.catalogue)
        return {
            "metric": await asyncio.to_thread(lambda: _sort_texts(series.metric_names())),
            "entity": await asyncio.to_thread(lambda: _sort_texts(series.entity_names())),
        }

    async def batches(self, scan: Scan) -> AsyncIterator[pa.RecordBatch]:
        """Yield the points that a scan selects by metric, entity and time."""
        selected = scan.column_values
        series: Collection[Series] = ()
        # An empty list selects nothing.
        if all(selected.values()):
            series = await _readable(
                self.catalogue, selected.get("metric", ()), selected.get("entity", ())
            )
        start = _MIN_TS + 1 if scan.min_ts is None else scan.min_ts
        end = _MAX_TS if scan.max_ts is None else scan.max_ts
        async for batch in self.history.batches(series, start, end, columns=scan.columns):
            yield batch


@dataclass(frozen=True, slots=True)
class StreamTable:
    """The table of a stream's rows, with the columns that a subscriber receives."""

    stream: Stream

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows that a subscriber receives."""
        return self.stream.read_schema

    async def column_values(self) -> dict[str, list[str]]:
        """Return an empty dict: the values of a stream's columns are not indexed."""
        return {}

    async def batches(self, scan: Scan) -> AsyncIterator[pa.RecordBatch]:
        """Yield the rows in the time range of a scan."""
        selection = RowSelection(columns=scan.columns, min_ts=scan.min_ts, max_ts=scan.max_ts)
        selector = RowSelector(self.stream, selection)
        async for chunk in subscription.read(self.stream.log, selector, 0):
            yield chunk.rows.select(scan.columns)


async def _readable(
    catalogue: Catalogue, metrics: Collection[str] = (), entities: Collection[str] = ()
) -> SeriesSelection:
    """Return the series that the caller may read, with the given metrics and entities.

    An empty collection selects all metrics or all entities.
    """
    prefix = current_caller().entity_prefix
    return await asyncio.to_thread(catalogue.select(metrics, entities).of_prefix, prefix)


def _rows_of(series: SeriesSelection, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of the columns in ``schema``, one for each series."""
    keys = list(series)
    columns: dict[str, Any] = {
        "metric": [metric for metric, _ in keys],
        "entity": [entity for _, entity in keys],
        "ts": series.ts,
        "value": series.value,
    }
    distinct = used(series.description, len(series.descriptions))
    texts = [series.descriptions[each] or b"{}" for each in distinct.tolist()]
    decoded = list(map(msgspec.json.decode, texts))
    places = pa.array(np.searchsorted(distinct, series.description))
    arrays = []
    for field in schema:
        if field.name in columns:
            arrays.append(pa.array(columns[field.name], field.type))
        else:
            _, read = METADATA_COLUMNS[field.name]
            arrays.append(pa.array(map(read, decoded), field.type).take(places))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _sort_texts(texts: list[str]) -> list[str]:
    # Unlike sorted(), Arrow lets other threads run.
    found = pa.array(texts, pa.string())
    ordered: list[str] = found.take(pc.sort_indices(found)).to_pylist()
    return ordered
