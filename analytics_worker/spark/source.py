"""The Spark source ``mistbow``: a stream of a storage agent, as a streaming or a batch DataFrame.

Options: ``url`` (of the agent), ``site`` (the site of the stream; default: the agent's own),
``stream``, ``start`` (first position, default 0), ``max_rows`` (of a micro-batch). With ``panes``
(JSON), the rows are points, which are routed to panes and batched (``analytics_worker.panes``), and
carry the stream's frontier; ``grain`` (ms) is then the interval at which windows close, and
``feed`` (JSON) describes how rows of a stream that has no points are converted to points, and
``usage`` is the folder in which CPU time and rows are recorded. A batch DataFrame also has ``end``
(position), ``min_ts`` and ``max_ts`` (ms, inclusive).
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

from analytics.plan.feeds import Feed
from analytics.plan.nodes import Pane
from analytics_worker.agent_clients import agent_client
from analytics_worker.panes.batching import BATCHED, batch_points
from analytics_worker.panes.routing import COLUMNS, metrics_needed, route, select_metrics
from analytics_worker.panes.stream_points import to_points
from analytics_worker.spark.feed_frontier import FeedFrontier
from analytics_worker.spark.previous_periods import previous_chances
from analytics_worker.spark.task_usage import record_usage
from mistbow.client.agent import AgentClient
from mistbow.streams.models import (
    Offset,
)

FRONTIER = pa.field("frontier", pa.timestamp("us", tz="UTC"))
BATCHED_WITH_FRONTIER = BATCHED.append(FRONTIER)

_MAX_ROWS = 200_000
_MAX_WAIT_S = 0.5
"""The longest pause (s) between two requests for the frontier; the end of a query waits for it."""

_PROMISE_MS = 5000
"""The longest time (ms) between a promise and the promised tick, since even a small batch is
expensive.
"""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The parsed options of the source ``mistbow``; the docstring of the module documents them."""

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
    usage: str | None = None

    @classmethod
    def parse(cls, options: MutableMapping[str, str]) -> "SourceOptions":
        """Parse Spark's options; raises ``ValueError`` for a missing or invalid option."""
        for needed in ("url", "stream"):
            if needed not in options:
                raise ValueError(f"the source mistbow needs the option '{needed}'")

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
            usage=options.get("usage"),
        )

    @property
    def agent(self) -> AgentClient:
        """The client with which the source reads the stream."""
        return agent_client(self.url, self.site)


