"""The storage agent, put together: it connects, recovers, serves, and keeps itself in order."""

import asyncio
import functools
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from mistbow.auth.callers import current_caller
from mistbow.clock import Clock, system_clock
from mistbow.errors import UnavailableError
from mistbow.http.shortcut import Content
from mistbow.settings import AgentSettings
from mistbow.streams.schemas import METADATA as METADATA_STREAM
from mistbow.streams.schemas import RAW, is_permanent
from mistbow.tasks import end
from mistbow.telemetry import get_logger
from storage_agent import metrics
from storage_agent.cluster.guard import Guard
from storage_agent.cluster.topology import Topology, topology
from storage_agent.config import ConfigCell
from storage_agent.fabric.gathering import gather
from storage_agent.fabric.member import Member
from storage_agent.fabric.relay import Relay
from storage_agent.ignite_client import METADATA, IgniteClient
from storage_agent.intake.intake import Accepted, Intake, Store
from storage_agent.monitoring.aggregation import Aggregation, Sums, query
from storage_agent.monitoring.bodies import GetBody, ListBody, Measurement, PutBody, QueryBody
from storage_agent.monitoring.catalogue import Catalogue
from storage_agent.monitoring.extraction import Extraction, chosen, limits_of
from storage_agent.monitoring.history import History
from storage_agent.monitoring.keeping import Keeping
from storage_agent.monitoring.listing import listed
from storage_agent.monitoring.points import PointMaker
from storage_agent.records.store import RecordStore
from storage_agent.replication.replication import Replication
from storage_agent.sql.service import Sql
from storage_agent.streams.housekeeping import Housekeeper
from storage_agent.streams.index import Entry
from storage_agent.streams.log import StreamLog
from storage_agent.streams.segments import Segment
from storage_agent.streams.streams import Stream, Streams, is_agents_own

log = get_logger(__name__)

T = TypeVar("T")

_PAUSE_S = 1.0
_HOUSE_S = 0.5
_REST = 5.0
"""A checkpoint is followed by at least so many times the time that it took."""


@dataclass(frozen=True, slots=True)
class _Recovered:
    """What there is once Ignite's content was read; ``epoch`` is this agent's for ``raw``."""

    streams: Streams
    raw: Stream
    epoch: int
    config: ConfigCell
    housekeeper: Housekeeper
    keeping: Keeping
    catalogue: Catalogue
    maker: PointMaker
    extraction: Extraction
    history: History
    aggregation: Aggregation


