"""Answering for a site that does not: from a replica here, or at another site."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from mistbow.errors import (
    ConflictError,
    NotFoundError,
    TooLargeError,
    TooManyRequestsError,
    UnavailableError,
)
from mistbow.fabric import Site
from mistbow.streams.schemas import RAW
from mistbow.streams.wire import Chunk
from storage_agent.fabric.gathering import Missing, Source
from storage_agent.fabric.member import Member
from storage_agent.fabric.network import post_to
from storage_agent.monitoring.aggregation import Sums, merged, sums_between
from storage_agent.monitoring.bodies import LATEST_MS, GetBody, QueryBody
from storage_agent.monitoring.catalogue import Metadata, Series
from storage_agent.monitoring.extraction import fitting, times_of
from storage_agent.monitoring.history import last_values
from storage_agent.monitoring.values import item_of
from storage_agent.replication.filters import may_hold, surely_holds
from storage_agent.replication.moved import MovedAsk, MovedReplicas, points_at
from storage_agent.replication.pulling import Puller
from storage_agent.replication.replica import Replica
from storage_agent.replication.told import Copy, Kept, copies_of, kept_by, series_told

T = TypeVar("T")

_NAMED = 5

_Told = dict[Series, Metadata]


class ReplicaGet(msgspec.Struct, frozen=True, kw_only=True):
    """What one agent asks another: of its replica ``id`` of the site ``of``, these series.

    ``sums``: what their values come to rather than each.
    """

    of: str
    id: str
    series: tuple[Series, ...]
    body: GetBody
    sums: bool = False


class Part(msgspec.Struct, frozen=True, kw_only=True, rename={"at": "from"}):
    """What the replica at a site has of a node: all that is not younger than ``stale_ms``."""

    node: str
    at: str
    stale_ms: int
    data: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Stood:
    """What replicas have in place of a site: parts as JSON, and what is missing."""

    parts: list[bytes]
    missing: tuple[Missing, ...] = ()


class _Found(msgspec.Struct, frozen=True, omit_defaults=True):
    monitoring: tuple[msgspec.Raw, ...]
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True, slots=True)
class PointsAsked:
    """Which points are asked for: those of series with ``start <= ts <= end`` (ms), ``most``."""

    series: Collection[Series]
    start: int
    end: int
    columns: tuple[str, ...]
    most: int


class StandIns:
    """Reads replicas, those of this site and, through their agents, those of others."""

    def __init__(self, member: Member, puller: Puller, here: MovedReplicas) -> None:
        self._member = member
        self._puller = puller
        self._here = here

    async def near(self, site: Site, body: GetBody) -> Stood | None:
        """Answer for a site that may well be there from what is here, if that is good enough.

        So it is if it goes to the end of the time that is asked for, or is as fresh as
        ``max_stale_ms`` in the body.
        """
        held = self._held(site.name)
        wanted = self._wanted(site.name, body) if held else {}
        times = times_of(body)
        for replica in held:
            closed = times is not None and times[1] <= replica.complete_to
            fresh = body.max_stale_ms is not None and replica.stale_ms <= body.max_stale_ms
            covered = self._covered(site.name, replica.copy, replica.made, wanted, times)
            if (closed or fresh) and len(covered) == len(wanted) > 0:
                return Stood([await self._part(replica, body, wanted, sums=_sums(body))])
        return None

    async def instead(self, site: Site, body: GetBody, reason: str) -> Stood:
        """Answer for a site that does not, and say what of it is missing, and why."""
        wanted = self._wanted(site.name, body)

        async def ask(holder: str, kept: Kept, covered: _Told) -> bytes:
            return await self._ask(holder, kept, body, covered)

        parts, lack = await self._from_each(site.name, wanted, times_of(body), ask)
        missing = (Missing(site.node, f"{reason}; {lack}"),) if lack else ()
        return Stood(parts, missing)

    async def points(
        self, site: str, asked: PointsAsked, reason: str
    ) -> tuple[list[pa.RecordBatch], list[str]]:
        """Return the points of a site that does not answer, and in words what of them is missing.

        Raises ``TooLargeError`` where there are more than may be.
        """
        told = dict(series_told(self._member.told_by(site)))
        wanted = {each: told[each] for each in asked.series if each in told}
        batches: list[pa.RecordBatch] = []
        missing: list[str] = []

        async def ask(holder: str, kept: Kept, covered: _Told) -> None:
            left = asked.most - sum(batch.num_rows for batch in batches)
            found, upto = await self._points_at(holder, kept, replace(asked, series=covered), left)
            batches.extend(found)
            if upto < asked.end:
                missing.append(
                    f"{reason}; points of {_names(covered)} after {upto} are missing: the replica "
                    f"at {holder} was not told of them"
                )

        _, lack = await self._from_each(site, wanted, (asked.start, asked.end), ask)
        return batches, [*missing, *([f"{reason}; {lack}"] if lack else [])]

    async def _from_each(
        self,
        site: str,
        wanted: _Told,
        times: tuple[int, int] | None,
        ask: Callable[[str, Kept, _Told], Awaitable[T]],
    ) -> tuple[list[T], str]:
        """Ask replicas, each for what others did not have; return also what is left, in words."""
        left = wanted
        parts: list[T] = []
        unfinished = False
        for holder, kept in self._holders(site):
            covered = self._covered(site, kept, kept.made, left, times)
            if not covered:
                continue
            if not kept.complete:
                unfinished = True
                continue
            try:
                parts.append(await ask(holder, kept, covered))
            except (UnavailableError, NotFoundError, ConflictError, TooManyRequestsError):
                continue
            left = {series: told for series, told in left.items() if series not in covered}
        return parts, "" if wanted and not left else _lack(left, wanted, unfinished)

    async def _points_at(
        self, holder: str, kept: Kept, asked: PointsAsked, most: int
    ) -> tuple[list[pa.RecordBatch], int]:
        """Return points of a replica, and the time (ms) up to which it has all."""
        request = MovedAsk(
            of=kept.of,
            id=kept.id,
            kept=kept.made,
            store=self._member.store(kept.of) or "",
            series=tuple(asked.series),
            start=asked.start,
            end=asked.end,
            columns=asked.columns,
            reached=0,
            deleted=0,
        )
        rows, upto = 0, 0
        batches: list[pa.RecordBatch] = []
        async with aclosing(self._chunks_at(holder, request)) as chunks:
            async for chunk in chunks:
                rows += chunk.rows.num_rows
                if rows > most:
                    raise TooLargeError(
                        f"this asks for more than {asked.most} values",
                        hint="Ask for less time, or fewer metrics and entities.",
                    )
                batches.append(chunk.rows)
                upto = chunk.position.frontier
        return batches, upto

    async def _chunks_at(self, holder: str, asked: MovedAsk) -> AsyncGenerator[Chunk, None]:
        if holder == self._member.site:
            _, first, chunks = await self._here.points(asked)
            yield first
        else:
            chunks = points_at(self._member.network, holder, asked)
        async for chunk in chunks:
            yield chunk

    async def read(self, asked: ReplicaGet) -> bytes:
        """Answer another agent; raises ``NotFoundError`` if there is no such replica here."""
        site = next((each for each in self._member.fabric().sites if each.name == asked.of), None)
        for replica in self._puller.held(asked.of):
            if replica.copy.id == asked.id and replica.complete and site is not None:
                self._puller.check(replica)
                told = self._wanted(asked.of, asked.body)
                wanted = {series: told[series] for series in asked.series if series in told}
                return await self._part(replica, asked.body, wanted, sums=asked.sums)
        raise NotFoundError(f"{self._member.site} has no complete replica {asked.id} of {asked.of}")

    def _wanted(self, site: str, body: GetBody) -> dict[Series, Metadata]:
        fits = fitting(body)
        told = series_told(self._member.told_by(site))
        return {series: metadata for series, metadata in told if fits(metadata)}

    def _covered(
        self,
        of: str,
        kept: Kept | Copy,
        made: str,
        wanted: dict[Series, Metadata],
        times: tuple[int, int] | None,
    ) -> dict[Series, Metadata]:
        """Return the series of which a replica has every point; what has moved only one has."""
        moved = [
            copy.filter
            for copy in copies_of(self._member.told_by(of))
            if copy.moved_to is not None
            and copy.moved_in != made
            and (times is None or times[0] <= copy.moved_to)
        ]
        return {
            series: metadata
            for series, metadata in _covered(kept, wanted).items()
            if not any(may_hold(each, metadata) for each in moved)
        }

    def _held(self, of: str) -> list[Replica]:
        return [
            each
            for each in self._puller.held(of)
            if each.copy.stream == RAW and each.complete and not self._puller.has_lost(each)
        ]

    def _holders(self, of: str) -> Iterator[tuple[str, Kept]]:
        """Yield who has replicas of a site's points: this site first, then the nearest."""
        own = self._member.site
        near = sorted(self._member.neighbours, key=lambda each: each.latency_ms or float("inf"))
        reachable = [each.site for each in near if self._member.neighbours.reachable(each.site)]
        for site in (own, *reachable):
            # What is here is asked, not what was told of it last, which may be a second ago.
            held = self._puller.kept() if site == own else kept_by(self._member.told_by(site))
            for kept in held:
                if kept.of == of and kept.stream == RAW:
                    yield site, kept

    async def _ask(
        self, holder: str, kept: Kept, body: GetBody, wanted: dict[Series, Metadata]
    ) -> bytes:
        series = tuple(wanted)
        asked = ReplicaGet(of=kept.of, id=kept.id, series=series, body=body, sums=_sums(body))
        if holder == self._member.site:
            return await self.read(asked)
        call = post_to(holder, "/replication/get", msgspec.json.encode(asked))
        return await (await self._member.network.send(call)).read()

    async def _part(
        self, replica: Replica, body: GetBody, wanted: dict[Series, Metadata], *, sums: bool
    ) -> bytes:
        self._puller.count_read(replica)
        times = times_of(body)
        node = next(s.node for s in self._member.fabric().sites if s.name == replica.of)
        source = Source(node=node, at=self._member.site, stale_ms=replica.stale_ms)
        if sums:
            found = await _sums_of(replica, wanted, times)
            return msgspec.json.encode(msgspec.structs.replace(found, replicas=(source,)))
        if times is None:
            latest = await _latest(replica, set(wanted))
            items = [item_of(wanted[series], [value]) for series, value in latest.items()]
            data = msgspec.json.encode(items)
        else:
            values = await replica.history.values(wanted, *times)
            data = await asyncio.to_thread(lambda: b"".join(values.json()))
        told = msgspec.structs.asdict(source)
        return msgspec.json.encode(Part(**told, data=msgspec.Raw(data)))


