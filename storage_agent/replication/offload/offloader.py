"""The offloader: deletes points at this site once the target has confirmed that it stores them."""

import itertools
from urllib.parse import urlencode

import msgspec

from mistbow.client.operation_model import Copy
from mistbow.clock import Clock
from mistbow.errors import ConflictError, MistbowError, NotFoundError
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.streams.schemas import RAW
from mistbow.telemetry import get_logger
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.peer_streams import fetch
from storage_agent.replication.follower.replica_server import ReplicaProgress
from storage_agent.replication.offload.offloaded_points import OffloadedPoints
from storage_agent.replication.offload.offloads import Offload
from storage_agent.replication.source.copies import Copies
from storage_agent.streams.index import Index
from storage_agent.streams.streams import Stream, Streams

log = get_logger(__name__)

_STEPS = 6
"""The number of steps in which an offload advances during the minimum age of its points."""


class Offloader:
    """Advances each offload in steps: records a step, waits for earlier reads, deletes the points.

    Once a step is recorded, reads get the points of the step from the target. ``min_age_ms``: the
    minimum age of points that are offloaded.
    """

    def __init__(
        self,
        membership: FabricMembership,
        copies: Copies,
        offloaded: OffloadedPoints,
        min_age_ms: int,
        clock: Clock,
    ) -> None:
        self._membership = membership
        self._copies = copies
        self._offloaded = offloaded
        self._min_age_ms = min_age_ms
        self._clock = clock

    async def run(self, streams: Streams, every_s: float) -> None:
        """Advance the offloads every ``every_s`` seconds until cancelled."""

        async def advance() -> None:
            await self._advance_all(streams)

        await PeriodicTask(advance, Schedule("offload_round", every_s)).run()

    async def _advance_all(self, streams: Streams) -> None:
        for copy in self._copies.all():
            try:
                await self._advance(await streams.get(RAW), copy)
            except MistbowError as error:
                log.info("offload_delayed", to=copy.target, copy=copy.id, error=error.message)
            except Exception as error:
                # The offloads of the other copies continue.
                log.error("offload_failed", to=copy.target, copy=copy.id, exc_info=error)
        self._copies.refresh()

    async def _advance(self, raw: Stream, copy: Copy) -> None:
        offload = self._offloaded.of(copy)
        if offload is not None and offload.deleted_before < offload.before:
            await self._delete(raw, offload)
        elif copy.offload and self._copies.may_offload(copy):
            await self._begin_step(raw, copy, offload)

    async def _begin_step(self, raw: Stream, copy: Copy, offload: Offload | None) -> None:
        now = self._clock()
        leases = raw.log.retention_leases(now).values()
        min_age = max([self._min_age_ms, *(retain_ms for retain_ms, _ in leases)])
        to = now - min_age
        if offload is not None and to - offload.to < min_age // _STEPS:
            return
        progress = await self._confirmed(copy.target, copy.id)
        if progress is None or (offload is not None and offload.replica != progress.instance):
            return
        begin = 0 if offload is None else offload.before
        before = _step_end(raw.log.index, begin, to, progress.position)
        async with self._offloaded.changing:
            # The copy may have been withdrawn meanwhile.
            if before > begin and copy in self._copies.all():
                step = Offload(
                    id=copy.id,
                    target=copy.target,
                    replica=progress.instance,
                    to=to,
                    before=before,
                    filter=copy.filter,
                    deleted_before=begin,
                )
                await self._offloaded.record(step.attributes())

    async def _confirmed(self, target: str, copy_id: str) -> ReplicaProgress | None:
        """Return the progress of the replica at the target, if points may be deleted here.

        Returns None if the replica is deleted, incomplete, not durable, or not a replica of this
        store.
        """
        query = urlencode({"site": target, "of": self._membership.site, "id": copy_id})
        path = f"/replication/held?{query}".encode()
        try:
            progress = await fetch(self._membership.network, target, path, ReplicaProgress)
        except NotFoundError:
            return None  # it was deleted there
        is_safe = progress.complete and progress.durable and progress.store == self._offloaded.store
        return progress if is_safe else None

    async def _delete(self, raw: Stream, offload: Offload) -> None:
        # Reads that began before the record find these points here only. How long they take is
        # unrelated to the age of the points, so the reads themselves are waited for.
        if self._offloaded.has_earlier_reads(offload):
            return
        # The replica may have been lost since the record, and all points are still here.
        progress = await self._confirmed(offload.target, offload.id)
        if (
            progress is None
            or progress.position < offload.before
            or progress.instance != offload.replica
        ):
            await self._revert(offload)
            return
        columns, keys = _deletion_keys(offload)
        try:
            await raw.writer.delete(
                columns, keys, None, offload.to, before=offload.before, local=True
            )
        except ConflictError:
            # A run has them together with later points: the next step moves both.
            await self._revert(offload)
            raise
        async with self._offloaded.changing:
            if self._offloaded.all().get((offload.target, offload.id)) == offload:
                done = msgspec.structs.replace(offload, deleted_before=offload.before)
                await self._offloaded.record(done.attributes())
        log.info(
            "points_offloaded",
            to=offload.target,
            copy=offload.id,
            until=offload.to,
            before=offload.before,
        )

    async def _revert(self, offload: Offload) -> None:
        """Undo the last step of an offload, whose points are still stored at this site.

        Afterwards, reads get these points from this site again.
        """
        async with self._offloaded.changing:
            if self._offloaded.all().get((offload.target, offload.id)) == offload:
                reverted = msgspec.structs.replace(offload, before=offload.deleted_before)
                await self._offloaded.record(
                    reverted.attributes() if offload.deleted_before else offload.removal()
                )


def _step_end(index: Index, begin: int, created: int, position: int) -> int:
    """Return the position after the segments and runs that the next step of an offload includes.

    The step begins at the position ``begin``. The step includes segments and runs that were created
    before the time ``created`` (ms), and that end at the position ``position`` or before.
    """
    end = begin
    for entry in index.entries_from(begin):
        if entry.created >= created or entry.next > position:
            break
        end = entry.next
    return end


def _deletion_keys(offload: Offload) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return (columns, keys): the series of an offload, as values of these columns.

    Columns and keys are empty if all series are offloaded.
    """
    fields = {"metric": offload.filter.metric, "entity": offload.filter.entity}
    given = {name: values for name, values in fields.items() if values}
    return tuple(given), list(itertools.product(*given.values())) if given else []
