"""What this site wants others to hold of its data, and giving it to them."""

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.clock import Clock
from mistbow.errors import ConflictError, InvalidRequestError, MistbowError, NotFoundError
from mistbow.streams.schemas import METADATA, POINTS, RAW
from mistbow.streams.wire import Chunk
from storage_agent.fabric.member import Member
from storage_agent.monitoring.catalogue import Catalogue
from storage_agent.replication.deletions import with_deletions
from storage_agent.replication.filters import (
    EVERYTHING,
    SeriesFilter,
    among,
    covers,
    may_overlap,
    text_of,
)
from storage_agent.replication.moved import MovedPoints
from storage_agent.replication.restrictions import Restrictions
from storage_agent.replication.told import (
    COPIES_KEY,
    Copy,
    Kept,
    Rule,
    copies_of,
    id_of,
    kept_by,
    name_of,
    replaces,
)
from storage_agent.replication.view import Decision
from storage_agent.streams import reading
from storage_agent.streams.manifest import Deletion
from storage_agent.streams.reading import Selection, Selector
from storage_agent.streams.signed import check_readable
from storage_agent.streams.streams import REPLICAS, Streams

_MOST = 200
_MOST_NAME = 100
_MOST_MOVED = 1000


@dataclass(frozen=True, slots=True)
class Want:
    """A copy that somebody, or the policy, asks for."""

    target: str
    stream: str = RAW
    filter: SeriesFilter = EVERYTHING
    why: str = "asked for"
    cause: str = ""
    move: bool = False

    @classmethod
    def of(cls, decision: Decision) -> Self:
        """Return what a policy decided as what it asks for."""
        return cls(
            target=decision.target,
            stream=decision.stream,
            filter=decision.filter,
            why=decision.why,
            cause=decision.cause,
            move=decision.move,
        )


