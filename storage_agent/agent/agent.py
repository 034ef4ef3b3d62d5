"""The storage agent: connects to Ignite, recovers, serves requests, and maintains its streams."""

import asyncio
import math
from collections.abc import Callable

from mistbow.auth.callers import current_caller
from mistbow.client.agent_model import Point
from mistbow.client.backup_model import BackupCut
from mistbow.client.operation_model import SiteStatus
from mistbow.clock import Clock, system_clock
from mistbow.errors import FencedError, MistbowError, UnavailableError
from mistbow.runtime.collection import full_collections_paused
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.runtime.tasks import BackgroundTasks
from mistbow.streams.schemas import METADATA as METADATA_STREAM
from mistbow.streams.schemas import RAW
from mistbow.telemetry import get_logger
from storage_agent import metrics
from storage_agent.agent.clock_steps import ExpiryClock, frontier_warnings, without_steps
from storage_agent.agent.config import ConfigCell
from storage_agent.agent.disk_alarm import DiskAlarm
from storage_agent.agent.recovery import RecoveredParts, Recovery, end_process
from storage_agent.backup.source import Backups
from storage_agent.cluster.loss_guard import LossGuard
from storage_agent.cluster.topology import Topology, read_topology
from storage_agent.http.points import GetBody, ListBody, PagedBody, PutBody, QueryBody
from storage_agent.http.responses import Content
from storage_agent.ignite.client import IgniteClient
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.proxy import Proxy
from storage_agent.records.store import RecordStore
from storage_agent.replication.replication import Replication
from storage_agent.request_key import RequestKey
from storage_agent.settings import AgentSettings
from storage_agent.sql.service import SqlService
from storage_agent.store_and_forward.store_and_forward import (
    Acceptance,
    PointWriter,
    StoreAndForward,
)
from storage_agent.streams.small_parts import OpenSubscriptions
from storage_agent.streams.streams import Streams
from storage_agent.timeseries.aggregation import AggregateState, query
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.deletion import Deletion, count_points
from storage_agent.timeseries.history import History
from storage_agent.timeseries.multi_site_get import gather_points
from storage_agent.timeseries.multi_site_pages import PointPages
from storage_agent.timeseries.point_pages import PageReader
from storage_agent.timeseries.point_queries import deletion_range, series_selection
from storage_agent.timeseries.series_order import SeriesOrder
from storage_agent.timeseries.series_pages import SeriesPages
from storage_agent.timeseries.series_queries import list_series
from storage_agent.work_threads import in_own_thread_if_many

log = get_logger(__name__)

_PAUSE_RATIO = 5.0
"""The ratio of the pause after a checkpoint to the duration of the checkpoint."""

_PASSING = (UnavailableError,)
_DRAINING = Schedule("spool_drain", interval_s=0.5, expected=(*_PASSING, FencedError))
_RECOVERY = Schedule("recovery", interval_s=math.inf, retry_s=1.0, expected=_PASSING)
_CHECKPOINTS = Schedule("checkpoint", interval_s=1.0, delay_s=1.0, expected=_PASSING)
_MAINTENANCE = Schedule("maintenance", interval_s=0.5, delay_s=0.5, expected=_PASSING)
_LEASE_CHECK = Schedule("lease_check", interval_s=1.0, delay_s=1.0, expected=_PASSING)
_MEMORY_CHECK = Schedule("memory_check", interval_s=0.25, expected=_PASSING)
_DISK_CHECK = Schedule("disk_check", interval_s=2.0)


