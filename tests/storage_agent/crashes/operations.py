"""Operations on an agent, and their effect on the model."""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import msgspec
import pyarrow as pa
from hypothesis import strategies as st

from mistbow.client.operation_model import ConfigChange
from mistbow.errors import NotFoundError, UnavailableError
from storage_agent.agent.agent import Agent
from storage_agent.http import points
from storage_agent.http.points import GetBody, PutBody
from storage_agent.records.bodies import RecordDeleteBody, RecordItem
from storage_agent.request_key import RequestKey
from tests.storage_agent.crashes.model import Log, Model, Point, Row
from tests.storage_agent.crashes.observation import STREAMS, WORD, Series
from tests.support.conditions import aeventually

ROWS = pa.schema([pa.field("number", pa.int64(), nullable=False)])
_MAX_ITEMS = 10
_AGAIN_S = 60.0

T = TypeVar("T", Point, Row)


@dataclass(frozen=True, slots=True)
class Moment:
    """The time (ms) and the number of an operation, which determine its values and its key."""

    now: int
    number: int

    @property
    def key(self) -> str:
        """The idempotency key of the operation."""
        return f"key {self.number}"

    def value(self, at: int) -> int:
        """Return the value of an item of the operation; ``at``: the index of the item."""
        return self.number * _MAX_ITEMS + at


async def retry(work: Callable[[], Awaitable[object]]) -> None:
    """Repeat an operation while the agent is unavailable."""

    async def done() -> bool:
        try:
            await work()
        except UnavailableError as error:
            raise AssertionError(error.message) from error
        return True

    await aeventually(done, timeout=_AGAIN_S)


class Operation(Protocol):
    """An operation; a repetition with the same ``Moment`` has no further effect."""

    async def run(self, agent: Agent, moment: Moment) -> None:
        """Run the operation; raises ``UnavailableError`` if its outcome is unknown."""

    def apply(self, model: Model, moment: Moment) -> Model:
        """Return the model after the operation."""


@dataclass(frozen=True, slots=True)
class Put:
    """Stores points; an item: (metric, entity, time of the point relative to now in ms)."""

    items: tuple[tuple[str, str, int], ...]

    async def run(self, agent: Agent, moment: Moment) -> None:
        body = [
            points.Point(
                metric=metric,
                entity=entity,
                ts=moment.now + by,
                value=float(moment.value(at)),
                desc=moment.key,
            )
            for at, (metric, entity, by) in enumerate(self.items)
        ]
        await agent.put(PutBody(body), RequestKey(moment.key))

    def apply(self, model: Model, moment: Moment) -> Model:
        now = moment.now
        points = [
            Point((metric, entity), now + by, float(moment.value(at)), now)
            for at, (metric, entity, by) in enumerate(self.items)
        ]
        metadata = {**model.metadata, **{each.series: moment.key for each in points}}
        return replace(model, points=(*model.points, *points), metadata=metadata)


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes points of metrics and entities (empty: all) in a span of time.

    ``span``: start and end relative to now (ms); None: all times.
    """

    metrics: frozenset[str]
    entities: frozenset[str]
    span: tuple[int, int] | None

    async def run(self, agent: Agent, moment: Moment) -> None:
        start, end = _times(self.span, moment.now)
        await agent.delete(
            GetBody(metricID=self.metrics, entityID=self.entities, start=start, end=end)
        )

    def apply(self, model: Model, moment: Moment) -> Model:
        def among(series: Series) -> bool:
            metric, entity = series
            return (not self.metrics or metric in self.metrics) and (
                not self.entities or entity in self.entities
            )

        points = _without(model.points, self.span, moment.now, lambda each: among(each.series))
        return replace(model, points=points)


@dataclass(frozen=True, slots=True)
class PutRecords:
    """Stores records; an item: (key, time of the record relative to now in ms)."""

    items: tuple[tuple[str, int], ...]

    async def run(self, agent: Agent, moment: Moment) -> None:
        items = [
            RecordItem(key, msgspec.Raw(str(moment.value(at)).encode()), moment.now + by)
            for at, (key, by) in enumerate(self.items)
        ]
        await agent.records.put(WORD, items, RequestKey(moment.key))

    def apply(self, model: Model, moment: Moment) -> Model:
        rows = [
            Row(key, moment.now + by, moment.value(at), moment.now)
            for at, (key, by) in enumerate(self.items)
        ]
        return replace(model, records=(*model.records, *rows))


@dataclass(frozen=True, slots=True)
class DeleteRecords:
    """Deletes the records of keys in a span of time (ms relative to now); None: all times."""

    keys: frozenset[str]
    span: tuple[int, int] | None

    async def run(self, agent: Agent, moment: Moment) -> None:
        since, until = _times(self.span, moment.now)
        await agent.records.delete(WORD, RecordDeleteBody(key=self.keys, since=since, until=until))

    def apply(self, model: Model, moment: Moment) -> Model:
        def left(rows: tuple[Row, ...]) -> tuple[Row, ...]:
            return _without(rows, self.span, moment.now, lambda row: row.key in self.keys)

        return replace(model, records=left(model.records), once_records=left(model.once_records))


@dataclass(frozen=True, slots=True)
class SetRetention:
    """Sets the retention (ms); None: rows do not expire."""

    retention_ms: int | None

    async def run(self, agent: Agent, moment: Moment) -> None:
        await agent.config.change(ConfigChange(retention_ms=self.retention_ms))

    def apply(self, model: Model, moment: Moment) -> Model:
        return replace(model, retention_ms=self.retention_ms).at(moment.now)


@dataclass(frozen=True, slots=True)
class CreateStream:
    """Creates a stream unless it exists; waits while an earlier stream of that name is deleted."""

    name: str

    async def run(self, agent: Agent, moment: Moment) -> None:
        await retry(lambda: agent.streams.create(self.name, ROWS))

    def apply(self, model: Model, moment: Moment) -> Model:
        return _with_stream(model, self.name, model.streams.get(self.name) or Log())


@dataclass(frozen=True, slots=True)
class Append:
    """Appends rows to a stream and moves its frontier (ms), if the stream exists."""

    name: str
    rows: int
    frontier: int

    async def run(self, agent: Agent, moment: Moment) -> None:
        values = [moment.value(at) for at in range(self.rows)]
        rows = pa.record_batch([pa.array(values, pa.int64())], ROWS)
        with contextlib.suppress(NotFoundError):
            writer = (await agent.streams.get(self.name)).writer
            await writer.append(rows, key=RequestKey(moment.key), frontier=self.frontier)

    def apply(self, model: Model, moment: Moment) -> Model:
        log = model.streams[self.name]
        if log is None:
            return model
        rows = [Row("", 0, moment.value(at), moment.now) for at in range(self.rows)]
        frontier = max(log.frontier, self.frontier)
        log = replace(log, rows=(*log.rows, *rows), frontier=frontier)
        return _with_stream(model, self.name, log)


@dataclass(frozen=True, slots=True)
class DeleteStream:
    """Deletes a stream, if it exists."""

    name: str

    async def run(self, agent: Agent, moment: Moment) -> None:
        with contextlib.suppress(NotFoundError):
            await agent.streams.delete(self.name)

    def apply(self, model: Model, moment: Moment) -> Model:
        return _with_stream(model, self.name, None)


@dataclass(frozen=True, slots=True)
class CompactStreams:
    """Runs all compaction and eviction that is due."""

    async def run(self, agent: Agent, moment: Moment) -> None:
        await agent.maintain_streams()

    def apply(self, model: Model, moment: Moment) -> Model:
        return model


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Stores a checkpoint of the catalogue."""

    async def run(self, agent: Agent, moment: Moment) -> None:
        await agent.checkpoint_catalogue()

    def apply(self, model: Model, moment: Moment) -> Model:
        return model


