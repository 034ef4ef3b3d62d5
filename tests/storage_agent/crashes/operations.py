"""What may be done to an agent: to it, and to the model."""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import msgspec
import pyarrow as pa
from hypothesis import strategies as st

from mistbow.errors import NotFoundError, UnavailableError
from storage_agent.agent import Agent
from storage_agent.config import ConfigChange
from storage_agent.monitoring.bodies import GetBody, Measurement, PutBody
from storage_agent.records.bodies import DeleteBody, Item
from tests.storage_agent.crashes.model import Log, Model, Point, Row
from tests.storage_agent.crashes.seen import STREAMS, WORD, Series
from tests.support.waiting import aeventually

ROWS = pa.schema([pa.field("number", pa.int64(), nullable=False)])
_MOST_ITEMS = 10
_AGAIN_S = 60.0

T = TypeVar("T", Point, Row)


@dataclass(frozen=True, slots=True)
class Moment:
    """When something is done, and its number, which all its values and its key are made of."""

    now: int
    number: int

    @property
    def key(self) -> str:
        """The idempotency key."""
        return f"key {self.number}"

    def value(self, at: int) -> int:
        """Return the value of one of its items."""
        return self.number * _MOST_ITEMS + at


async def insist(work: Callable[[], Awaitable[object]]) -> None:
    """Do something again until it is not refused."""

    async def done() -> bool:
        try:
            await work()
        except UnavailableError as error:
            raise AssertionError(error.message) from error
        return True

    await aeventually(done, timeout=_AGAIN_S)


class Operation(Protocol):
    """Done twice at the same moment it is done once."""

    async def run(self, agent: Agent, moment: Moment) -> None:
        """Do it; raises ``UnavailableError`` when it may or may not be done."""

    def apply(self, model: Model, moment: Moment) -> Model:
        """Return what must be there then."""


@dataclass(frozen=True, slots=True)
class Put:
    """Points of series, by how far their times are from now."""

    items: tuple[tuple[str, str, int], ...]

    async def run(self, agent: Agent, moment: Moment) -> None:
        body = [
            Measurement(entity, metric, float(moment.value(at)), moment.now + by, desc=moment.key)
            for at, (metric, entity, by) in enumerate(self.items)
        ]
        await agent.put(PutBody(body), moment.key)

    def apply(self, model: Model, moment: Moment) -> Model:
        now = moment.now
        points = [
            Point((metric, entity), now + by, float(moment.value(at)), now)
            for at, (metric, entity, by) in enumerate(self.items)
        ]
        told = {**model.told, **{each.series: moment.key for each in points}}
        return replace(model, points=(*model.points, *points), told=told)


@dataclass(frozen=True, slots=True)
class Delete:
    """Points by metric and entity (none: all), and by times from now."""

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
    """Records by key, and by how far their times are from now."""

    items: tuple[tuple[str, int], ...]

    async def run(self, agent: Agent, moment: Moment) -> None:
        items = [
            Item(key, msgspec.Raw(str(moment.value(at)).encode()), moment.now + by)
            for at, (key, by) in enumerate(self.items)
        ]
        await agent.records.put(WORD, items, moment.key)

    def apply(self, model: Model, moment: Moment) -> Model:
        rows = [
            Row(key, moment.now + by, moment.value(at), moment.now)
            for at, (key, by) in enumerate(self.items)
        ]
        return replace(model, records=(*model.records, *rows))


@dataclass(frozen=True, slots=True)
class DeleteRecords:
    """Records of keys, by times from now."""

    keys: frozenset[str]
    span: tuple[int, int] | None

    async def run(self, agent: Agent, moment: Moment) -> None:
        since, until = _times(self.span, moment.now)
        await agent.records.delete(WORD, DeleteBody(key=self.keys, since=since, until=until))

    def apply(self, model: Model, moment: Moment) -> Model:
        def left(rows: tuple[Row, ...]) -> tuple[Row, ...]:
            return _without(rows, self.span, moment.now, lambda row: row.key in self.keys)

        return replace(model, records=left(model.records), once_records=left(model.once_records))


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep rows for so long from now on; None: for ever."""

    retention_ms: int | None

    async def run(self, agent: Agent, moment: Moment) -> None:
        await agent.config.change(ConfigChange(retention_ms=self.retention_ms))

    def apply(self, model: Model, moment: Moment) -> Model:
        return replace(model, retention_ms=self.retention_ms).at(moment.now)


@dataclass(frozen=True, slots=True)
class Make:
    """Make a stream, unless it is there; once the one before is all gone."""

    name: str

    async def run(self, agent: Agent, moment: Moment) -> None:
        await insist(lambda: agent.streams.create(self.name, ROWS))

    def apply(self, model: Model, moment: Moment) -> Model:
        return _with_stream(model, self.name, model.streams.get(self.name) or Log())


@dataclass(frozen=True, slots=True)
class Append:
    """Append rows to a stream and move its frontier, if it is there."""

    name: str
    rows: int
    frontier: int

    async def run(self, agent: Agent, moment: Moment) -> None:
        values = [moment.value(at) for at in range(self.rows)]
        rows = pa.record_batch([pa.array(values, pa.int64())], ROWS)
        with contextlib.suppress(NotFoundError):
            writer = (await agent.streams.get(self.name)).writer
            await writer.append(rows, key=moment.key, frontier=self.frontier)

    def apply(self, model: Model, moment: Moment) -> Model:
        log = model.streams[self.name]
        if log is None:
            return model
        rows = [Row("", 0, moment.value(at), moment.now) for at in range(self.rows)]
        frontier = max(log.frontier, self.frontier)
        log = replace(log, rows=(*log.rows, *rows), frontier=frontier)
        return _with_stream(model, self.name, log)


@dataclass(frozen=True, slots=True)
class Drop:
    """Delete a stream, if it is there."""

    name: str

    async def run(self, agent: Agent, moment: Moment) -> None:
        with contextlib.suppress(NotFoundError):
            await agent.streams.delete(self.name)

    def apply(self, model: Model, moment: Moment) -> Model:
        return _with_stream(model, self.name, None)


@dataclass(frozen=True, slots=True)
class Merge:
    """Merge and evict what is due."""

    async def run(self, agent: Agent, moment: Moment) -> None:
        await agent.keep_streams()

    def apply(self, model: Model, moment: Moment) -> Model:
        return model


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Write the catalogue."""

    async def run(self, agent: Agent, moment: Moment) -> None:
        await agent.keep_catalogue()

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
    st.builds(Keep, st.sampled_from([20_000, 90_000, None])),
    st.builds(Make, _names),
    st.builds(Append, _names, st.integers(1, 3), st.integers(0, 9)),
    st.builds(Drop, _names),
)
"""What users do."""

KEPT = st.sampled_from([Merge(), Checkpoint()])
"""What the agent does by itself."""
