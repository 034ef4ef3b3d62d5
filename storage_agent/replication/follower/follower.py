"""The follower: stores the replicas for the copies that have this site as their target."""

import asyncio
import contextlib
import shutil
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from urllib.parse import quote, urlencode

import pyarrow as pa

from mistbow.client.operation_model import Copy, ReplicaFact
from mistbow.clock import Clock
from mistbow.errors import (
    ConflictError,
    LostDataError,
    MistbowError,
    NotFoundError,
    TooLargeError,
    UnavailableError,
)
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.runtime.tasks import cancel_and_wait
from mistbow.streams.models import (
    StreamInfo,
)
from mistbow.streams.schemas import METADATA, POINTS, RAW
from mistbow.streams.wire import Chunk, read_schema
from mistbow.telemetry import get_logger
from storage_agent.decay import DecayingCount
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.facts import REPLICAS
from storage_agent.membership.journal import STORE
from storage_agent.membership.network import PeerRequest
from storage_agent.membership.peer_streams import fetch, follow_chunks, follow_while_reachable
from storage_agent.replication.facts import (
    MAX_COPIES,
    copies_of,
    replaces,
    replica_stream_name,
)
from storage_agent.replication.follower.replica import (
    FollowState,
    Replica,
    is_half_made,
    open_replica,
)
from storage_agent.replication.policy.read_counts import HALF_LIFE_MS
from storage_agent.streams.streams import Streams

log = get_logger(__name__)

_INTERVAL_S = 0.5
_PAUSED_S = 5.0
_MAKE_S = 2.0
"""The time (s) of a round after which it creates no further replica of the same source."""

_MAX_SCHEMA_BYTES = 8 * 2**20

_Key = tuple[str, str]
"""The key of a replica: (source site, id of the copy)."""


