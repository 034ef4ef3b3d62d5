"""The loss guard: refuses a stream whose head is below a remembered head, until its repair.

An Ignite node that was offline restarts with its old data. If the other nodes fail before this node
has caught up, Ignite serves the old data without an error. Therefore an agent compares the head of
each stream with the greatest head that the agent, or a replica at another site, remembers. Reads
and writes of a stream with a smaller head are refused; all other streams are served.
"""

import asyncio
import contextlib
import math
import time
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from mistbow.clock import Clock
from mistbow.errors import ConflictError, MistbowError, UnavailableError
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.streams.schemas import METADATA
from mistbow.telemetry import get_logger
from storage_agent.cluster.log_fill import RepairResult
from storage_agent.cluster.losses import Loss, LossRegister, StreamState
from storage_agent.cluster.remembered_heads import HeadFile, RememberedHeads
from storage_agent.cluster.replica_heads import ReplicaHeads, compare_head, own_store, store_of
from storage_agent.cluster.stream_repair import StreamRepair, set_attributes
from storage_agent.cluster.topology import read_durability, read_topology
from storage_agent.ignite.client import IgniteClient
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.journal import STORE
from storage_agent.streams.state import State, StateCell
from storage_agent.streams.streams import (
    REPLICA_PREFIX,
    Streams,
    is_internal,
    is_metadata_replica,
    is_stream_deleted,
)
from storage_agent.work_threads import upkeep_beside

log = get_logger(__name__)

_SAVE_S = 1.0
_DELAY_S = 0.5
_TOPOLOGY_S = 5.0