class MistbowSource(DataSource):
    """The Spark source that is registered under the name ``mistbow``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "mistbow"

    def schema(self) -> StructType:
        """Return the columns as a schema of Spark.

        The columns are those of ``BATCHED_WITH_FRONTIER`` if rows are routed to panes, else those
        of the stream.
        """
        options = SourceOptions.parse(self.options)
        if options.panes is not None:
            return from_arrow_schema(BATCHED_WITH_FRONTIER)
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
    """The rows from the position ``start`` to ``end`` (exclusive; None: to the head).

    ``promise``: the tick (ms) up to which the next micro-batch closes windows, as this micro-batch
    announces; 0: no announcement. ``frontier``: the frontier (ms) that the stream had before these
    rows.
    """

    start: int
    end: int | None
    promise: int = 0
    frontier: int = 0


class StreamReader(DataSourceStreamReader):
    """Reads a stream, with Spark's watermark one micro-batch ahead of the stream's frontier.

    Spark drops late rows by the watermark of the previous batch, and closes windows by the
    watermark of the present batch. A batch may therefore announce a *promise*: an end of windows
    ahead of the frontier. The next batch is delayed until the frontier has passed the promise; it
    reads the last rows of these windows and closes them. Without promises, Spark would need a
    further batch to close these windows. See docs/adr/0002.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._feed_frontier = None if options.feed is None else FeedFrontier(options.feed)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the offset at which a new query begins: position ``start``, without a promise."""
        return {"next": self._options.start, "frontier": 0, "promise": 0, "closed": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: ARG002, N802
        """Return the end offset of the next batch, or ``start`` if it is too early for a batch."""
        try:
            return self._next_offset(start)
        finally:
            record_usage(self._options.usage)

    def _next_offset(self, start: dict[str, int]) -> dict[str, int]:
        offset = self._offset(start)
        early = self._early_ms(start, offset)
        if early > 0:
            time.sleep(min(_MAX_WAIT_S, early / 1000))
            offset = self._offset(start)
            if self._early_ms(start, offset) > 0:
                return start
        frontier = max(offset.frontier, start["frontier"])
        promise = max(self._promise(start["promise"], offset), start["promise"])
        closed = start["promise"]
        return {"next": offset.next, "frontier": frontier, "promise": promise, "closed": closed}

    def _offset(self, start: dict[str, int]) -> Offset:
        """Return the end of the next batch, which has at most ``max_rows`` rows.

        The batch has more rows if these are needed to reach the promised tick.
        """
        rows = self._options.max_rows
        while True:
            offset = self._offset_within(start["next"], rows)
            if offset.frontier >= start["promise"] or offset.next >= offset.head:
                return offset
            rows *= 2

    def _offset_within(self, start: int, rows: int) -> Offset:
        agent, stream = self._options.agent, self._options.stream
        offset = agent.offset(stream, start, rows)
        if self._feed_frontier is None:
            return offset
        return self._feed_frontier.with_frontier(agent, start, offset)

    def _early_ms(self, start: dict[str, int], offset: Offset) -> int:
        """Return the delay (ms) until the next batch; 0 or less: the next batch may start now."""
        if start["promise"] > start["closed"]:
            return start["promise"] - offset.frontier
        if not start["frontier"] and offset.frontier > 0:
            return 0  # there may be past ticks to close, however far the next one is
        if offset.next < offset.head or offset.next - start["next"] >= self._options.max_rows // 2:
            return 0
        return self._tick_after(offset.frontier) - offset.frontier - _PROMISE_MS

    def _promise(self, before: int, offset: Offset) -> int:
        """Return the tick (ms) that a batch with the end ``offset`` promises; 0: the batch promises
        no tick.

        The batch after ``offset`` closes the windows up to this tick. ``before``: the previous
        promise.
        """
        grain = self._options.grain_ms
        if offset.next < offset.head:
            following = self._offset_within(offset.next, self._options.max_rows)
            return following.frontier // grain * grain
        reached = offset.frontier // grain * grain
        if reached > before:
            return reached  # it can be closed at once
        tick = self._tick_after(offset.frontier)
        return tick if tick - offset.frontier <= _PROMISE_MS else 0

    def _tick_after(self, time_ms: int) -> int:
        grain = self._options.grain_ms
        return (time_ms // grain + 1) * grain

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[Range]:
        """Return one partition, or an empty list without new rows.

        Further partitions would cost more than the routing of their rows.
        """
        if start == end:
            return []
        promise = end["promise"] if end["promise"] > start["promise"] else 0
        return [Range(start["next"], end["next"], promise, start["frontier"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows and, if rows are routed to panes, a heartbeat that carries the promise."""
        assert isinstance(partition, Range)  # noqa: S101 - made by partitions()
        options = self._options
        yield from _rows(options, partition)
        if options.panes is not None and partition.promise:
            yield _heartbeat(partition.promise)
        record_usage(options.usage)


class BatchReader(DataSourceReader):
    """Reads a range of a stream in one batch."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[Range]:
        """Return one partition with the range that the options specify."""
        return [Range(self._options.start, self._options.end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the range."""
        assert isinstance(partition, Range)  # noqa: S101 - made by partitions()
        yield from _rows(self._options, partition)


def _rows(options: SourceOptions, range_: Range) -> Iterator[pa.RecordBatch]:
    if range_.end is not None and range_.start >= range_.end:
        return
    panes = options.panes
    rows = _points(options, range_) if panes is not None else _read(options, range_, {}, None)
    record_usage(options.usage, rows.num_rows)
    chances = previous_chances(options.agent, options.site, options.stream, range_.end)
    for batch in rows.unify_dictionaries().to_batches():
        if panes is None:
            yield from _decoded(batch)
        else:
            yield from _with_frontier(batch_points(route(batch, panes, chances), panes))


def _points(options: SourceOptions, range_: Range) -> pa.Table:
    metrics = metrics_needed(options.panes or ())
    if options.feed is None:
        return _read(options, range_, select_metrics(metrics), COLUMNS)
    return to_points(_read(options, range_, {}, None), options.feed, metrics, range_.frontier)


def _read(
    options: SourceOptions,
    range_: Range,
    match: dict[str, list[str]],
    columns: Sequence[str] | None,
) -> pa.Table:
    return options.agent.read(
        options.stream,
        range_.start,
        range_.end,
        match=match,
        columns=columns,
        min_ts=options.min_ts,
        max_ts=options.max_ts,
    ).table


def _with_frontier(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    nulls = pa.nulls(rows.num_rows, FRONTIER.type)
    yield from rows.append_column(FRONTIER, nulls).combine_chunks().to_batches()


def _heartbeat(promise: int) -> pa.RecordBatch:
    columns: list[Any] = [pa.nulls(1, field.type) for field in BATCHED]
    columns.append(pa.array([promise * 1000], pa.int64()).cast(FRONTIER.type))
    return pa.record_batch(columns, schema=BATCHED_WITH_FRONTIER)


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the value type of each dictionary type, since Spark reads no
    dictionaries.
    """
    return pa.schema(
        [
            field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
            for field in schema
        ]
    )


def _decoded(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    yield from pa.Table.from_batches([batch]).cast(_plain(batch.schema)).to_batches()
