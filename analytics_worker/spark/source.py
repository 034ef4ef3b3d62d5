"""The Spark source ``mistbow``: a stream of a storage agent, as a streaming or a batch DataFrame.

Options: ``url`` (of the agent), ``site`` (whose stream; default the agent's own), ``stream``,
``start`` (first number, default 0), ``max_rows`` (of a micro-batch). With ``panes`` (JSON) the
rows are routed to panes and gathered (``mistbow.panes``), and carry the stream's frontier;
``grain`` (ms) is then how often windows close. A batch DataFrame also takes ``end`` (number),
``min_ts`` and ``max_ts`` (ms, inclusive).
"""

import time
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from analytics_worker.connection import connect
from analytics_worker.spark.earlier import earlier_in
from analytics_worker.spark.feed_clock import FeedClock
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Offset
from mistbow.panes.feeding import points_in
from mistbow.panes.gathering import GATHERED, gathered
from mistbow.panes.routing import COLUMNS, metrics_needed, route
from mistbow.plan.feeds import Feed
from mistbow.plan.nodes import Pane

FRONTIER = pa.field("frontier", pa.timestamp("us", tz="UTC"))
GATHERED_WITH_FRONTIER = GATHERED.append(FRONTIER)

_MAX_ROWS = 200_000
_LONGEST_WAIT = 0.25
_PROMISE_MS = 5000
"""A tick is promised so long before: a batch costs the same, however few points it has."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What to read, from where."""

    url: str
    site: str
    stream: str
    start: int
    end: int | None
    min_ts: int | None
    max_ts: int | None
    max_rows: int
    grain_ms: int
    panes: tuple[Pane, ...] | None
    feed: Feed | None = None

    @classmethod
    def parse(cls, options: MutableMapping[str, str]) -> "SourceOptions":
        """Read Spark's options; raises ``ValueError`` for one that is missing or wrong."""
        for needed in ("url", "stream"):
            if needed not in options:
                raise ValueError(f"the mistbow source needs the option '{needed}'")

        def number(name: str) -> int | None:
            return int(options[name]) if name in options else None

        panes = options.get("panes")
        return cls(
            url=options["url"],
            site=options.get("site", ""),
            stream=options["stream"],
            start=number("start") or 0,
            end=number("end"),
            min_ts=number("min_ts"),
            max_ts=number("max_ts"),
            max_rows=number("max_rows") or _MAX_ROWS,
            grain_ms=number("grain") or 1000,
            panes=msgspec.json.decode(panes, type=tuple[Pane, ...]) if panes else None,
            feed=msgspec.json.decode(options["feed"], type=Feed) if "feed" in options else None,
        )

    @property
    def agent(self) -> AgentClient:
        """This process's client of the stream's site."""
        return connect(self.url, self.site)