class Agent:
    """What the API calls; ``clock`` decides what is late and what is ahead."""

    def __init__(self, settings: AgentSettings, clock: Clock = system_clock) -> None:
        self._settings = settings
        self._clock = clock
        self.member = Member(settings, clock)
        self.relay = Relay(self.member.network, self.member.neighbours)
        self.replication = Replication(settings, self.member, clock)
        self.records = RecordStore(settings, self.member, clock)
        self.sql = Sql(settings)
        self._ignite = IgniteClient(
            settings.ignite_addresses,
            settings.ignite_tls_ca,
            settings.home / "ignite",
        )
        self.guard = Guard(settings.home, self._ignite, self.member, clock)
        self._intake = Intake(settings, self._store, self._is_stored)
        self._checkpointing = asyncio.Lock()
        self._recovered: _Recovered | None = None
        self._running: asyncio.Task[None] | None = None
        self._draining: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to connect and to recover, in the background."""
        self._ignite.start()
        self.member.start()
        self._running = asyncio.create_task(self._run(), name="agent")
        self._draining = asyncio.create_task(self._intake.drain(), name="spool")

    async def close(self) -> None:
        """Stop; what is not acknowledged is refused."""
        for task in (self._running, self._draining):
            if task is not None:
                await end([task])
        await self._intake.close()
        await self.records.close()
        await self.sql.close()
        await self.replication.close()
        await self.member.close()
        await self.guard.save()
        if self._recovered is not None:
            await self._recovered.streams.close()
        await self._ignite.close()

    async def waiting_for(self) -> list[str]:
        """Say in words what the agent cannot do without, and does not have."""
        if not await self._ignite.answers():
            refusal = self._ignite.refusal
            return [f"Ignite at {self._ignite.name}" + (refusal and f": {refusal}")]
        if self.guard.words:
            return self.guard.words
        if self._recovered is None:
            return ["the streams to be recovered"]
        if self._recovered.raw.log.epoch > self._recovered.epoch:
            return ["nothing: another agent has taken over its points; stop this one"]
        return []

    @property
    def streams(self) -> Streams:
        """The streams; raises ``UnavailableError`` before they are recovered."""
        if self._recovered is None and self.guard.held is not None:
            return self.guard.held
        return self._recovered.streams if self._recovered else self._ready().streams

    @property
    def catalogue(self) -> Catalogue:
        """The series of this site; raises ``UnavailableError`` before they are recovered."""
        return self._ready().catalogue

    @property
    def history(self) -> History:
        """This site's points; raises ``UnavailableError`` before they are recovered."""
        return self._ready().history

    async def put(self, body: PutBody, key: str | None) -> Accepted:
        """Take the points of a body, all or none; ``key`` is one of the caller's own."""
        caller = current_caller()
        caller.check_entities(item.entityID for item in body.monitoring)
        accepted = await self._intake.put(body, None if key is None else caller.own(key))
        metrics.POINTS.inc(accepted.points)
        return accepted

    def _is_full(self) -> bool:
        return self._recovered is not None and self._recovered.housekeeper.full

    def _store(self) -> Store | None:
        ready = self._recovered
        if ready is None or not self._ignite.connected or self.guard.refuses(RAW):
            return None
        return Store(ready.maker, ready.raw.writer, ready.epoch)

    def _is_stored(self, key: str) -> bool:
        return self._recovered is not None and key in self._recovered.raw.log.keys

    def fits(self, item: Measurement) -> bool:
        """Tell whether what an item says beside its value and time is not too much."""
        return self._intake.fits(item)

    async def get(self, body: GetBody) -> Content:
        """Return what is stored of the points that a body asks for, as JSON."""
        ready = self._ready()
        return await gather(body, self.member, ready.extraction.get, self.replication)

    async def delete(self, body: GetBody) -> int:
        """Delete the points of this node that a body asks for; returns of how many series."""
        ready = self._ready()
        if self._intake.waiting:
            raise UnavailableError(
                "points wait to be stored, which this would not delete",
                hint="Try again when mistbow_agent_spooled_bodies is 0.",
            )
        wanted = chosen(ready.catalogue, body)
        start, end = limits_of(body)
        self.member.forget_series(await ready.keeping.delete(wanted, start, end))
        return len(wanted)

    @property
    def config(self) -> ConfigCell:
        """What can be changed; raises ``UnavailableError`` before it is recovered."""
        return self._ready().config

    async def query(self, body: QueryBody) -> bytes:
        """Return an aggregate of the points that a body asks for, as JSON."""
        return await query(body, self.member, self._ready().aggregation, self.replication)

    async def sums(self, body: QueryBody) -> Sums:
        """Return what the points of this node that a body asks for come to."""
        return await self._ready().aggregation.sums(body)

    def listed(self, body: ListBody) -> bytes:
        """Return the metadata of the series that a body asks for, as JSON."""
        catalogue = self._ready().catalogue
        return listed(body, self._settings.node, catalogue, self.member, self._clock())

    async def topology(self) -> Topology:
        """Return how this site's Ignite is."""
        return await topology(self._ignite)

    def _ready(self) -> _Recovered:
        self.guard.check(RAW)
        self.guard.check(METADATA_STREAM)
        if self._recovered is None:
            raise UnavailableError("the agent is starting", hint="/readyz says what it waits for.")
        return self._recovered

    async def _run(self) -> None:
        while self._recovered is None:
            await self._ignite.wait_connected()
            try:
                self._recovered = await self._recover()
            except UnavailableError as error:
                log.warning("cannot recover yet", error=error.message)
                await asyncio.sleep(_PAUSE_S)
            except Exception as error:
                # Whatever it is: a task that ends here would leave the agent waiting for ever.
                log.error("cannot recover", exc_info=error)
                await asyncio.sleep(_PAUSE_S)
        log.info("ready", head=self._recovered.raw.log.head)
        await asyncio.gather(self._keep_checkpoints(), self._keep_house(), self.guard.keep())

    async def _recover(self) -> _Recovered:
        config = ConfigCell(self._settings, self._ignite)
        await config.load()
        keep = functools.partial(_keep, config, self._clock, self._is_full)
        streams = Streams(self._ignite, self._clock, self._settings.lateness_ms, keep)
        self._ignite.expect(streams.stored, _end)
        catalogue = Catalogue()
        try:
            metadata = await self._ignite.scan(METADATA)
            await self.guard.meet(metadata)
            await streams.recover(metadata)
            await self.guard.inspect(streams, metadata)
            raw = await streams.get(RAW)
            catalogue.expired_before = raw.log.expired_before
            await catalogue.recover(self._ignite, metadata, raw.log)
            raw.log.listener = _Listener(catalogue, self.member)
            raw.log.merge_limit = catalogue.written
            epoch = streams.epoch = await raw.writer.own()
            await streams.stamp()
            self.replication.moved.open(streams)
            keeping = Keeping(raw, catalogue, self.replication.moved)
            await keeping.settle()
            await self.records.open(streams)
            # What begins to work on these streams comes last: nothing after it may fail.
            await self.member.open(streams, catalogue)
            history = History(raw.log, self.replication.moved)
            self.replication.open(streams, catalogue, config.bound)
            return _Recovered(
                streams=streams,
                raw=raw,
                epoch=epoch,
                config=config,
                housekeeper=Housekeeper(
                    lambda: [stream.log for stream in streams.all()],
                    self._clock,
                    config.bound,
                    lambda name: not is_permanent(name),
                    self.replication.offers.unheard,
                    self.replication.offers.owed,
                ),
                keeping=keeping,
                catalogue=catalogue,
                maker=PointMaker(self._settings, catalogue),
                extraction=Extraction(self._settings.node, catalogue, history),
                history=history,
                aggregation=Aggregation(self._settings.node, catalogue, history),
            )
        except BaseException:
            await streams.close()
            raise

    async def keep_catalogue(self) -> float:
        """Correct the catalogue where values expired, and write it; returns seconds."""
        ready = self._ready()
        async with self._checkpointing:
            self.member.forget_series(await ready.keeping.expire())
            return await ready.catalogue.checkpoint(self._ignite)

    async def keep_streams(self) -> None:
        """Merge and evict what is due in every stream, and remove what is deleted."""
        ready = self._ready()
        await ready.housekeeper.keep()
        await ready.streams.finish_deleting()

    async def _keep_checkpoints(self) -> None:
        took = 0.0
        while True:
            await asyncio.sleep(max(_PAUSE_S, _REST * took))
            took = await _tried(self.keep_catalogue()) or 0.0

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(_HOUSE_S)
            await _tried(self.keep_streams())