@dataclass(frozen=True, slots=True)
class GetStandIn:
    """Stands in for sites that a /get with ``body`` asks; see ``gathering.StandIn``."""

    replicas: StandIns
    body: GetBody

    async def near(self, site: Site) -> bytes | None:
        """Answer in place of a site that may well be there; None: ask it."""
        stood = await self.replicas.near(site, self.body)
        return None if stood is None else _json(stood)

    async def instead(self, site: Site, reason: str) -> bytes:
        """Answer in place of a site that does not, for a reason."""
        return _json(await self.replicas.instead(site, self.body, reason))


@dataclass(frozen=True, slots=True)
class QueryStandIn:
    """Stands in for sites that a /query with ``body`` asks; only what values come to crosses."""

    replicas: StandIns
    body: QueryBody

    async def near(self, site: Site) -> bytes | None:
        """Answer in place of a site that may well be there; None: ask it."""
        stood = await self.replicas.near(site, self.body)
        return None if stood is None else _summed(stood)

    async def instead(self, site: Site, reason: str) -> bytes:
        """Answer in place of a site that does not, for a reason."""
        return _summed(await self.replicas.instead(site, self.body, reason))


async def _sums_of(
    replica: Replica, wanted: dict[Series, Metadata], times: tuple[int, int] | None
) -> Sums:
    if times is not None:
        return await sums_between(replica.history, wanted, *times)
    latest = (value["val"] for value in (await _latest(replica, set(wanted))).values())
    return merged(Sums(1, value, value, value) for value in latest)