def _with_stream(model: Model, name: str, log: Log | None) -> Model:
    return replace(model, streams={**model.streams, name: log})


def _times(span: tuple[int, int] | None, now: int) -> tuple[int | None, int | None]:
    return (None, None) if span is None else (now + span[0], now + span[1])


def _without(
    items: tuple[T, ...], span: tuple[int, int] | None, now: int, test: Callable[[T], bool]
) -> tuple[T, ...]:
    start, end = _times(span, now)
    return tuple(
        each
        for each in items
        if not test(each)
        or (start is not None and each.ts < start)
        or (end is not None and each.ts > end)
    )


_offsets = st.integers(-4_000, 3_000) | st.integers(9_990, 10_010) | st.integers(10_001, 40_000)
_metrics, _entities, _keys = st.sampled_from("ab"), st.sampled_from("xy"), st.sampled_from("kl")
_names = st.sampled_from(STREAMS)
_spans = st.none() | st.tuples(_offsets, _offsets).map(lambda ends: (min(ends), max(ends)))


def _some(each: st.SearchStrategy[T]) -> st.SearchStrategy[tuple[T, ...]]:
    return st.lists(each, min_size=1, max_size=5).map(tuple)


PUTS = st.builds(Put, _some(st.tuples(_metrics, _entities, _offsets)))
USED = st.one_of(
    PUTS,
    PUTS,
    st.builds(
        Delete, st.frozensets(_metrics, max_size=1), st.frozensets(_entities, max_size=1), _spans
    ),
    st.builds(PutRecords, _some(st.tuples(_keys, _offsets))),
    st.builds(DeleteRecords, st.frozensets(_keys, min_size=1), _spans),
    st.builds(SetRetention, st.sampled_from([20_000, 90_000, None])),
    st.builds(CreateStream, _names),
    st.builds(Append, _names, st.integers(1, 3), st.integers(0, 9)),
    st.builds(DeleteStream, _names),
)
"""A strategy of the operations that users run."""

KEPT = st.sampled_from([CompactStreams(), Checkpoint()])
"""A strategy of the operations that the agent runs by itself."""