class LossGuard:
    """Detects lost rows, and refuses reads and writes of the streams that lost rows.

    ``home``: the agent's folder. During each recovery, the agent must call ``identify_store`` and
    then ``inspect``. After the recovery, the periodic task ``checks`` saves the heads and detects
    further losses.
    """

    def __init__(
        self, home: Path, ignite: IgniteClient, membership: FabricMembership, clock: Clock
    ) -> None:
        self._path = home / "agent" / "heads.json"
        self._file = HeadFile(self._path)
        self._remembered: RememberedHeads | None = None
        self._of_this_boot = False
        self._deleted: set[str] = set()
        self._wrong_store: str | None = None
        self._ignite = ignite
        self._membership = membership
        self._clock = clock
        self._streams: Streams | None = None
        # Saves the heads, and detects lost rows.
        self.checks = PeriodicTask(self._check, Schedule("loss_check", _SAVE_S, delay_s=_DELAY_S))
        self._register = LossRegister()
        self._replica_heads = ReplicaHeads(membership, self._register)
        self._awaits_repair = False
        self._repaired = asyncio.Event()
        self._repairing = asyncio.Lock()
        self._next_topology = 0.0

    @property
    def losses(self) -> list[Loss]:
        """The losses that were detected, ordered by the names of the refused streams."""
        return self._register.all()

    @property
    def streams_awaiting_repair(self) -> Streams | None:
        """The recovered streams, while the agent waits for a repair; otherwise None.

        The agent waits if a stream that the agent itself writes has lost rows.
        """
        return self._streams if self._awaits_repair else None

    @property
    def problems(self) -> list[str]:
        """Messages that describe problems with the data in Ignite."""
        wrong_store = [] if self._wrong_store is None else [self._wrong_store]
        return wrong_store + [loss.message for loss in self.losses]

    def is_refused(self, name: str) -> bool:
        """Return whether reads and writes of a stream are refused."""
        return self._register.state(name) is not StreamState.WHOLE

    def check(self, name: str) -> None:
        """Raise ``LostDataError`` if a stream is refused because it lost rows."""
        self._register.check(name)

    async def identify_store(self, metadata: dict[str, Any]) -> None:
        """Load the remembered heads, and check that they belong to the store in Ignite.

        ``metadata``: the content of Ignite's cache ``metadata``. Raises ``UnavailableError`` if
        Ignite has another store: heads of different stores cannot be compared, and the agent must
        not write to a store that it does not know.
        """
        is_persistent, survives_power_cut = await read_durability(self._ignite)
        # Without FSYNC, rows may be lost by a power cut: the user has accepted that.
        self._of_this_boot = not survives_power_cut
        self._remembered = (
            self._file.load(of_this_boot=self._of_this_boot) if is_persistent else None
        )
        store = self._store_in(metadata)
        remembered = self._remembered and self._remembered.store
        self._wrong_store = None
        if remembered is None or store == remembered:
            return
        found = "no store" if store is None else f"the store {store}"
        self._wrong_store = (
            f"Ignite at {self._ignite.name} has {found}, but this agent remembers the store "
            f"{remembered}. Ignite was replaced, or lost all of its data. To use this Ignite "
            f"with its present data, remove {self._path}"
        )
        if store is not None:
            raise UnavailableError(self._wrong_store)

    def _store_in(self, metadata: dict[str, Any]) -> str | None:
        state = metadata.get(StateCell(self._ignite, METADATA).key)
        return None if state is None else store_of(msgspec.json.decode(state, type=State))

    async def inspect(self, streams: Streams, metadata: dict[str, Any]) -> None:
        """Compare the heads of recovered streams with the heads that agent and replicas remember.

        ``metadata``: the content of Ignite's cache ``metadata``. If streams that the agent itself
        writes have lost rows, waits until these streams are repaired, then raises
        ``UnavailableError``; the caller must then recover the streams again. Raises another
        ``MistbowError`` if the comparison fails.
        """
        self._register.clear()
        self._streams = streams
        self._compare_remembered(streams, metadata)
        await self._replica_heads.compare_all(streams)
        for loss in [loss for loss in self.losses if is_metadata_replica(loss.stream)]:
            with self._register.repairing(loss.stream):
                await self._repair(streams).refollow(loss)
        if not self._lacks_own_stream():
            await self._restore_store_name(streams)
            return
        self._awaits_repair = True
        try:
            while self._lacks_own_stream():
                self._repaired.clear()
                await self._repaired.wait()
        finally:
            self._awaits_repair = False
        raise UnavailableError(
            "after a repair of streams, the agent must recover all streams again"
        )

    def _compare_remembered(self, streams: Streams, metadata: dict[str, Any]) -> None:
        logs = {stream.log.key: stream.log for stream in streams.all()}
        heads = {} if self._remembered is None else self._remembered.heads
        for key, head in heads.items():
            if key in logs:
                compare_head(logs[key], head, "this agent", self._register)
            elif is_stream_deleted(metadata, key):
                self._deleted.add(key)
            else:
                self._register.add(Loss(key.partition("@")[0], key, 0, head, "this agent"))

    async def _check(self) -> None:
        await self.save()
        with contextlib.suppress(UnavailableError):
            await self._check_ignite()
        if self._streams is not None:
            await self._replica_heads.compare_new(self._streams)

    async def _check_ignite(self) -> None:
        """Detect a loss of data in Ignite that did not interrupt this agent's connection.

        Also updates the metrics of Ignite's nodes.
        """
        if self._ignite.has_several_nodes:
            await self._ignite.check_content()
        now = time.monotonic()
        if now >= self._next_topology:
            interval = _TOPOLOGY_S if self._ignite.has_several_nodes else math.inf
            self._next_topology = now + interval
            await read_topology(self._ignite)

    async def save(self) -> None:
        """Save the present head of each stream; for a refused stream, save the remembered head."""
        store = None if self._streams is None else own_store(self._streams)
        # Without persistence no head is remembered; a store without a name has no data to lose.
        if self._streams is None or store is None or self._remembered is None:
            return
        heads = {
            stream.log.key: stream.log.head
            for stream in self._streams.all()
            if not self.is_refused(stream.name)
        }
        heads |= {loss.key: loss.remembered for loss in self.losses}
        deleted, boot = self._deleted, self._of_this_boot
        try:
            save = partial(self._file.save, store, heads, deleted, of_this_boot=boot)
            await upkeep_beside(save)
        except (OSError, MistbowError) as error:
            log.warning("head_save_failed", error=repr(error))
        else:
            self._deleted = set()

    async def repair(self, name: str, site: str | None) -> RepairResult:
        """Repair a stream that lost rows; return the numbers of missing and of restored rows.

        ``site``: restore the rows from the replica at this site; None: accept the loss. Raises
        ``ConflictError`` if the stream lost no rows, or another ``MistbowError`` if the repair
        fails.
        """
        async with self._repairing:
            if self._streams is None:
                raise ConflictError(f"the stream {name} has lost no rows")
            with self._register.repairing(name) as loss:
                result = await self._repair(self._streams).repair(loss, site)
                log.warning(
                    "stream_repaired",
                    stream=name,
                    missing=result.missing,
                    restored=result.restored,
                )
            self._repaired.set()
            return result

    def _repair(self, streams: Streams) -> StreamRepair:
        return StreamRepair(streams, self._ignite, self._membership, self._clock)

    async def _restore_store_name(self, streams: Streams) -> None:
        """If Ignite lost the name of the store, store the remembered name again.

        The positions that other sites remember for this store then remain valid.
        """
        metadata = streams.find_open(METADATA)
        remembered = None if self._remembered is None else self._remembered.store
        if metadata is not None and remembered is not None and own_store(streams) is None:
            await set_attributes(metadata, {STORE: remembered})
        self._wrong_store = None

    def _lacks_own_stream(self) -> bool:
        """Return whether a stream that the agent itself writes is refused; ignore replicas."""
        return any(
            is_internal(loss.stream) and not loss.stream.startswith(REPLICA_PREFIX)
            for loss in self.losses
        )