async def _latest(replica: Replica, series: Collection[Series]) -> dict[Series, dict[str, Any]]:
    """Return the value of each series with the greatest time."""
    found = await last_values(replica.history.batches, series, replica.complete_to, LATEST_MS)
    return {each: {"timestamp": ts, "val": value} for each, (ts, value) in found.items()}


def _covered(kept: Kept | Copy, wanted: dict[Series, Metadata]) -> dict[Series, Metadata]:
    """Return the series of which a replica has every point."""
    return {
        series: metadata
        for series, metadata in wanted.items()
        if surely_holds(kept.filter, metadata)
        and not any(may_hold(each, metadata) for each in kept.withheld)
    }


def _lack(left: _Told, wanted: _Told, unfinished: bool) -> str:
    if not wanted:
        return "no series of it that is known is asked for"
    why = "no complete replica" if unfinished else "no replica"
    return f"{why} that can be reached has {_names(left)}"


def _names(series: Collection[Series]) -> str:
    named = ", ".join(f"{metric} of {entity}" for metric, entity in list(series)[:_NAMED])
    return named + (f" and {len(series) - _NAMED} more" if len(series) > _NAMED else "")


def _sums(body: GetBody) -> bool:
    return isinstance(body, QueryBody)


def _json(stood: Stood) -> bytes:
    parts = tuple(msgspec.Raw(part) for part in stood.parts)
    return msgspec.json.encode(_Found(parts, stood.missing))


def _summed(stood: Stood) -> bytes:
    found = merged(msgspec.json.decode(part, type=Sums) for part in stood.parts)
    return msgspec.json.encode(msgspec.structs.replace(found, missing=stood.missing))
