"""Holding what other sites want to be held here: their metadata says what."""

import asyncio
import contextlib
import shutil
from contextlib import aclosing
from pathlib import Path
from urllib.parse import quote, urlencode

import pyarrow as pa

from mistbow.client.agent_model import StreamInfo
from mistbow.clock import Clock
from mistbow.errors import (
    ConflictError,
    LostDataError,
    MistbowError,
    NotFoundError,
    UnavailableError,
)
from mistbow.streams.schemas import METADATA, POINTS, RAW
from mistbow.tasks import end
from mistbow.telemetry import get_logger
from storage_agent.fabric.following import ask, chunks_of, keep_following
from storage_agent.fabric.journal import STORE
from storage_agent.fabric.member import Member
from storage_agent.fabric.network import Outgoing
from storage_agent.replication.decaying import Decaying
from storage_agent.replication.reads import HALF_LIFE_MS
from storage_agent.replication.replica import Replica, is_half_made, kept_in
from storage_agent.replication.told import KEPT_KEY, Copy, Kept, copies_of, name_of, replaces
from storage_agent.streams.streams import Streams

log = get_logger(__name__)

_LOOK_S = 0.5
_ROOM_S = 5.0
_NO_ROOM = "no room on the disk"
_MISSED = "its source has forgotten what was deleted; withdraw it, and ask for it again"
_LOST = "rows of it are lost; withdraw it, and ask for it again"
_TROUBLES = (_NO_ROOM, _MISSED, _LOST)

_Wanted = dict[tuple[str, str], Copy]
"""Copies by the site that wants them and their id."""


