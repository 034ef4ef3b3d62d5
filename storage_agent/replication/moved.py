"""What of this site's points has moved: noted with the stream ``raw``, and read where it is."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa

from mistbow.auth.callers import current_caller
from mistbow.errors import ConflictError, InvalidRequestError, NotFoundError, UnavailableError
from mistbow.streams.schemas import METADATA, POINTS, RAW
from mistbow.streams.wire import Chunk, Position
from storage_agent.fabric.journal import STORE
from storage_agent.fabric.member import Member
from storage_agent.fabric.network import Network, post_to
from storage_agent.monitoring.catalogue import Series
from storage_agent.monitoring.history import last_values
from storage_agent.monitoring.values import COLUMNS
from storage_agent.replication.filters import SeriesFilter, text_of
from storage_agent.replication.pulling import Puller
from storage_agent.replication.replica import Replica
from storage_agent.replication.told import Copy
from storage_agent.streams.log import StreamLog
from storage_agent.streams.segments import no_rows
from storage_agent.streams.streams import Streams

_NOTED = "moved."
_FOLLOWED_S = 2.0
_LOOK_S = 0.02


class Moved(msgspec.Struct, frozen=True, omit_defaults=True):
    """Points up to ``to`` (ms) and before the number ``before``, which the copy at ``target`` has.

    ``kept``: the replica there that has them, by its name ``made``. ``forgotten``: before this
    number none are here any more.
    """

    id: str
    target: str
    kept: str
    to: int
    before: int
    filter: SeriesFilter = SeriesFilter()
    forgotten: int = 0

    def note(self) -> dict[str, object]:
        """Return this as an attribute of the stream ``raw``."""
        return {_NOTED + self.id: msgspec.to_builtins(self)}

    def end(self) -> dict[str, object]:
        """Return the attribute that says that this is no more."""
        return {_NOTED + self.id: None}


def moved_in(log: StreamLog) -> dict[tuple[str, str], Moved]:
    """Return what of a stream has moved, by target and copy."""
    noted = [msgspec.convert(v, Moved) for k, v in log.attributes.items() if k.startswith(_NOTED)]
    return {(each.target, each.id): each for each in noted}


class MovedAsk(msgspec.Struct, frozen=True, kw_only=True):
    """What a source asks of the replica ``id`` that it moved points to: these series and times.

    Who reads in place of a source that is silent asks the same, without ``reached``.

    It must be the one that was made as ``kept``: one that was made since does not have them. It
    must have read the source's ``store`` up to the number ``reached``, and have done what was
    deleted there up to ``deleted``.
    """

    of: str
    id: str
    kept: str
    store: str
    series: tuple[Series, ...]
    start: int
    end: int
    columns: tuple[str, ...]
    reached: int
    deleted: int


@dataclass(frozen=True, slots=True)
class Away:
    """Series of which the points up to ``to`` (ms) are at another site, but for late ones.

    Points of numbers from ``before`` on may be there or not.
    """

    series: Collection[Series]
    to: int
    before: int
    moved: Moved
    points: "MovedPoints"

    def read(
        self, start: int, end: int, columns: Sequence[str], reached: int
    ) -> AsyncIterator[pa.RecordBatch]:
        """Yield the points from there, all before the number ``reached``."""
        return self.points.read(self, start, end, columns, reached)

    def reason(self, start: int, end: int, error: str) -> str:
        """Say in words what cannot be read, and why."""
        what = "points" if self.moved.filter.all else f"points of {text_of(self.moved.filter)}"
        return f"{what} from {start} to {end} have moved to {self.moved.target}: {error}"


class MovedPoints:
    """Reads points of this site that have moved; see ``history.Elsewhere``."""

    def __init__(self, member: Member) -> None:
        # Held by who decides by what has moved and what is wanted, and notes it.
        self.changing = asyncio.Lock()
        self._member = member
        self._streams: Streams | None = None
        # Reads that go on by number, and by copy the last one that began before it was noted.
        self._reads: set[int] = set()
        self._begun = 0
        self._before: dict[tuple[str, str], int] = {}

    def open(self, streams: Streams) -> None:
        """Take up the streams."""
        self._streams = streams

    def all(self) -> dict[tuple[str, str], Moved]:
        """Return what has moved, by target and copy."""
        raw = None if self._streams is None else self._streams.opened(RAW)
        return {} if raw is None else moved_in(raw.log)

    def of(self, copy: Copy) -> Moved | None:
        """Return how far a copy has moved, if it has begun to."""
        return self.all().get((copy.target, copy.id))

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Take note of a read as long as it goes on."""
        self._begun += 1
        read = self._begun
        self._reads.add(read)
        try:
            yield
        finally:
            self._reads.discard(read)

    def is_read_as_before(self, moved: Moved) -> bool:
        """Tell whether a read goes on that began before this was noted; none after a restart."""
        last = self._before.get((moved.target, moved.id), 0)
        return any(read <= last for read in self._reads)

    async def note(self, noted: dict[str, object]) -> None:
        """Note what has moved."""
        if self._streams is None:
            raise UnavailableError("the agent is starting")
        raw = await self._streams.get(RAW)
        await raw.writer.advance(raw.log.epoch, attributes=noted)
        for target, copy_id in moved_in(raw.log):
            if _NOTED + copy_id in noted:
                self._before[target, copy_id] = self._begun

    @property
    def store(self) -> str:
        """The name of this site's store."""
        told = None if self._streams is None else self._streams.opened(METADATA)
        return "" if told is None else str(told.log.attributes.get(STORE))

    def among(self, series: Collection[Series]) -> Iterator[Away]:
        """Yield which of some series are elsewhere; none twice, for moves do not overlap."""
        for moved in self.all().values():
            metrics, entities = frozenset(moved.filter.metric), frozenset(moved.filter.entity)
            some = {
                (metric, entity)
                for metric, entity in series
                if (not metrics or metric in metrics) and (not entities or entity in entities)
            }
            if some:
                yield Away(some, moved.to, moved.before, moved, self)

    async def read(
        self, away: Away, start: int, end: int, columns: Sequence[str], reached: int
    ) -> AsyncIterator[pa.RecordBatch]:
        """Yield points from where they are; raises a ``MistbowError`` if that is not possible."""
        asked = MovedAsk(
            of=self._member.site,
            id=away.moved.id,
            kept=away.moved.kept,
            store=self.store,
            series=tuple(away.series),
            start=start,
            end=end,
            columns=tuple(columns),
            reached=reached,
            deleted=self._deleted(),
        )
        async with aclosing(points_at(self._member.network, away.moved.target, asked)) as chunks:
            async for chunk in chunks:
                yield chunk.rows

    async def latest(self, series: Collection[Series]) -> dict[Series, tuple[int, float]]:
        """Return the last time and value of what of series has moved."""
        found: dict[Series, tuple[int, float]] = {}
        for away in self.among(series):

            def read(
                some: Collection[Series], start: int, end: int, away: Away = away
            ) -> AsyncIterator[pa.RecordBatch]:
                return self.read(replace(away, series=some), start, end, COLUMNS, 0)

            found |= await last_values(read, away.series, away.to, away.to)
        return found

    def _deleted(self) -> int:
        """Return the last deletion that a replica must have done; older ones all have."""
        raw = None if self._streams is None else self._streams.opened(RAW)
        if raw is None:
            return 0
        told = (each.id for each in raw.log.manifest.current.deletions if not each.forgotten)
        return max(told, default=0)