class Offers:
    """The copies, told in this site's metadata; who is to hold one sees that and subscribes.

    ``fragile``: this site's data may be gone at any time; its only complete copy is not given up.
    """

    def __init__(
        self, member: Member, restrictions: Restrictions, moved: MovedPoints, clock: Clock
    ) -> None:
        self._member = member
        self._restrictions = restrictions
        self._moved = moved
        self._clock = clock
        self._copies: tuple[Copy, ...] = ()
        self._streams: Streams | None = None
        self._catalogue = Catalogue()
        self.fragile = False

    def open(self, streams: Streams, catalogue: Catalogue) -> None:
        """Recover what was wanted before."""
        self._streams = streams
        self._catalogue = catalogue
        self._copies = copies_of(self._member.told_by(self._member.site))
        self.review()

    def all(self) -> tuple[Copy, ...]:
        """Return the copies."""
        return self._copies

    async def ask(self, want: Want) -> Copy:
        """Want a copy until it is withdrawn; raises a ``MistbowError`` for one that cannot be."""
        await self._check(want)
        if want.move:
            self._check_move(want, self._copies)
        copy = self._made(want, manual=True)
        others = [each for each in self._copies if _what(each) != _what(copy)]
        self._tell((*others, copy))
        return copy

    async def withdraw(self, copy_id: str, target: str | None, *, force: bool = False) -> None:
        """Want a copy no more, at one site or at all; raises ``NotFoundError``.

        Raises ``ConflictError`` if nothing else holds a fragile site's data, or what has moved,
        unless ``force`` is.
        """
        async with self._moved.changing:
            await self._withdraw(copy_id, target, force=force)

    async def _withdraw(self, copy_id: str, target: str | None, *, force: bool) -> None:
        gone = [
            copy for copy in self._copies if copy.id == copy_id and target in (None, copy.target)
        ]
        if not gone:
            raise NotFoundError(
                f"there is no copy {copy_id}" + (f" at {target}" if target else ""),
                hint="GET /replication lists them.",
            )
        if not force:
            self._check_loss(gone)
        for each in gone:
            if (moved := self._moved.of(each)) is not None:
                await self._moved.note(moved.end())
        # Others may have been asked for meanwhile.
        places = {(each.target, each.id) for each in gone}
        self._tell(tuple(e for e in self._copies if (e.target, e.id) not in places))

    def _check_loss(self, gone: list[Copy]) -> None:
        """Raise ``ConflictError`` that says all that would be lost without some copies."""
        left = tuple(each for each in self._copies if each not in gone)
        moved = [found for each in gone if (found := self._moved.of(each)) is not None]
        reasons = [
            f"points up to {each.to} have moved to {each.target}, and are not here"
            for each in moved
        ]
        hints = ["To give them up for good, add ?force=true."] if moved else []
        if moved:
            hints.insert(
                0,
                "While the copy stays they can be read; 'Taking back by hand' in "
                "docs/replication.md brings them here.",
            )
        if self.fragile and any(self._is_last(each, left) for each in gone):
            reasons.append(f"{self._member.site} is fragile, and no other copy of this is complete")
            hints.append("Ask for another copy and wait until it is complete, or add ?force=true.")
        if reasons:
            raise ConflictError("; ".join(reasons), hint=" ".join(hints))

    def decide(self, wants: Iterable[Want]) -> None:
        """Want what the policy says, beside what was asked for.

        What it wants no more stays until what takes its place is complete; of a fragile site, until
        something does.
        """
        manual = [each for each in self._copies if each.manual]
        taken = {_what(each) for each in manual}
        decided = [self._made(want, manual=False) for want in wants]
        wanted = (*manual, *(each for each in decided if _what(each) not in taken))
        taken = {_what(each) for each in wanted}
        left = (each for each in self._copies if _what(each) not in taken)
        kept = (each for each in left if self._is_needed(each, wanted))
        self._tell((*wanted, *(msgspec.structs.replace(each, move=False) for each in kept)))

    def _is_needed(self, copy: Copy, wanted: tuple[Copy, ...]) -> bool:
        if copy.moved_to is not None:
            return True
        replaced = self.fragile or any(replaces(each, copy) for each in wanted)
        kept_back = any(covers(rule, copy.filter) for rule in copy.withheld)
        return replaced and not kept_back and self._is_last(copy, wanted)

    def _is_last(self, copy: Copy, others: tuple[Copy, ...]) -> bool:
        """Tell whether a copy is complete, and no other that can be reached holds the same."""
        return self._is_complete(copy) and not any(
            replaces(each, copy)
            and self._is_complete(each)
            and self._member.neighbours.reachable(each.target)
            for each in others
        )

    def _is_complete(self, copy: Copy) -> bool:
        kept = self._kept(copy)
        return kept is not None and kept.complete

    def review(self) -> None:
        """Follow the restrictions, and what became known of targets."""
        self._tell(tuple(self._fitted(each) for each in self._copies))

    def unheard(self, stream: str) -> Callable[[Deletion], bool]:
        """Return what tells which deletions of a stream some replica may not have heard of."""
        return self._unheard_by(each for each in self._copies if each.stream == stream)

    def owed(self, stream: str) -> Callable[[Deletion], bool]:
        """Return the same of replicas that have what moved: nobody else can be read instead."""
        moved = (each for each in self._copies if each.moved_to is not None)
        return self._unheard_by(each for each in moved if each.stream == stream)

    def _unheard_by(self, copies: Iterable[Copy]) -> Callable[[Deletion], bool]:
        last = []
        for copy in copies:
            kept = self._kept(copy)
            last.append((copy.since, None if kept is None else kept.deleted))
        return lambda deletion: any(
            deletion.created >= since if heard is None else deletion.id > heard
            for since, heard in last
        )

    def _kept(self, copy: Copy) -> Kept | None:
        """Return what its target last said of a copy."""
        for kept in kept_by(self._member.told_by(copy.target)):
            if (kept.of, kept.id) == (self._member.site, copy.id):
                return kept
        return None

    async def feed(
        self, target: str, copy_id: str, start: int, deleted: int | None
    ) -> tuple[pa.Schema, AsyncIterator[Chunk]]:
        """Return what a site is to be given, from a number and after a deletion, followed.

        Raises ``ConflictError`` if nothing is wanted there; the first chunk raises what else is
        wrong, if anything.
        """
        assert self._streams is not None  # noqa: S101 - the API answers once all is open
        self.review()
        copy = self.offered(target, copy_id)
        check_readable(copy.stream)
        stream = await self._streams.get(copy.stream)
        log = stream.log
        found = reading.follow(log, Selector(stream, Selection()), start)
        rows = (each.chunk async for each in found)
        chunks = with_deletions(rows, lambda: log.manifest.current, log.schema, start, deleted)
        return log.schema, self._fed(copy, chunks)

    async def _fed(self, copy: Copy, chunks: AsyncIterator[Chunk]) -> AsyncIterator[Chunk]:
        begun = False
        try:
            async for chunk in chunks:
                # Whatever changed meanwhile, nothing leaves that may not by now.
                self.offered(copy.target, copy.id)
                yield replace(chunk, rows=self._chosen(copy, chunk.rows))
                begun = True
        except (ConflictError, NotFoundError):
            # It is not wanted any more, or its stream is deleted: an answer that has begun ends.
            if not begun:
                raise

    def _chosen(self, copy: Copy, rows: pa.RecordBatch) -> pa.RecordBatch:
        if rows.schema.names[: len(POINTS.names)] != POINTS.names:
            # Of other streams it cannot be told what restrictions would keep back.
            return rows.slice(0, 0) if copy.withheld else rows
        rows = rows.select(POINTS.names)
        masks = []
        if not copy.filter.all:
            masks.append(among(copy.filter, rows, self._catalogue))
        masks += [pc.invert(among(each, rows, self._catalogue)) for each in copy.withheld]
        return rows.filter(reduce(pc.and_, masks)) if masks and rows.num_rows else rows

    def offered(self, target: str, copy_id: str) -> Copy:
        """Return a copy, by the restrictions of now; raises ``ConflictError``."""
        for copy in self._copies:
            asked = (copy.target, copy.id) == (target, copy_id)
            barred = copy.moved_to is not None and self._kept_back(target, copy.filter)
            if asked and not barred and self._fitted(copy).id == copy.id:
                return copy
        raise ConflictError(f"{self._member.site} wants no copy {copy_id} at {target}")

    def _made(self, want: Want, *, manual: bool) -> Copy:
        known = next((each for each in self._copies if _what(each) == _what(want)), None)
        if known is None:
            known = Copy(
                id="",
                target=want.target,
                stream=want.stream,
                filter=want.filter,
                why=want.why,
                since=self._clock(),
            )
        return self._fitted(
            msgspec.structs.replace(
                known, why=want.why, manual=manual, cause=want.cause, move=want.move
            )
        )

    def _fitted(self, copy: Copy) -> Copy:
        if (moved := self._moved.of(copy)) is not None:
            # What it holds is nowhere else: it stays what it is, but is fed no more if it may not.
            return msgspec.structs.replace(copy, moved_to=moved.to, moved_in=moved.kept)
        stream = None if self._streams is None else self._streams.opened(copy.stream)
        fitted = msgspec.structs.replace(
            copy,
            moved_to=None,
            moved_in="",
            incarnation=copy.incarnation if stream is None else stream.incarnation,
            withheld=self._restrictions.withheld(copy.target),
        )
        return msgspec.structs.replace(fitted, id=id_of(fitted))

    async def _check(self, want: Want) -> None:
        assert self._streams is not None  # noqa: S101 - the API answers once all is open
        site = self._member.site
        wrong: dict[str, str] = {}
        if want.target == site or self._member.neighbours.get(want.target) is None:
            known = ", ".join(each.site for each in self._member.neighbours) or "none"
            wrong[f"target: {want.target} is no other site"] = f"Known are: {known}."
        if want.stream == METADATA or want.stream.startswith(REPLICAS):
            wrong[f"stream: {want.stream} is not copied in this way"] = (
                "Every site follows all metadata; a replica is copied from its source."
            )
        if wrong:
            raise InvalidRequestError("; ".join(wrong), hint=" ".join(wrong.values()))
        stream = await self._streams.get(want.stream)
        if not want.filter.all and not stream.log.schema.equals(POINTS):
            raise InvalidRequestError(
                f"filter: the stream {want.stream} is not one of points",
                hint="Leave the filter out to copy all of it.",
            )
        if len(name_of(site, self._made(want, manual=True))) > _MOST_NAME:
            raise InvalidRequestError(
                f"stream: the name {want.stream} is too long for a replica",
                hint=f"With the site's and the copy's, {_MOST_NAME} characters are the most.",
            )
        for rule in self._restrictions.withheld(want.target):
            if covers(rule, want.filter):
                raise ConflictError(
                    f"a restriction keeps {text_of(rule)} from {want.target}",
                    hint="GET /replication/restrictions lists them.",
                )
        if len(self._copies) >= _MOST:
            raise ConflictError(f"there are {_MOST} copies already", hint="Withdraw some.")

    def check_rules(self, rules: tuple[Rule, ...]) -> None:
        """Raise ``ConflictError`` for rules that keep back what has moved."""
        broken = [
            copy
            for copy in self._copies
            if self._moved.of(copy) is not None
            and any(
                may_overlap(each, copy.filter)
                for each in self._restrictions.withheld(copy.target, rules)
            )
        ]
        if broken:
            targets = ", ".join(copy.target for copy in broken)
            ways = (f"/replication/copies/{copy.id}?target={copy.target}" for copy in broken)
            raise ConflictError(
                f"points have moved to {targets}, which these restrictions keep from there",
                hint=" ".join(f"DELETE {way}&force=true gives them up." for way in ways),
            )

    def may_move(self, copy: Copy) -> bool:
        """Tell whether a copy may move, or go on to, by all that is so now."""
        before = self._copies[: self._copies.index(copy)] if copy in self._copies else self._copies
        begun = tuple(each for each in self._copies if self._moved.of(each) is not None)
        try:
            self._check_move(
                Want(copy.target, copy.stream, copy.filter),
                (*begun, *(each for each in before if each.move)),
            )
        except MistbowError:
            return False
        return True

    def _check_move(self, want: Want, others: Iterable[Copy]) -> None:
        wanted = want.filter
        if want.stream != RAW or wanted.group or wanted.labels:
            raise InvalidRequestError(
                "move: only points move, and only by metric and entity",
                hint="Of groups and labels it cannot be told later which points were copied.",
            )
        if len(wanted.metric) * len(wanted.entity) > _MOST_MOVED:
            raise InvalidRequestError(
                f"move: metrics and entities make more than {_MOST_MOVED} series",
                hint="Name only metrics or only entities, or ask for several moves.",
            )
        if self._kept_back(want.target, wanted):
            raise ConflictError(
                f"move: restrictions keep some of it from {want.target}",
                hint="GET /replication/restrictions lists them.",
            )
        for other in others:
            moves = other.move or other.moved_to is not None
            if moves and _what(other) != _what(want) and may_overlap(other.filter, wanted):
                raise ConflictError(
                    f"move: {text_of(other.filter)} moves to {other.target} already",
                    hint="What moves to several sites must differ in metrics or entities.",
                )

    def _kept_back(self, target: str, wanted: SeriesFilter) -> bool:
        """Tell whether restrictions keep some of what is wanted from a site."""
        return any(may_overlap(each, wanted) for each in self._restrictions.withheld(target))

    def _tell(self, copies: tuple[Copy, ...]) -> None:
        if copies != self._copies:
            self._copies = copies
            self._member.tell(COPIES_KEY, copies or None)


def _what(of: Copy | Want) -> tuple[str, str, str]:
    return of.target, of.stream, text_of(of.filter)