class Agent:
    """Performs the operations of the API of a storage agent.

    ``clock``: returns the present time (ms), with which the agent recognizes late and future
    points. ``on_recovered``: called once when the data of this site has been read.
    ``expiry_clock``: the clock by which rows expire; None: ``clock``.
    """

    def __init__(
        self,
        settings: AgentSettings,
        clock: Clock = system_clock,
        on_recovered: Callable[[], None] = lambda: None,
        expiry_clock: ExpiryClock | None = None,
    ) -> None:
        self._settings = settings
        self._on_recovered = on_recovered
        self._clock = clock
        self.membership = FabricMembership(settings, clock)
        self.proxy = Proxy(self.membership.network, self.membership.peers)
        self.replication = Replication(settings, self.membership, clock)
        self.records = RecordStore(settings, self.membership, clock)
        self.subscriptions = OpenSubscriptions()
        self.sql = SqlService(settings)
        self.backups = Backups(settings, clock)
        self._ignite = IgniteClient(
            settings.ignite_addresses,
            settings.ignite_tls_ca,
            settings.home / "ignite",
        )
        self.guard = LossGuard(settings.home, self._ignite, self.membership, clock)
        self._points = StoreAndForward(settings, self._point_writer, self._is_stored)
        self._recovery = Recovery(
            settings,
            clock,
            without_steps(clock) if expiry_clock is None else expiry_clock.ago,
            self._ignite,
            self.membership,
            self.guard,
            self.replication,
            self.records,
            self._points.unstored,
        )
        self._fenced = False
        self._checkpointing = asyncio.Lock()
        self._parts: RecoveredParts | None = None
        self._tasks = BackgroundTasks()
        self._draining = PeriodicTask(self._points.drain, _DRAINING)
        self._disk = DiskAlarm(settings.home, settings.disk_alarm_mb)
        self._disk_check = PeriodicTask(self._disk.check, _DISK_CHECK)
        self._recovering = PeriodicTask(self._recover, _RECOVERY)
        self._after_recovery = (
            PeriodicTask(self._checkpoint, _CHECKPOINTS),
            PeriodicTask(self.maintain_streams, _MAINTENANCE),
            PeriodicTask(self._check_lease, _LEASE_CHECK),
            PeriodicTask(self._check_memory, _MEMORY_CHECK),
            self.guard.checks,
        )

    def start(self) -> None:
        """Connect to Ignite, and recover, in the background."""
        self._ignite.start()
        self.membership.start()
        for task in (self._recovering, self._draining, self._disk_check):
            task.spawn_in(self._tasks)

    async def close(self) -> None:
        """Stop the agent, and reject the requests that it has not acknowledged."""
        await self._tasks.close()
        await self._points.close()
        await self.records.close()
        await self.sql.close()
        await self.replication.close()
        await self.membership.close()
        await self.guard.save()
        if self._parts is not None:
            await self._parts.streams.close()
        await self._ignite.close()

    async def waiting_for(self) -> list[str]:
        """Return the reasons why the agent is not ready; empty once it is ready."""
        return [*await self._missing_parts(), *self._points.spool_problems()]

    async def warnings(self) -> list[str]:
        """Return the problems that an operator should solve although the agent is ready."""
        alarms = [*self._disk.problems, *self.membership.skew.problems]
        for tasks in (self._tasks, self.membership.tasks, self.replication.tasks):
            alarms += tasks.problems
        if self._parts is not None:
            alarms += frontier_warnings(self._parts.raw.log.frontier, self._clock())
        return [*await self._points.spool_warnings(), *alarms]

    async def status(self) -> SiteStatus:
        """Return the status of this agent for operators.

        The fabric has the expiry of the identity; here, the expiry of the certificate is a warning.
        """
        streams = [] if self._parts is None else self._parts.streams.all()
        return SiteStatus(
            site=self._settings.site,
            node=self._settings.node,
            waiting_for=tuple(await self.waiting_for()),
            warnings=(*await self.warnings(), *self._settings.certificates.warnings()),
            disk_free_bytes=self._disk.free,
            disk_size_bytes=self._disk.size,
            stored_bytes=sum(stream.log.index.bytes for stream in streams),
            spooled_bodies=self._points.spooled_bodies,
        )

    async def _missing_parts(self) -> list[str]:
        if not await self._ignite.answers():
            refusal = self._ignite.refusal
            return [f"Ignite at {self._ignite.name}" + (refusal and f": {refusal}")]
        if self.guard.problems:
            return self.guard.problems
        if self._parts is None:
            error = self._recovering.error
            why = f": {error.message}" if isinstance(error, MistbowError) else ""
            return [f"the recovery of the streams{why}"]
        if self._fenced:
            return [
                "nothing: another agent has claimed the points of this site; stop one of the two, "
                "and restart this one if it is the one to stay"
            ]
        return []

    @property
    def streams(self) -> Streams:
        """The streams of this site; raises ``UnavailableError`` before their recovery."""
        if self._parts is None and self.guard.streams_awaiting_repair is not None:
            return self.guard.streams_awaiting_repair
        return self._parts.streams if self._parts else self._require_parts().streams

    @property
    def catalogue(self) -> Catalogue:
        """The series of this site; raises ``UnavailableError`` before their recovery."""
        return self._require_parts().catalogue

    @property
    def history(self) -> History:
        """The stored points of this site; raises ``UnavailableError`` before their recovery."""
        return self._require_parts().history

    async def put(self, body: PutBody, key: RequestKey | None) -> Acceptance:
        """Store or spool all points in a body, or none of the points.

        ``key``: the caller's idempotency key. Raises ``ReusedKeyError`` for the key of another
        body, and ``UnavailableError`` if another agent has claimed the points of this site.
        """
        caller = current_caller()
        caller.check_entities(item.entity for item in body.monitoring)
        scoped = None if key is None else key.of(caller)
        try:
            accepted = await self._points.put(body, scoped)
        except FencedError as error:
            # A status that collectors retry: the points belong to the site's other agent, or to
            # this one after its restart.
            self._enter_fenced()
            raise UnavailableError(
                "another agent has claimed the points of this site",
                hint="Try again, or send to that agent; /readyz reports the state of this agent.",
            ) from error
        metrics.POINTS.inc(accepted.points)
        return accepted

    def _point_writer(self) -> PointWriter | None:
        parts = self._parts
        if parts is None or not self._ignite.connected or self.guard.is_refused(RAW):
            return None
        return PointWriter(parts.encoder, parts.raw.writer, parts.epoch)

    def _is_stored(self, key: RequestKey) -> bool:
        return self._parts is not None and self._parts.raw.log.keys.get(key) is not None

    def accepts_attributes(self, point: Point) -> bool:
        """Return whether the attributes of a point do not exceed the allowed size."""
        return self._points.accepts_attributes(point)

    async def get(self, body: GetBody) -> Content:
        """Return the points that a body selects, as JSON, complete or in chunks."""
        parts = self._require_parts()
        return await gather_points(body, self.membership, parts.reader.get, self.replication)

    def point_pages(self, body: PagedBody) -> PointPages:
        """Return a reader of the pages of the points that a body selects."""
        parts = self._require_parts()
        local = PageReader(self._settings.node, parts.catalogue, parts.history, body)
        return PointPages(body, self.membership, local, self.replication)

    async def delete(self, body: GetBody, *, dry_run: bool = False) -> Deletion:
        """Delete the points of this node that a body selects; return how many points there were.

        ``dry_run``: only count the points. Points that are stored during the deletion are deleted
        too, but not counted. Raises ``UnavailableError`` if points wait in the spool.
        """
        parts = self._require_parts()
        self._points.check_drained("a deletion")
        start, end = deletion_range(body)
        missing: list[str] = []
        # The writer's task has no caller: the rights are fixed here. Appends wait for that task,
        # so it must not wait for long reads.
        select = series_selection(parts.catalogue, body, in_own_thread_if_many)
        # The keys and counts of many series are many objects, all without cycles.
        with full_collections_paused():
            counts = await count_points(parts.history, await select(), start, end, missing)
            if not dry_run:
                # Before, since the agent may end during the deletion; after, for the bodies that
                # were spooled and stored meanwhile, and whose points are deleted.
                await self._points.forget_bodies()
                # The count may have taken minutes.
                self._points.check_drained("a deletion")
                try:
                    deleted = await parts.remover.delete(select, start, end)
                    await self.membership.retract_series(deleted, parts.catalogue.contains)
                finally:
                    await self._points.forget_bodies()
        return Deletion(counts, dry_run, missing)

    async def begin_backup(self) -> BackupCut:
        """Begin a backup of this site, and return its cut."""
        parts = self._require_parts()
        self._points.check_drained("a backup")
        return await self.backups.begin(parts.streams, parts.maintenance, parts.config.changes)

    @property
    def config(self) -> ConfigCell:
        """The configuration; raises ``UnavailableError`` before its recovery."""
        return self._require_parts().config

    async def query(self, body: QueryBody) -> bytes:
        """Return an aggregate of the points that a body selects, as JSON."""
        return await query(
            body, self.membership, self._require_parts().aggregation, self.replication
        )

    async def aggregate(self, body: QueryBody) -> AggregateState:
        """Return the aggregate state of this node's points that a body of another agent selects."""
        parts = self._require_parts()
        await self.replication.count_read(body)
        return await parts.aggregation.aggregate(body)

    async def list_series(self, body: ListBody) -> Content:
        """Return the metadata of the series that a body selects, as JSON, complete or in chunks."""
        catalogue, node = self._require_parts().catalogue, self._settings.node
        return await list_series(body, node, catalogue, self.membership, self._clock())

    def series_pages(self, body: ListBody) -> SeriesPages:
        """Return a reader of the pages of the series that a body selects."""
        order = SeriesOrder(self._require_parts().catalogue, body)
        return SeriesPages(body, self._settings.node, order, self.membership, self._clock)

    async def topology(self) -> Topology:
        """Return the topology of the Ignite cluster at this site."""
        return await read_topology(self._ignite)

    def _require_parts(self) -> RecoveredParts:
        self.guard.check(RAW)
        self.guard.check(METADATA_STREAM)
        if self._parts is None:
            raise UnavailableError(
                "the agent is starting", hint="/readyz reports what it waits for."
            )
        return self._parts

    async def _recover(self) -> float:
        """Recover when Ignite is connected, and then start the tasks that need recovered streams.

        Returns infinity: the periodic task calls this method only until the first success.
        """
        await self._ignite.wait_connected()
        self._parts = await self._recovery.run()
        self._on_recovered()
        log.info("agent_ready", head=self._parts.raw.log.head)
        for task in self._after_recovery:
            task.spawn_in(self._tasks)
        return math.inf

    async def _check_lease(self) -> None:
        """Read the epoch of ``raw``; if another agent has claimed ``raw``, enter the fenced state.

        Without this check, an agent that receives no points would not notice the claim.
        """
        parts = self._require_parts()
        raw = parts.raw.log
        # A claim stores its segment before the state: the other agent may have died in between.
        if max(raw.epoch, await raw.state.read_epoch()) > parts.epoch:
            self._enter_fenced()

    async def _check_memory(self) -> float:
        """Check the memory region; return the pause until the next check (s)."""
        region = self._require_parts().region
        await region.check()
        return math.inf if region.max_bytes is None else _MEMORY_CHECK.interval_s

    def _enter_fenced(self) -> None:
        if self._fenced:
            return
        self._fenced = True
        ends = self._settings.when_fenced == "end"
        log.critical(
            "agent_fenced",
            reason="another agent has claimed the points of this site",
            consequence="the process ends" if ends else "writes are refused",
        )
        if ends:
            end_process()

    async def checkpoint_catalogue(self) -> float:
        """Remove expired values from the catalogue, and then store a checkpoint of the catalogue.

        Returns the duration of the checkpoint (s).
        """
        parts = self._require_parts()
        async with self._checkpointing:
            expired = await parts.remover.expire()
            await self.membership.retract_series(expired, parts.catalogue.contains)
            return await parts.catalogue.checkpoint(self._ignite)

    async def maintain_streams(self) -> None:
        """Compact streams, evict expired rows, and remove the rows of deleted streams."""
        parts = self._require_parts()
        self.backups.end_unused()
        await self.config.settle()
        await parts.maintenance.run()
        await parts.streams.finish_deleting()

    async def _checkpoint(self) -> float:
        """Store a checkpoint; return the pause (s) to make before the next checkpoint."""
        return max(_CHECKPOINTS.interval_s, _PAUSE_RATIO * await self.checkpoint_catalogue())
