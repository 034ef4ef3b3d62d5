"""The tables of a query: the series, their latest values, past points, and every stream."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import pyarrow as pa

from mistbow.auth.callers import current_caller
from mistbow.errors import ForbiddenError, NotFoundError
from mistbow.streams.schemas import POINTS
from storage_agent.monitoring.catalogue import Catalogue, Metadata, Series
from storage_agent.monitoring.history import History
from storage_agent.sql.wire import Scan
from storage_agent.streams import reading
from storage_agent.streams.reading import Selection, Selector
from storage_agent.streams.signed import check_readable
from storage_agent.streams.streams import Stream, Streams

_SERIES_AT_ONCE = 5_000
_EARLIEST, _LATEST = -(2**63), 2**63 - 1

_VALUES = [pa.field("ts", pa.int64(), nullable=False), pa.field("value", pa.float64())]
_TOLD: dict[str, tuple[pa.DataType, Callable[[Metadata], Any]]] = {
    "entity_type": (pa.string(), lambda told: told.get("entityType")),
    "name": (pa.string(), lambda told: told.get("name")),
    "units": (pa.string(), lambda told: told.get("units")),
    # Neither desc nor group, which SQL takes for words of its own.
    "description": (pa.string(), lambda told: told.get("desc")),
    "group_name": (pa.string(), lambda told: told.get("group")),
    "min_val": (pa.float64(), lambda told: told.get("minVal")),
    "max_val": (pa.float64(), lambda told: told.get("maxVal")),
    "higher_is_better": (pa.bool_(), lambda told: told.get("higherIsBetter")),
    "pod_uuid": (pa.string(), lambda told: told.get("pod", {}).get("uuid")),
    "pod_name": (pa.string(), lambda told: told.get("pod", {}).get("name")),
    "pod_namespace": (pa.string(), lambda told: told.get("pod", {}).get("namespace")),
    "container_id": (pa.string(), lambda told: told.get("container", {}).get("id")),
    "container_name": (pa.string(), lambda told: told.get("container", {}).get("name")),
}


class Table(Protocol):
    """What a query may read."""

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        ...

    def words(self) -> dict[str, list[str]]:
        """Return of some columns all values that there are, sorted."""
        ...

    def batches(self, scan: Scan) -> AsyncIterator[pa.RecordBatch]:
        """Yield the columns of a scan, of its rows and perhaps of others."""
        ...


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of one agent."""

    streams: Streams
    catalogue: Catalogue
    history: History

    async def find(self, name: str) -> Table | None:
        """Return the table of a name, if there is one.

        Raises ``ForbiddenError`` for a stream where the caller may read some entities only, or
        lacks its signature.
        """
        match name:
            case "latest":
                return SeriesTable(self.catalogue, valued=True)
            case "metadata":
                return SeriesTable(self.catalogue, valued=False)
            case "historical":
                return HistoricalTable(self.catalogue, self.history)
        try:
            stream = await self.streams.get(name)
        except NotFoundError:
            return None
        if current_caller().entity_prefix:
            raise ForbiddenError(
                f"the stream {name} is not about entities, which the token is limited to",
                hint="It reads latest, historical and metadata.",
            )
        check_readable(name)
        return StreamTable(stream)


@dataclass(frozen=True, slots=True)
class SeriesTable:
    """The series and what is known of them; with ``valued``, those with a value, and that."""

    catalogue: Catalogue
    valued: bool

    @property
    def schema(self) -> pa.Schema:
        """The series, its latest value if wanted, and its metadata."""
        series = [pa.field(name, pa.string(), nullable=False) for name in ("metric", "entity")]
        told = [pa.field(name, kind) for name, (kind, _) in _TOLD.items()]
        return pa.schema([*series, *(_VALUES if self.valued else ()), *told])

    def words(self) -> dict[str, list[str]]:
        """Return nothing: all rows are in memory."""
        return {}

    async def batches(self, scan: Scan) -> AsyncIterator[pa.RecordBatch]:
        """Yield all series."""
        series = _readable(self.catalogue)
        while some := list(islice(series, _SERIES_AT_ONCE)):
            rows = [row for each in some if (row := self._row(*each)) is not None]
            schema = pa.schema([self.schema.field(name) for name in scan.columns])
            yield pa.RecordBatch.from_pylist(rows, schema)
            await asyncio.sleep(0)  # nothing else here lets others have a turn

    def _row(self, series: Series, told: Metadata) -> dict[str, Any] | None:
        row: dict[str, Any] = {"metric": series[0], "entity": series[1]}
        row |= {name: read(told) for name, (_, read) in _TOLD.items()}
        if not self.valued:
            return row
        latest = self.catalogue.latest(series)
        return None if latest is None else {**row, "ts": latest.ts, "value": latest.value}


@dataclass(frozen=True, slots=True)
class HistoricalTable:
    """All points of this agent, those ahead of the clock too."""

    catalogue: Catalogue
    history: History

    @property
    def schema(self) -> pa.Schema:
        """The columns of points."""
        return POINTS

    def words(self) -> dict[str, list[str]]:
        """Return all metrics and entities."""
        metrics, entities = set(), set()
        for (metric, entity), _ in _readable(self.catalogue):
            metrics.add(metric)
            entities.add(entity)
        return {"metric": sorted(metrics), "entity": sorted(entities)}

    def batches(self, scan: Scan) -> AsyncIterator[pa.RecordBatch]:
        """Yield the points of the series and times of a scan."""
        wanted = {name: frozenset(words) for name, words in scan.words.items()}
        series = [
            (metric, entity)
            for (metric, entity), _ in _readable(self.catalogue)
            if metric in wanted.get("metric", (metric,))
            and entity in wanted.get("entity", (entity,))
        ]
        start = _EARLIEST + 1 if scan.min_ts is None else scan.min_ts
        end = _LATEST if scan.max_ts is None else scan.max_ts
        return self.history.batches(series, start, end, columns=scan.columns)


@dataclass(frozen=True, slots=True)
class StreamTable:
    """The rows of a stream as its subscribers see them."""

    stream: Stream

    @property
    def schema(self) -> pa.Schema:
        """The columns of a subscriber."""
        return self.stream.read_schema

    def words(self) -> dict[str, list[str]]:
        """Return nothing: what its columns hold is not known."""
        return {}

    async def batches(self, scan: Scan) -> AsyncIterator[pa.RecordBatch]:
        """Yield the rows in the times of a scan, from the first number on."""
        selection = Selection(columns=scan.columns, min_ts=scan.min_ts, max_ts=scan.max_ts)
        selector = Selector(self.stream, selection)
        async for chunk in reading.read(self.stream.log, selector, 0):
            yield chunk.rows.select(scan.columns)


def _readable(catalogue: Catalogue) -> Iterator[tuple[Series, Metadata]]:
    """Yield the series that the caller may read."""
    prefix = current_caller().entity_prefix
    return (each for each in catalogue.all() if each[0][1].startswith(prefix))