class Puller:
    """Follows what is wanted here, and tells what is held."""

    def __init__(self, member: Member, home: Path, least_free: int, clock: Clock) -> None:
        self._member = member
        self._home = home
        self._least_free = least_free
        self._clock = clock
        self._streams: Streams | None = None
        self._held: dict[tuple[str, str], Replica] = {}
        self._reads: dict[tuple[str, str], Decaying] = {}
        self._pulling: dict[tuple[str, str], asyncio.Task[None]] = {}
        # Held by who makes or deletes replicas.
        self._changing = asyncio.Lock()

    def open(self, streams: Streams) -> None:
        """Recover what is held."""
        self._streams = streams
        for stream in streams.all():
            if (replica := kept_in(stream, self._clock)) is not None:
                self._held[replica.of, replica.copy.id] = replica

    def held(self, of: str | None = None) -> list[Replica]:
        """Return the replicas that are held, all or those of a site."""
        return [each for _, each in sorted(self._held.items()) if of in (None, each.of)]

    def kept(self) -> tuple[Kept, ...]:
        """Return what is said of the replicas that are held, as of now."""
        return tuple(
            Kept(
                of=replica.of,
                id=replica.copy.id,
                stream=replica.copy.stream,
                filter=replica.copy.filter,
                withheld=replica.copy.withheld,
                complete=replica.complete,
                deleted=replica.deleted,
                state=replica.state if replica.state in _TROUBLES else "following",
                reads=self._reads_of(replica),
                made=replica.made,
            )
            for replica in self.held()
        )

    def check(self, replica: Replica) -> None:
        """Raise ``LostDataError`` if Ignite has lost some of what a replica had."""
        assert self._streams is not None  # noqa: S101 - what is held was found by open()
        self._streams.check(replica.name)

    def has_lost(self, replica: Replica) -> bool:
        """Tell whether it has."""
        try:
            self.check(replica)
        except LostDataError:
            return True
        return False

    async def delete(self, of: str, copy_id: str, *, force: bool) -> None:
        """Delete a replica of a site that is gone; raises ``NotFoundError``.

        Raises ``ConflictError`` while its site is there and wants it, and without ``force``, for it
        may be all that is left.
        """
        async with self._changing:
            replica = self._held.get((of, copy_id))
            if replica is None:
                raise NotFoundError(
                    f"no replica {copy_id} of {of} is held here",
                    hint="GET /replication lists them.",
                )
            there = self._member.neighbours.reachable(of)
            if there and (of, copy_id) in self._wanted():
                raise ConflictError(
                    f"{of} can be reached, and wants this replica",
                    hint=f"DELETE /replication/copies/{copy_id}?site={of}"
                    f"&target={self._member.site} withdraws it there.",
                )
            if not force:
                raise ConflictError(
                    f"{replica.rows} rows of {of} are in this replica, and perhaps nowhere else",
                    hint="To delete them for good, add ?force=true.",
                )
            log.warning("a replica is deleted by request", of=of, stream=replica.name)
            await self._stop((of, copy_id))
            await self._drop((of, copy_id), replica)
            self._tell()

    def count_read(self, replica: Replica) -> None:
        """Take note that a replica was read here."""
        key = replica.of, replica.copy.id
        count = self._reads.get(key, Decaying())
        self._reads[key] = count.plus(1.0, self._clock(), HALF_LIFE_MS)

    def room(self) -> int:
        """Return the bytes that are free on this site's disk."""
        folder = self._home.absolute()
        while not folder.exists():
            folder = folder.parent
        return shutil.disk_usage(folder).free

    async def run(self) -> None:
        """Hold what is wanted, for ever."""
        try:
            while True:
                try:
                    await self.follow_wishes()
                except MistbowError as error:
                    log.info("replicas are not looked after", error=error.message)
                except Exception as error:
                    log.error("replicas are not looked after", exc_info=error)
                await asyncio.sleep(_LOOK_S)
        finally:
            await end(self._pulling.values())

    async def follow_wishes(self) -> None:
        """Begin to hold what is wanted here now, and give up what is not any more."""
        async with self._changing:
            await self._follow(self._wanted())
            self._tell()

    async def _follow(self, wanted: _Wanted) -> None:
        for key, replica in list(self._held.items()):
            if key not in wanted:
                await self._stop(key)
                if self._is_withdrawn(replica) and self._is_replaced(replica, wanted):
                    # What cannot be deleted now, for Ignite has lost of it, keeps up nothing else.
                    with contextlib.suppress(LostDataError):
                        await self._drop(key, replica)
        for (site, copy_id), copy in wanted.items():
            # One of a site that is gone is not made anew when it was deleted.
            can_be = (site, copy_id) in self._held or self._member.neighbours.reachable(site)
            if can_be and (site, copy_id) not in self._pulling:
                try:
                    self._begin(await self._hold(site, copy))
                except MistbowError as error:
                    log.info("not replicated", of=site, stream=copy.stream, error=error.message)
        await self._drop_half_made(wanted)

    async def _drop_half_made(self, wanted: _Wanted) -> None:
        """Delete streams of replicas of which only the making began, and that nobody wants."""
        assert self._streams is not None  # noqa: S101 - this runs after open()
        made = {replica.name for replica in self._held.values()}
        made |= {name_of(site, copy) for (site, _), copy in wanted.items()}
        for stream in self._streams.all():
            if stream.name not in made and is_half_made(stream):
                log.info("a stream that was to be a replica is dropped", stream=stream.name)
                with contextlib.suppress(NotFoundError, LostDataError):
                    await self._streams.delete(stream.name)

    async def _drop(self, key: tuple[str, str], replica: Replica) -> None:
        log.info("a replica is dropped", of=replica.of, stream=replica.name)
        assert self._streams is not None  # noqa: S101 - what is held was found by open()
        try:
            with contextlib.suppress(NotFoundError):
                await self._streams.delete(replica.name)
        finally:
            # What could not be deleted is to be tried again.
            if self._streams.opened(replica.name) is not replica.stream:
                self._held.pop(key, None)

    async def _stop(self, key: tuple[str, str]) -> None:
        if (pulling := self._pulling.pop(key, None)) is not None:
            await end([pulling])

    def _begin(self, replica: Replica) -> None:
        pulling = keep_following(
            self._member.neighbours, replica.of, replica.name, lambda: self._pull(replica)
        )
        task = asyncio.create_task(pulling, name=f"replica {replica.name}")
        self._pulling[replica.of, replica.copy.id] = task

    def _wanted(self) -> _Wanted:
        return {
            (known.site, copy.id): copy
            for known in self._member.neighbours
            for copy in copies_of(self._member.told_by(known.site))
            if copy.target == self._member.site
        }

    def _is_withdrawn(self, replica: Replica) -> bool:
        """Tell whether its site says no more that it wants it: not if that forgot all it said."""
        told = self._member.store(replica.of)
        return told is not None and replica.store in (None, told)

    def _is_replaced(self, replica: Replica, wanted: _Wanted) -> bool:
        """Tell whether what is wanted here in its place, if anything, is complete."""
        places = [
            (site, copy.id)
            for (site, _), copy in wanted.items()
            if site == replica.of and replaces(copy, replica.copy)
        ]
        held = [self._held[place] for place in places if place in self._held]
        return not places or any(each.complete for each in held)

    async def _hold(self, site: str, copy: Copy) -> Replica:
        if (site, copy.id) not in self._held:
            if self._streams is None:
                raise UnavailableError("the agent is starting")
            name = name_of(site, copy)
            await self._streams.create(name, await self._schema(site, copy))
            replica = Replica(site, copy, await self._streams.get(name), self._clock)
            await replica.take_up()
            self._held[site, copy.id] = replica
        return self._held[site, copy.id]

    async def _schema(self, site: str, copy: Copy) -> pa.Schema:
        if copy.stream == RAW:
            return POINTS
        # No rows; but the answer begins with the schema.
        target = f"/streams/{quote(copy.stream)}?site={site}&from=0&to=0".encode()
        answer = await self._member.network.send(Outgoing(site, "GET", target))
        with pa.ipc.open_stream(await answer.read()) as reader:
            return reader.schema

    async def _pull(self, replica: Replica) -> None:
        network, site, copy = self._member.network, replica.of, replica.copy
        if replica.missed or self.room() < self._least_free:
            replica.state = _MISSED if replica.missed else _NO_ROOM
            await asyncio.sleep(_ROOM_S)
            return
        replica.state = "waiting for its site"
        about = await ask(network, site, _info(METADATA, site), StreamInfo)
        source = await ask(network, site, _info(copy.stream, site), StreamInfo)
        await replica.begin(str(about.attributes.get(STORE)), source.first, source.head)
        question = {
            "site": site,
            "target": self._member.site,
            "id": copy.id,
            "from": replica.position,
            "follow": "true",
        }
        if replica.deleted is not None:
            question["deleted"] = replica.deleted
        target = f"/replication/feed?{urlencode(question)}".encode()
        try:
            async with aclosing(chunks_of(network, site, target)) as chunks:
                async for chunk in chunks:
                    replica.state = _LOST if replica.lost else "following"
                    if chunk.rows.num_rows and self.room() < self._least_free:
                        return
                    await replica.add(chunk)
        finally:
            replica.state = "waiting for its site"

    def _tell(self) -> None:
        self._member.tell(KEPT_KEY, self.kept() or None)

    def _reads_of(self, replica: Replica) -> int:
        count = self._reads.get((replica.of, replica.copy.id), Decaying())
        often = int(count.per_minute(self._clock(), HALF_LIFE_MS))
        return 1 << (often.bit_length() - 1) if often else 0


def _info(stream: str, site: str) -> bytes:
    return f"/streams/{quote(stream)}/info?site={site}".encode()