class Follower:
    """Creates, updates and deletes the replicas at this site, and publishes facts about them.

    ``home``: a folder on the disk that stores the replicas. ``min_free``: while the disk has fewer
    free bytes, no replica is created, and replicas receive no rows. ``replaces``: see ``History``.
    """

    def __init__(
        self,
        membership: FabricMembership,
        home: Path,
        min_free: int,
        clock: Clock,
        *,
        replaces: bool = False,
    ) -> None:
        self._membership = membership
        self._home = home
        self._min_free = min_free
        self._clock = clock
        self._replaces = replaces
        self._streams: Streams | None = None
        self._replicas: dict[_Key, Replica] = {}
        self._reads: dict[_Key, DecayingCount] = {}
        self._following: dict[_Key, asyncio.Task[None]] = {}
        # The copies whose replicas failed with an error that was logged.
        self._failed: set[_Key] = set()
        self._excessive: set[str] = set()
        # Taken to make or to delete replicas.
        self._changing = asyncio.Lock()

    def open(self, streams: Streams) -> None:
        """Recover the replicas from the streams of this site."""
        self._streams = streams
        for stream in streams.all():
            if (replica := open_replica(stream, self._clock, replaces=self._replaces)) is not None:
                self._replicas[replica.source, replica.copy.id] = replica

    def replicas(self, source: str | None = None) -> list[Replica]:
        """Return the replicas of the site ``source``; None: the replicas of all sites."""
        return [each for _, each in sorted(self._replicas.items()) if source in (None, each.source)]

    def facts(self) -> tuple[ReplicaFact, ...]:
        """Return the facts to publish about the replicas at this site."""
        return tuple(
            ReplicaFact(
                source=replica.source,
                id=replica.copy.id,
                stream=replica.copy.stream,
                filter=replica.copy.filter,
                withheld=replica.copy.withheld,
                complete=replica.complete,
                deleted=replica.deleted,
                # The encoder omits the default only if it is this str, and no member of the enum.
                state=(replica.state if replica.state.is_problem else FollowState.FOLLOWING).value,
                reads=self._reads_per_minute(replica),
                instance=replica.instance,
            )
            for replica in self.replicas()
        )

    def check(self, replica: Replica) -> None:
        """Raise ``LostDataError`` if Ignite has lost rows of a replica."""
        assert self._streams is not None  # noqa: S101 - open() found the replica
        self._streams.check(replica.name)

    def is_refused(self, replica: Replica) -> bool:
        """Return whether reads of a replica are refused, since Ignite has lost rows of it."""
        try:
            self.check(replica)
        except LostDataError:
            return True
        return False

    async def delete(self, source: str, copy_id: str, *, force: bool) -> None:
        """Delete a replica that its source no longer requests, or whose source is unreachable.

        Raises ``NotFoundError`` if the replica does not exist. Raises ``ConflictError`` if the
        source is reachable and still requests the copy. Raises ``ConflictError`` also if ``force``
        is False, since the replica may have the only copy of its rows.
        """
        async with self._changing:
            replica = self._replicas.get((source, copy_id))
            if replica is None:
                raise NotFoundError(
                    f"this site stores no replica {copy_id} of the site {source}",
                    hint="GET /replication lists the replicas.",
                )
            reachable = self._membership.peers.reachable(source)
            if reachable and (source, copy_id) in self._desired():
                raise ConflictError(
                    f"the site {source} can be reached, and still has the copy of this replica",
                    hint=f"DELETE /replication/copies/{copy_id}?site={source}"
                    f"&target={self._membership.site} withdraws the copy.",
                )
            if not force:
                raise ConflictError(
                    f"the {replica.rows} rows of this replica may be the only remaining rows of "
                    f"the site {source}",
                    hint="Add ?force=true to delete these rows permanently.",
                )
            log.warning("replica_deletion_requested", source=source, stream=replica.name)
            await self._stop((source, copy_id))
            await self._delete((source, copy_id), replica)
            self._publish()

    def count_read(self, replica: Replica) -> None:
        """Count a read of a replica."""
        key = replica.source, replica.copy.id
        count = self._reads.get(key, DecayingCount())
        self._reads[key] = count.plus(1.0, self._clock(), HALF_LIFE_MS)

    def free_bytes(self) -> int:
        """Return the free space of this site's disk (bytes)."""
        folder = self._home.absolute()
        while not folder.exists():
            folder = folder.parent
        return shutil.disk_usage(folder).free

    async def run(self) -> None:
        """Reconcile the replicas with the published copies, periodically until cancelled."""
        try:
            schedule = Schedule("replica_reconciliation", _INTERVAL_S)
            await PeriodicTask(self.reconcile, schedule).run()
        finally:
            await cancel_and_wait(self._following.values())

    async def reconcile(self) -> None:
        """Follow the copies whose target is this site; delete the replicas of withdrawn copies."""
        async with self._changing:
            await self._reconcile(self._desired())
            self._publish()

    async def _reconcile(self, desired: dict[_Key, Copy]) -> None:
        self._failed &= desired.keys()
        for key, replica in list(self._replicas.items()):
            if key not in desired:
                await self._stop(key)
                if self._is_withdrawn(replica) and self._is_replaced(replica, desired):
                    # A refused stream cannot be deleted now; the other replicas continue.
                    with contextlib.suppress(LostDataError):
                        await self._delete(key, replica)
        starting: dict[str, list[Copy]] = {}
        for (source, copy_id), copy in desired.items():
            # A deleted replica of an unreachable site is not created again.
            is_possible = (source, copy_id) in self._replicas or self._membership.peers.reachable(
                source
            )
            if is_possible and (source, copy_id) not in self._following:
                starting.setdefault(source, []).append(copy)
        await asyncio.gather(*(self._start_all(*each) for each in starting.items()))
        await self._delete_half_made(desired)

    async def _delete_half_made(self, desired: dict[_Key, Copy]) -> None:
        """Delete the streams of replicas that were never registered and that no copy requests."""
        assert self._streams is not None  # noqa: S101 - this runs after open()
        names = {replica.name for replica in self._replicas.values()}
        names |= {replica_stream_name(source, copy) for (source, _), copy in desired.items()}
        for stream in self._streams.all():
            if stream.name not in names and is_half_made(stream):
                log.info("half_made_replica_deleted", stream=stream.name)
                with contextlib.suppress(NotFoundError, LostDataError):
                    await self._streams.delete(stream.name)

    async def _delete(self, key: _Key, replica: Replica) -> None:
        log.info("replica_deleted", source=replica.source, stream=replica.name)
        assert self._streams is not None  # noqa: S101 - open() found the replica
        try:
            with contextlib.suppress(NotFoundError):
                await self._streams.delete(replica.name)
        finally:
            # A failed deletion is tried again in the next round.
            if self._streams.find_open(replica.name) is not replica.stream:
                self._replicas.pop(key, None)

    async def _stop(self, key: _Key) -> None:
        if (following := self._following.pop(key, None)) is not None:
            await cancel_and_wait([following])

    async def _start_all(self, source: str, copies: list[Copy]) -> None:
        """Create the replicas of copies of one source, and follow it; the next round goes on."""
        end = time.monotonic() + _MAKE_S
        for copy in copies:
            if time.monotonic() > end:
                return
            await self._try_start(source, copy)

    async def _try_start(self, source: str, copy: Copy) -> None:
        """Create the replica of a copy and follow its source; log an error, and do not raise it.

        The source may have been stolen: it must not stop the replicas of other sites.
        """
        key = source, copy.id
        try:
            self._start(await self._make(source, copy))
        except MistbowError as error:
            log.info("replica_unavailable", source=source, stream=copy.stream, error=error.message)
        except Exception as error:
            if key not in self._failed:  # the next rounds fail too
                log.error(
                    "replica_failed",
                    source=source,
                    copy=copy.id,
                    stream=copy.stream,
                    exc_info=error,
                )
            self._failed.add(key)
        else:
            self._failed.discard(key)

    def _start(self, replica: Replica) -> None:
        following = follow_while_reachable(
            self._membership.peers,
            replica.source,
            replica.name,
            lambda on_chunk: self._follow(replica, on_chunk),
        )
        task = asyncio.create_task(following, name=f"replica {replica.name}")
        self._following[replica.source, replica.copy.id] = task

    def _desired(self) -> dict[_Key, Copy]:
        """Return the copies whose target is this site, of each source at most ``MAX_COPIES``.

        Copies with a replica come first, so that an excess of copies deletes no replica; then the
        published order decides.
        """
        desired: dict[_Key, Copy] = {}
        for peer in self._membership.peers:
            of_peer = {
                (peer.site, copy.id): copy
                for copy in copies_of(self._membership.facts_of(peer.site))
                if copy.target == self._membership.site
            }
            present = [key for key in of_peer if key in self._replicas]
            new = [key for key in of_peer if key not in self._replicas]
            accepted = present + new[: max(0, MAX_COPIES - len(present))]
            desired |= {key: of_peer[key] for key in accepted}
            if len(accepted) < len(of_peer) and peer.site not in self._excessive:
                self._excessive.add(peer.site)
                log.warning("copies_ignored", source=peer.site, copies=len(of_peer), max=MAX_COPIES)
        return desired

    def _is_withdrawn(self, replica: Replica) -> bool:
        """Return whether the source of a replica has withdrawn the copy of the replica.

        No published copy may request the replica. Returns False if the source has another store
        than before, because the source may have lost its list of copies with the old store.
        """
        store = self._membership.store_of(replica.source)
        return store is not None and replica.store in (None, store)

    def _is_replaced(self, replica: Replica, desired: dict[_Key, Copy]) -> bool:
        """Return whether a replica that no copy requests can be deleted now.

        If copies in ``desired`` replace the copy of ``replica``, ``replica`` waits until one of
        these copies has a complete replica at this site.
        """
        keys = [
            (source, copy.id)
            for (source, _), copy in desired.items()
            if source == replica.source and replaces(copy, replica.copy)
        ]
        found = [self._replicas[key] for key in keys if key in self._replicas]
        return not keys or any(each.complete for each in found)

    async def _make(self, source: str, copy: Copy) -> Replica:
        if (source, copy.id) not in self._replicas:
            if self._streams is None:
                raise UnavailableError("the agent is starting")
            if self.free_bytes() < self._min_free:
                raise UnavailableError(FollowState.DISK_FULL.value)
            name = replica_stream_name(source, copy)
            await self._streams.create(name, await self._fetch_schema(source, copy))
            stream = await self._streams.get(name)
            replica = Replica(source, copy, stream, self._clock, replaces=self._replaces)
            await replica.register()
            self._replicas[source, copy.id] = replica
        return self._replicas[source, copy.id]

    async def _fetch_schema(self, source: str, copy: Copy) -> pa.Schema:
        if copy.stream == RAW:
            return POINTS
        # An answer without rows begins with the schema nevertheless.
        target = f"/streams/{quote(copy.stream)}?site={source}&from=0&to=0".encode()
        call = PeerRequest(source, "GET", target)
        return read_schema(await self._membership.network.read(call, _MAX_SCHEMA_BYTES))

    async def _follow(self, replica: Replica, on_chunk: Callable[[], None]) -> None:
        network, source, copy = self._membership.network, replica.source, replica.copy
        if replica.missed_deletions or self.free_bytes() < self._min_free:
            missed = replica.missed_deletions
            replica.enter(FollowState.MISSED_DELETIONS if missed else FollowState.DISK_FULL)
            await asyncio.sleep(_PAUSED_S)
            return
        replica.enter(FollowState.WAITING)
        metadata = await fetch(network, source, _info_target(METADATA, source), StreamInfo)
        stream = await fetch(network, source, _info_target(copy.stream, source), StreamInfo)
        await replica.begin(str(metadata.attributes.get(STORE)), stream.first, stream.head)
        query = {
            "site": source,
            "target": self._membership.site,
            "id": copy.id,
            "from": replica.position,
            "follow": "true",
        }
        if replica.deleted is not None:
            query["deleted"] = replica.deleted
        target = f"/replication/feed?{urlencode(query)}".encode()
        try:
            async with aclosing(follow_chunks(network, source, target)) as chunks:
                async for chunk in chunks:
                    if chunk.rows.num_rows and self.free_bytes() < self._min_free:
                        return
                    await self._add(replica, chunk)
                    lost = replica.has_lost_rows
                    replica.enter(FollowState.LOST_ROWS if lost else FollowState.FOLLOWING)
                    on_chunk()
        except TooLargeError:
            # The source would send the same chunk again and again.
            replica.enter(FollowState.TOO_LARGE)
            await asyncio.sleep(_PAUSED_S)
        finally:
            replica.enter(FollowState.WAITING)

    async def _add(self, replica: Replica, chunk: Chunk) -> None:
        """Store a chunk; raise each ``TooLargeError``, but log only the first of a streak."""
        key = replica.source, replica.copy.id
        try:
            await replica.add(chunk)
        except TooLargeError as error:
            if key not in self._failed:
                log.error(
                    "replica_failed",
                    source=replica.source,
                    copy=replica.copy.id,
                    stream=replica.copy.stream,
                    position=replica.position,
                    bytes=chunk.rows.nbytes,
                    error=error.message,
                )
            self._failed.add(key)
            raise
        self._failed.discard(key)

    def _publish(self) -> None:
        self._membership.publish(REPLICAS, self.facts() or None)

    def _reads_per_minute(self, replica: Replica) -> int:
        """Return the reads per minute, rounded down to a power of 2 to avoid frequent changes."""
        count = self._reads.get((replica.source, replica.copy.id), DecayingCount())
        reads = int(count.per_minute(self._clock(), HALF_LIFE_MS))
        return 1 << (reads.bit_length() - 1) if reads else 0


def _info_target(stream: str, site: str) -> bytes:
    return f"/streams/{quote(stream)}/info?site={site}".encode()