async def _tried(work: Awaitable[T]) -> T | None:
    try:
        return await work
    except UnavailableError:
        return None  # the client has told
    except Exception as error:
        log.error("not kept in order", exc_info=error)
        return None


def _keep(config: ConfigCell, clock: Clock, is_full: Callable[[], bool], log: StreamLog) -> None:
    """Tell a stream how long it is kept, and whether there is room."""
    log.by_key = log.name.rpartition("/")[2] == METADATA_STREAM and is_agents_own(log.name)
    if not is_permanent(log.name):
        log.retention_ms = lambda: config.current.retention_of(log.name)
        log.expired_before = lambda: config.expired_before(log, clock)
        log.full = is_full


def _end() -> None:
    """End this process at once: all that it knows is of an Ignite that is no more.

    Who keeps it starts it again, and then it recovers what there is. Until then nothing is
    acknowledged that a restart would not find behind the gap.
    """
    logging.shutdown()
    os._exit(1)


@dataclass(frozen=True, slots=True)
class _Listener:
    """Follows the raw stream's segments."""

    catalogue: Catalogue
    member: Member

    def __call__(self, segment: Segment, entry: Entry) -> None:
        self.member.tell_series(self.catalogue.apply(segment))
        metrics.LATE_POINTS.inc(entry.late)
        metrics.AHEAD_POINTS.inc(segment.ahead.num_rows)
