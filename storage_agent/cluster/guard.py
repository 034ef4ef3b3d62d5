"""Refusing streams that are shorter than they were known to be, until they are whole again.

A node of Ignite that was away comes back with what it had; when the others die before it has caught
up, Ignite serves that, without an error. So an agent compares each stream's head with the highest
that it, or a replica of the stream at another site, remembers. A stream that is below is neither
read nor written; all others are.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from mistbow.client.agent_model import StreamInfo
from mistbow.clock import Clock
from mistbow.errors import (
    ConflictError,
    InvalidRequestError,
    LostDataError,
    MistbowError,
    NotFoundError,
    UnavailableError,
)
from mistbow.streams.events import event_rows
from mistbow.streams.schemas import METADATA, RAW
from mistbow.telemetry import get_logger
from storage_agent import metrics
from storage_agent.cluster.heads import Heads, Remembered
from storage_agent.cluster.repair import Repair, Repaired, as_part, nothing
from storage_agent.cluster.replica_rows import Part, ReplicaRows
from storage_agent.cluster.topology import keeps_on_disk, topology
from storage_agent.fabric.facts import Facts, read_facts
from storage_agent.fabric.following import ask
from storage_agent.fabric.journal import STORE
from storage_agent.fabric.member import Member
from storage_agent.fabric.replicas import POSITION
from storage_agent.ignite_client import METADATA as METADATA_CACHE
from storage_agent.ignite_client import IgniteClient
from storage_agent.monitoring.catalogue import APPLIED, SERIES
from storage_agent.replication.replica import note_loss
from storage_agent.replication.told import Copy, copies_of
from storage_agent.streams.log import StreamLog
from storage_agent.streams.state import State, StateCell
from storage_agent.streams.streams import REPLICAS, Stream, Streams, is_agents_own, is_over

log = get_logger(__name__)

_SAVE_S = 1.0
_LOOK_S = 0.5
_TOPOLOGY_S = 5.0
_HOLDERS_S = 3.0
"""Sites that hold replicas have so long to say what they remember before anything is claimed."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A stream that ends at ``head``, although ``by`` remembers it to go up to ``known``."""

    stream: str
    key: str
    head: int
    known: int
    by: str

    @property
    def words(self) -> str:
        """What is wrong."""
        return (
            f"the stream {self.stream} ends at {self.head}, but {self.by} remembers it up to "
            f"{self.known}: Ignite has lost what it had acknowledged"
        )

    def error(self) -> LostDataError:
        """Return what readers and writers are told."""
        return LostDataError(
            self.words,
            hint="docs/operations.md, 'A site of several machines', says how to repair it.",
            details={"stream": self.stream, "head": self.head, "remembered": self.known},
        )