def points_at(network: Network, target: str, asked: MovedAsk) -> AsyncGenerator[Chunk, None]:
    """Yield points of a replica at another site; raises a ``MistbowError``.

    Their frontier is the time (ms) up to which the replica has all that did not come late.
    """
    return network.chunks(post_to(target, "/replication/points", msgspec.json.encode(asked)))


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What a replica has, for who wants to forget it.

    All rows of ``store`` before the number ``position`` are stored, if it is ``complete``.
    ``durable``: that survives a crash. ``made`` is as in ``Kept``.
    """

    made: str
    store: str | None
    position: int
    complete: bool
    durable: bool


class MovedReplicas:
    """Answers the sources of replicas that are held here."""

    def __init__(self, puller: Puller, *, durable: bool) -> None:
        self._puller = puller
        self._durable = durable

    def held(self, of: str, copy_id: str) -> Held:
        """Return what a replica has; raises ``NotFoundError``."""
        replica = self._replica(of, copy_id)
        return Held(
            made=replica.made,
            store=replica.store,
            position=replica.position,
            complete=replica.complete and not replica.missed,
            durable=self._durable,
        )

    async def points(self, asked: MovedAsk) -> tuple[pa.Schema, Chunk, AsyncIterator[Chunk]]:
        """Return the points that a source asks for: the schema, a first chunk and the others.

        Raises ``UnavailableError`` if the replica does not follow its source that far, soon.
        """
        unknown = [name for name in asked.columns if name not in POINTS.names]
        if unknown or not asked.columns:
            raise InvalidRequestError(
                f"columns: {unknown} are none of points", hint=f"There are {POINTS.names}."
            )
        replica = self._replica(asked.of, asked.id)
        await _followed(replica, asked)
        prefix = current_caller().entity_prefix
        series = [each for each in asked.series if each[1].startswith(prefix)]
        schema = pa.schema([POINTS.field(name) for name in asked.columns])
        found = replica.history.batches(series, asked.start, asked.end, columns=asked.columns)
        reached = Position(0, replica.complete_to)
        chunks = (Chunk(batch, reached) async for batch in found)
        return schema, Chunk(no_rows(schema), reached), chunks

    def _replica(self, of: str, copy_id: str) -> Replica:
        for replica in self._puller.held(of):
            if replica.copy.id == copy_id:
                self._puller.check(replica)
                return replica
        raise NotFoundError(f"no replica {copy_id} of {of} is held here")


async def _followed(replica: Replica, asked: MovedAsk) -> None:
    """Wait until a replica has followed its source so far; raises if it does not."""
    if replica.made != asked.kept:
        raise ConflictError(
            f"the replica {asked.id} of {asked.of} was deleted or lost, and what had moved with it"
        )
    if replica.store != asked.store or replica.missed:
        raise ConflictError(f"the replica {asked.id} of {asked.of} is not of what was moved")
    end = time.monotonic() + _FOLLOWED_S
    while replica.heard < asked.reached or (replica.deleted or 0) < asked.deleted:
        if time.monotonic() > end:
            raise UnavailableError(f"the replica {asked.id} of {asked.of} lies behind")
        await asyncio.sleep(_LOOK_S)
