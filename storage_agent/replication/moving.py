"""Moving points: forgetting here what a target has confirmed, once nothing here needs it."""

import asyncio
import itertools
from urllib.parse import urlencode

import msgspec

from mistbow.clock import Clock
from mistbow.errors import ConflictError, MistbowError, NotFoundError
from mistbow.streams.schemas import RAW
from mistbow.telemetry import get_logger
from storage_agent.fabric.following import ask
from storage_agent.fabric.member import Member
from storage_agent.replication.moved import Held, Moved, MovedPoints
from storage_agent.replication.offering import Offers
from storage_agent.replication.told import Copy
from storage_agent.streams.index import Index
from storage_agent.streams.streams import Stream, Streams

log = get_logger(__name__)

_STEPS = 6
"""What has become old enough moves in so many steps while as much again becomes old."""


class Mover:
    """Goes on with the moves, step by step: notes how far, lets readers finish, and forgets.

    From when it is noted, that part is read at the target. ``after_ms``: the age from which on
    points may move.
    """

    def __init__(
        self, member: Member, offers: Offers, moved: MovedPoints, after_ms: int, clock: Clock
    ) -> None:
        self._member = member
        self._offers = offers
        self._moved = moved
        self._after_ms = after_ms
        self._clock = clock

    async def run(self, streams: Streams, every_s: float) -> None:
        """Look after the moves, for ever."""
        while True:
            for copy in self._offers.all():
                try:
                    await self._go_on(await streams.get(RAW), copy)
                except MistbowError as error:
                    log.info("not moved yet", to=copy.target, copy=copy.id, error=error.message)
                except Exception as error:
                    log.error("not moved", to=copy.target, copy=copy.id, exc_info=error)
            self._offers.review()
            await asyncio.sleep(every_s)

    async def _go_on(self, raw: Stream, copy: Copy) -> None:
        moved = self._moved.of(copy)
        if moved is not None and moved.forgotten < moved.before:
            await self._forget(raw, moved)
        elif copy.move and self._offers.may_move(copy):
            await self._begin(raw, copy, moved)

    async def _begin(self, raw: Stream, copy: Copy, moved: Moved | None) -> None:
        now = self._clock()
        keep = max([self._after_ms, *(keep_ms for keep_ms, _ in raw.log.holds(now).values())])
        to = now - keep
        if moved is not None and to - moved.to < keep // _STEPS:
            return
        held = await self._confirmed(copy.target, copy.id)
        if held is None or (moved is not None and moved.kept != held.made):
            return
        begin = 0 if moved is None else moved.before
        before = _end(raw.log.index, begin, to, held.position)
        async with self._moved.changing:
            # Withdrawn meanwhile, perhaps.
            if before > begin and copy in self._offers.all():
                step = Moved(copy.id, copy.target, held.made, to, before, copy.filter, begin)
                await self._moved.note(step.note())

    async def _confirmed(self, target: str, copy_id: str) -> Held | None:
        """Ask a target before which number it has everything stored; None if it has not."""
        question = urlencode({"site": target, "of": self._member.site, "id": copy_id})
        path = f"/replication/held?{question}".encode()
        try:
            held = await ask(self._member.network, target, path, Held)
        except NotFoundError:
            return None  # it was deleted there
        sure = held.complete and held.durable and held.store == self._moved.store
        return held if sure else None

    async def _forget(self, raw: Stream, moved: Moved) -> None:
        # Who began to read before it was noted reads here what goes now. How long that takes has
        # nothing to do with the age of what moves, so no time is waited for but the reads.
        if self._moved.is_read_as_before(moved):
            return
        # Much may have happened there since it was noted, and here everything is left yet.
        held = await self._confirmed(moved.target, moved.id)
        if held is None or held.position < moved.before or held.made != moved.kept:
            await self._take_back(moved)
            return
        columns, keys = _keys(moved)
        try:
            await raw.writer.delete(
                columns, keys, None, moved.to, before=moved.before, forgotten=True
            )
        except ConflictError:
            # It is merged with what came later: the next step takes both.
            await self._take_back(moved)
            raise
        async with self._moved.changing:
            if self._moved.all().get((moved.target, moved.id)) == moved:
                done = msgspec.structs.replace(moved, forgotten=moved.before)
                await self._moved.note(done.note())
        log.info("moved", to=moved.target, copy=moved.id, until=moved.to, before=moved.before)

    async def _take_back(self, moved: Moved) -> None:
        """Have what is not forgotten yet be read here again."""
        async with self._moved.changing:
            if self._moved.all().get((moved.target, moved.id)) == moved:
                less = msgspec.structs.replace(moved, before=moved.forgotten)
                await self._moved.note(less.note() if moved.forgotten else moved.end())


def _end(index: Index, begin: int, created: int, position: int) -> int:
    """Return the end of the entries that came before a time, and are confirmed up to a position."""
    end = begin
    for entry in index.from_number(begin):
        if entry.created >= created or entry.next > position:
            break
        end = entry.next
    return end


def _keys(moved: Moved) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the columns and keys of what a move is of; none: of everything."""
    asked = {"metric": moved.filter.metric, "entity": moved.filter.entity}
    given = {name: values for name, values in asked.items() if values}
    return tuple(given), list(itertools.product(*given.values())) if given else []