class Guard:
    """Knows which streams are refused; ``home`` is the agent's folder."""

    def __init__(self, home: Path, ignite: IgniteClient, member: Member, clock: Clock) -> None:
        self._path = home / "agent" / "heads.json"
        self._heads = Heads(self._path)
        self._kept: Remembered | None = None
        self._of_this_boot = False
        self._over: set[str] = set()
        self._strange: str | None = None
        self._ignite = ignite
        self._member = member
        self._clock = clock
        self._streams: Streams | None = None
        self._losses: dict[str, Loss] = {}
        self._waiting = False
        self._due = 0.0
        self._whole = asyncio.Event()
        self._repairing = asyncio.Lock()

    @property
    def losses(self) -> list[Loss]:
        """What is refused, by name."""
        return [loss for _, loss in sorted(self._losses.items())]

    @property
    def held(self) -> Streams | None:
        """The streams, while the agent waits for some of its own to be whole again."""
        return self._streams if self._waiting else None

    @property
    def words(self) -> list[str]:
        """What is wrong with what Ignite has."""
        strange = [] if self._strange is None else [self._strange]
        return strange + [loss.words for loss in self.losses]

    def refuses(self, name: str) -> bool:
        """Tell whether a stream is refused."""
        return name in self._losses

    def check(self, name: str) -> None:
        """Raise ``LostDataError`` for a stream that is refused."""
        if name in self._losses:
            raise self._losses[name].error()

    async def meet(self, metadata: dict[str, Any]) -> None:
        """Remember what there was of the store that ``metadata``, the content of that cache, is of.

        Raises ``UnavailableError`` if it is another store: nothing may be compared, nor written.
        """
        on_disk, outlives_power = await keeps_on_disk(self._ignite)
        # Without FSYNC, a power cut may have taken what was acknowledged: that was agreed.
        self._of_this_boot = not outlives_power
        self._kept = self._heads.load(of_this_boot=self._of_this_boot) if on_disk else None
        store, known = self._store_in(metadata), self._kept and self._kept.store
        self._strange = None
        if known is None or store == known:
            return
        there = "no store" if store is None else f"the store {store}"
        self._strange = (
            f"Ignite at {self._ignite.name} has {there}, but this agent remembers the store "
            f"{known}: it is another Ignite, or all that it had is gone. To begin with this one "
            f"as it is, remove {self._path}"
        )
        if store is not None:
            raise UnavailableError(self._strange)

    def _store_in(self, metadata: dict[str, Any]) -> str | None:
        state = metadata.get(StateCell(self._ignite, METADATA).key)
        return None if state is None else _store_of(msgspec.json.decode(state, type=State))

    async def inspect(self, streams: Streams, metadata: dict[str, Any]) -> None:
        """Compare streams that were recovered from ``metadata`` with what is remembered.

        What is remembered here, and by the sites that hold replicas. Returns once those are whole
        that the agent itself cannot do without. Raises ``MistbowError``, also when it repaired
        some, for then all is to be recovered anew.
        """
        self._losses.clear()
        self._streams = streams
        streams.check = self.check
        logs = {stream.log.key: stream.log for stream in streams.all()}
        for key, known in ({} if self._kept is None else self._kept.heads).items():
            if key in logs:
                self._compare(logs[key], known, "this agent")
            elif is_over(metadata, key):
                self._over.add(key)
            else:
                self._lose(Loss(key.partition("@")[0], key, 0, known, "this agent"))
        await self._ask_holders()
        for loss in [loss for loss in self.losses if _is_followed(loss.stream)]:
            await self._follow_anew(loss)
        if not self._needed():
            await self._name_store()
            return
        self._waiting = True
        try:
            while self._needed():
                self._whole.clear()
                await self._whole.wait()
        finally:
            self._waiting = False
        raise UnavailableError("the streams are whole again; they are recovered anew")

    async def keep(self) -> None:
        """Remember heads, and ask other sites what they remember, for ever."""
        asked: set[str] = set()
        while True:
            await asyncio.sleep(_LOOK_S)
            await self.save()
            with contextlib.suppress(UnavailableError):
                await self._look()
            reachable = self._reachable()
            asked &= reachable
            asked |= {site for site in sorted(reachable - asked) if await self._heard(site)}
            await asyncio.sleep(_SAVE_S - _LOOK_S)

    async def _look(self) -> None:
        """See whether Ignite has lost anything, where that can be without this agent noticing."""
        if self._ignite.several:
            await self._ignite.look()
        now = time.monotonic()
        if now >= self._due:
            self._due = now + (_TOPOLOGY_S if self._ignite.several else math.inf)
            await topology(self._ignite)

    async def save(self) -> None:
        """Remember the heads as they are now; of what is refused, as they were."""
        store = None if self._streams is None else await self._store()
        # What is in memory only is not remembered; what has no name yet has nothing to lose.
        if self._streams is None or store is None or self._kept is None:
            return
        heads = {
            stream.log.key: stream.log.head
            for stream in self._streams.all()
            if stream.name not in self._losses
        }
        known = {loss.key: loss.known for loss in self._losses.values()}
        now, over, boot = {**heads, **known}, self._over, self._of_this_boot
        try:
            await asyncio.to_thread(self._heads.save, store, now, over, of_this_boot=boot)
        except (OSError, MistbowError) as error:
            log.warning("the heads of the streams are not remembered", error=repr(error))
        else:
            self._over = set()

    async def repair(self, name: str, site: str | None) -> Repaired:
        """Make a stream whole from its replica at a site; None: what is lost is lost.

        Raises ``ConflictError`` for a stream that lost nothing, ``MistbowError`` if it cannot.
        """
        async with self._repairing:
            if self._streams is None or name not in self._losses:
                raise ConflictError(f"the stream {name} is not known to have lost anything")
            loss = self._losses[name]
            rows = None if site is None else await self._replica(site, name)
            stream = await self._stream(name, rows)
            done = Repaired() if stream is None else await self._fill(stream.log, loss, rows)
            if rows is None and stream is not None and name.startswith(REPLICAS):
                await note_loss(stream)
            if name == RAW:
                await self._ignite.put(METADATA_CACHE, APPLIED, str(loss.head).encode())
            log.warning("repaired", stream=name, missing=done.missing, restored=done.restored)
            self._settle(name)
            self._whole.set()
            return done

    async def _fill(self, stream: StreamLog, loss: Loss, rows: ReplicaRows | None) -> Repaired:
        if rows is None:
            return await Repair(stream, self._ignite, self._clock, loss.known).fill(nothing())
        facts = await rows.facts()
        if loss.stream == METADATA:
            parts = _of_one(await self._facts_missing(facts), stream.head, loss.known)
            return await Repair(stream, self._ignite, self._clock, loss.known).fill(parts)
        series = [] if loss.stream != RAW else _series(facts)
        repair = Repair(stream, self._ignite, self._clock, loss.known, series)
        return await repair.fill(rows.parts(stream.head))

    async def _facts_missing(self, facts: Facts) -> pa.RecordBatch:
        stream = await self._stream(METADATA, None)
        now = {} if stream is None else await read_facts(stream)
        changed = {key: event for key, event in facts.items() if now.get(key) != event}
        return event_rows(self._clock(), changed)

    async def _replica(self, site: str, name: str) -> ReplicaRows:
        if site == self._member.site:
            raise InvalidRequestError("from: it is this site itself")
        try:
            rows = await ReplicaRows(self._member.network, site, name).open()
        except NotFoundError as error:
            raise NotFoundError(
                f"{site} has no replica of {name}: {error.message}",
                hint="GET /replication tells which sites have one.",
            ) from error
        own = await self._store()
        if own is not None and rows.store != own:
            raise ConflictError(f"the replica at {site} is of another store than this one")
        return rows

    async def _stream(self, name: str, rows: ReplicaRows | None) -> Stream | None:
        """Return a stream; None if nothing is left of it, not even what its rows are."""
        assert self._streams is not None  # noqa: S101 - asked before
        found = self._streams.opened(name)
        if found is None and rows is not None:
            return await self._streams.restore(name, await rows.schema())
        return found

    async def _ask_holders(self) -> None:
        """Ask the sites that there are, and wait a little for those that hold replicas."""
        if await self._store() is None:
            return  # nobody can have a replica of a store without a name
        about = await self._stream(METADATA, None)
        facts = {} if about is None else await read_facts(about)
        holders = {copy.target for copy in copies_of(facts)}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_HOLDERS_S):
                while not holders <= self._reachable():
                    await self._member.neighbours.changed().wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_HOLDERS_S):
                await asyncio.gather(*map(self._heard, sorted(self._reachable())))

    def _reachable(self) -> set[str]:
        return {each.site for each in self._member.neighbours if each.address}

    async def _heard(self, site: str) -> bool:
        """Ask a site what it remembers; returns whether it said so."""
        try:
            await self._ask(site)
        except MistbowError as error:
            log.info("not asked what it remembers", site=site, error=error.message)
            return False
        except Exception as error:
            # Whatever another agent answers: heads must go on being remembered.
            log.error("not asked what it remembers", site=site, exc_info=error)
            return False
        return True

    async def _ask(self, site: str) -> None:
        """Hear how far a site's replicas of this site's streams are."""
        if self._streams is None:
            return
        target = f"/streams?site={site}".encode()
        told = await ask(self._member.network, site, target, dict[str, list[StreamInfo]])
        prefix, own = f"{REPLICAS}{self._member.site}/", await self._store()
        for each in told.get("streams", ()):
            if not each.name.startswith(prefix):
                continue
            stream = self._source_of(each, each.name.removeprefix(prefix))
            if stream is None:
                continue
            if own is not None and each.attributes.get(STORE) == own:
                self._compare(stream.log, _position(each), site)

    def _source_of(self, replica: StreamInfo, name: str) -> Stream | None:
        """Return the stream that a replica has all rows of, unless it was made again since."""
        assert self._streams is not None  # noqa: S101 - asked before
        told = replica.attributes.get("copy")
        if told is None:
            return self._streams.opened(name)
        copy = msgspec.json.decode(told, type=Copy)
        stream = self._streams.opened(copy.stream)
        if not copy.filter.all or copy.withheld or stream is None:
            return None
        return stream if stream.incarnation == copy.incarnation else None

    async def _store(self) -> str | None:
        assert self._streams is not None  # noqa: S101 - asked before
        about = self._streams.opened(METADATA)
        return None if about is None else _store_of(about.log.state.current)

    async def _name_store(self) -> None:
        """Have a store that lost even its name be known by it again: its numbers go on."""
        about = await self._stream(METADATA, None)
        known = None if self._kept is None else self._kept.store
        if about is not None and known is not None and await self._store() is None:
            await _note(about, {STORE: known})
        self._strange = None

    def _compare(self, stream: StreamLog, known: int, by: str) -> None:
        if stream.head < known:
            self._lose(Loss(stream.name, stream.key, stream.head, known, by))

    def _lose(self, loss: Loss) -> None:
        before = self._losses.get(loss.stream)
        if before is None or before.known < loss.known:
            log.critical(loss.words)
            self._losses[loss.stream] = loss
            metrics.REFUSED.set(len(self._losses))

    async def _follow_anew(self, loss: Loss) -> None:
        """Have what another site says of itself read again from its begin: that site has it all."""
        stream = await self._stream(loss.stream, None)
        if stream is not None:
            # First: once it is filled, nothing shows any more that it is to be read again.
            await _note(stream, {STORE: None, POSITION: 0})
            await self._fill(stream.log, loss, None)
        self._settle(loss.stream)

    def _settle(self, name: str) -> None:
        del self._losses[name]
        metrics.REFUSED.set(len(self._losses))

    def _needed(self) -> bool:
        """Tell whether a stream is refused that the agent itself writes: without it, it cannot."""
        own = (name for name in self._losses if is_agents_own(name))
        return any(not name.startswith(REPLICAS) for name in own)


def _is_followed(name: str) -> bool:
    """Tell whether a stream holds what another site says of itself."""
    return name.startswith(REPLICAS) and name.endswith(f"/{METADATA}")


async def _note(stream: Stream, attributes: dict[str, str | int | None]) -> None:
    """Change attributes of a stream whose writer may refuse."""

    def change(state: State) -> State:
        merged = {**state.attributes, **attributes}
        kept = {name: value for name, value in merged.items() if value is not None}
        return msgspec.structs.replace(state, attributes=kept)

    await stream.log.state.update(change)


def _store_of(state: State) -> str | None:
    store: str | None = state.attributes.get(STORE)
    return store


def _position(replica: StreamInfo) -> int:
    """Return the number of the source up to which a replica is."""
    noted = replica.attributes
    if POSITION in noted:
        return int(noted[POSITION])
    return replica.frontier - int(noted.get("base", 0)) if "of" in noted else 0


def _series(facts: Facts) -> list[dict[str, Any]]:
    return [msgspec.json.decode(event) for key, event in facts.items() if key.startswith(SERIES)]


async def _of_one(rows: pa.RecordBatch, start: int, stop: int) -> AsyncIterator[Part]:
    yield as_part(rows.slice(0, stop - start), start)