class MistbowSource(DataSource):
    """Registers under the name ``mistbow``."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "mistbow"

    def schema(self) -> StructType:
        """Return the columns: routed rows with their frontier, or those of the stream itself."""
        options = SourceOptions.parse(self.options)
        if options.panes is not None:
            return from_arrow_schema(GATHERED_WITH_FRONTIER)
        rows = options.agent.read(options.stream, 0, 0).table
        return from_arrow_schema(_plain(rows.schema))

    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: ARG002, N802
        """Return the reader of a streaming query."""
        return StreamReader(SourceOptions.parse(self.options))

    def reader(self, schema: StructType) -> "BatchReader":  # noqa: ARG002
        """Return the reader of a batch query."""
        return BatchReader(SourceOptions.parse(self.options))


@dataclass(frozen=True)
class Range(InputPartition):
    """Rows with numbers from ``start`` to ``end`` (exclusive), and the promise made with them.

    ``frontier``: how far event time was before them, in ms. No promise is made twice: 0 is none.
    """

    start: int
    end: int | None
    promise: int = 0
    frontier: int = 0


class StreamReader(DataSourceStreamReader):
    """Follows a stream, with the watermark one micro-batch ahead of the frontier.

    Spark drops late rows by the watermark of the batch before, and closes windows by that of the
    batch at hand. So a batch may announce a *promise*, a time at which windows end, before the
    frontier is there, if the next batch is held back until the frontier has passed it: that batch
    then takes in the last rows of those windows and closes them at once, where Spark's usual way
    needs a further batch. See docs/adr/0002.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._clock = None if options.feed is None else FeedClock(options.feed)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Start at the number asked for; no promise is made."""
        return {"next": self._options.start, "frontier": 0, "promise": 0, "closed": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: ARG002, N802
        """Return how far to read now, or ``start`` while it is too early for a batch."""
        offset = self._offset(start)
        early = self._early_ms(start, offset)
        if early > 0:
            time.sleep(min(_LONGEST_WAIT, early / 1000))
            offset = self._offset(start)
            if self._early_ms(start, offset) > 0:
                return start
        frontier = max(offset.frontier, start["frontier"])
        promise = max(self._promise(start["promise"], offset), start["promise"])
        closed = start["promise"]
        return {"next": offset.next, "frontier": frontier, "promise": promise, "closed": closed}

    def _offset(self, start: dict[str, int]) -> Offset:
        """Return the furthest point within the row limit, or further if a promise asks for it."""
        rows = self._options.max_rows
        while True:
            offset = self._reached(start["next"], rows)
            if offset.frontier >= start["promise"] or offset.next >= offset.head:
                return offset
            rows *= 2

    def _reached(self, start: int, rows: int) -> Offset:
        agent, stream = self._options.agent, self._options.stream
        offset = agent.offset(stream, start, rows)
        return offset if self._clock is None else self._clock.told(agent, start, offset)

    def _early_ms(self, start: dict[str, int], offset: Offset) -> int:
        """Return for how long to hold the next batch back; 0 or less: not at all."""
        if start["promise"] > start["closed"]:
            return start["promise"] - offset.frontier
        if not start["frontier"] and offset.frontier > 0:
            return 0  # however far the next tick is, there may be some to make up for
        if offset.next < offset.head or offset.next - start["next"] >= self._options.max_rows // 2:
            return 0
        return self._tick_after(offset.frontier) - offset.frontier - _PROMISE_MS

    def _promise(self, before: int, offset: Offset) -> int:
        """Return the time up to which the batch after ``offset`` will close windows.

        ``before`` was promised already.
        """
        grain = self._options.grain_ms
        if offset.next < offset.head:
            then = self._reached(offset.next, self._options.max_rows)
            return then.frontier // grain * grain
        reached = offset.frontier // grain * grain
        if reached > before:
            return reached  # it can be closed at once
        tick = self._tick_after(offset.frontier)
        return tick if tick - offset.frontier <= _PROMISE_MS else 0

    def _tick_after(self, time_ms: int) -> int:
        grain = self._options.grain_ms
        return (time_ms // grain + 1) * grain

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[Range]:
        """Read a micro-batch in one task: routing is cheap, and tasks are not."""
        if start == end:
            return []
        promise = end["promise"] if end["promise"] > start["promise"] else 0
        return [Range(start["next"], end["next"], promise, start["frontier"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows and, when they are routed, a heartbeat that carries the promise."""
        assert isinstance(partition, Range)  # noqa: S101 - Spark hands back what partitions() made
        options = self._options
        yield from _rows(options, partition)
        if options.panes is not None and partition.promise:
            yield _heartbeat(partition.promise)


class BatchReader(DataSourceReader):
    """Reads a part of a stream once."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[Range]:
        """Read everything in one task."""
        return [Range(self._options.start, self._options.end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        assert isinstance(partition, Range)  # noqa: S101 - Spark hands back what partitions() made
        yield from _rows(self._options, partition)


def _rows(options: SourceOptions, part: Range) -> Iterator[pa.RecordBatch]:
    if part.end is not None and part.start >= part.end:
        return
    panes = options.panes
    rows = _points(options, part) if panes is not None else _read(options, part, {}, None)
    earlier = earlier_in(options.agent, options.site, options.stream, part.end)
    for batch in rows.unify_dictionaries().to_batches():
        if panes is None:
            yield from _decoded(batch)
        else:
            yield from _with_frontier(gathered(route(batch, panes, earlier), panes))


def _points(options: SourceOptions, part: Range) -> pa.Table:
    metrics = metrics_needed(options.panes or ())
    if options.feed is None:
        return _read(options, part, {"metric": list(metrics)}, COLUMNS)
    return points_in(_read(options, part, {}, None), options.feed, metrics, part.frontier)


def _read(
    options: SourceOptions, part: Range, match: dict[str, list[str]], columns: Sequence[str] | None
) -> pa.Table:
    return options.agent.read(
        options.stream,
        part.start,
        part.end,
        match=match,
        columns=columns,
        min_ts=options.min_ts,
        max_ts=options.max_ts,
    ).table


def _with_frontier(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    nothing = pa.nulls(rows.num_rows, FRONTIER.type)
    yield from rows.append_column(FRONTIER, nothing).combine_chunks().to_batches()


def _heartbeat(promise: int) -> pa.RecordBatch:
    columns: list[Any] = [pa.nulls(1, field.type) for field in GATHERED]
    columns.append(pa.array([promise * 1000], pa.int64()).cast(FRONTIER.type))
    return pa.record_batch(columns, schema=GATHERED_WITH_FRONTIER)


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return the schema with words instead of dictionaries, which Spark does not read."""
    return pa.schema(
        [
            field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
            for field in schema
        ]
    )


def _decoded(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    yield from pa.Table.from_batches([batch]).cast(_plain(batch.schema)).to_batches()
