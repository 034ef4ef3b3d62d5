"""Failover of reads: replicas here or at other sites answer in place of an unreachable site."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import msgspec
import pyarrow as pa

from mistbow.client.agent_model import Missing
from mistbow.client.operation_model import Copy, ReplicaFact
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
from storage_agent.http.points import GetBody, QueryBody
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.facts import published_series
from storage_agent.membership.network import post_request
from storage_agent.replication.facts import copies_of, is_requested, replica_facts
from storage_agent.replication.failover.replica_answers import (
    ReplicaGetRequest,
    answer_from_replica,
    is_aggregate,
)
from storage_agent.replication.filters import matches_all_points, may_match_points
from storage_agent.replication.follower.follower import Follower
from storage_agent.replication.follower.replica import Replica
from storage_agent.replication.follower.replica_server import (
    ReplicaPointsRequest,
    ReplicaServer,
    read_replica_points,
)
from storage_agent.series import Metadata, Series
from storage_agent.timeseries.aggregation import AggregateState, merge
from storage_agent.timeseries.multi_site_get import GetAnswer
from storage_agent.timeseries.point_queries import series_filter, time_range
from storage_agent.work_threads import in_thread_if_many

T = TypeVar("T")

_MAX_NAMED_SERIES = 5

_Requested = dict[Series, Metadata]
_Times = tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class FailoverAnswer:
    """The answer to a read, from replicas of one site.

    ``items``: the JSON text from each replica that was read. ``missing``: the nodes whose data is
    missing, with reasons.
    """

    items: list[bytes]
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True, slots=True)
class PointsRequest:
    """A request for points of series with ``start <= ts <= end`` (ms).

    ``columns``: the columns to return. ``max_points``: the maximum number of points in the answer.
    """

    series: Collection[Series]
    start: int
    end: int
    columns: tuple[str, ...]
    max_points: int


class FailoverReader:
    """Reads replicas of a site, at this site or through the agents of other sites."""

    def __init__(
        self, membership: FabricMembership, follower: Follower, server: ReplicaServer
    ) -> None:
        self._membership = membership
        self._follower = follower
        self._server = server

    async def answer_nearby(self, site: Site, body: GetBody) -> FailoverAnswer | None:
        """Return the answer from a recent replica of ``site`` that this site stores.

        Returns None if this site stores no recent replica. A replica is recent if it is complete up
        to the end of the requested times, or if its age is at most ``body.max_stale_ms``. The
        replica must have all requested series.
        """
        times, max_stale_ms = time_range(body), body.max_stale_ms
        replicas = [
            each
            for each in self._usable_replicas(site.name)
            if (times is not None and times[1] <= each.complete_to)
            or (max_stale_ms is not None and each.stale_ms <= max_stale_ms)
        ]
        requested = await self._requested_series(site.name, body) if replicas else {}
        for replica in replicas:
            copy, instance = replica.copy, replica.instance
            covered = await self._covered(site.name, copy, instance, requested, times)
            if len(covered) == len(requested) > 0:
                aggregate = is_aggregate(body)
                return FailoverAnswer([await self._answer(replica, body, requested, aggregate)])
        return None

    async def answer_instead(self, site: Site, body: GetBody, reason: str) -> FailoverAnswer:
        """Return the answer from replicas in place of the unreachable site ``site``.

        ``reason``: why the site is unreachable, for the message about missing series.
        """
        requested = await self._requested_series(site.name, body)

        async def read(follower: str, replica: ReplicaFact, covered: _Requested) -> bytes:
            return await self._read_at(follower, replica, body, covered)

        items, problem = await self._read_replicas(site.name, requested, time_range(body), read)
        missing = (Missing(site.node, f"{reason}; {problem}"),) if problem else ()
        return FailoverAnswer(items, missing)

    async def points(
        self, site: str, request: PointsRequest, reason: str
    ) -> tuple[list[pa.RecordBatch], list[str]]:
        """Return (points of an unreachable site from replicas, messages about missing points).

        ``reason``: why the site is unreachable, for the messages. Raises ``TooLargeError`` if more
        points match than the request allows.
        """
        events = published_series(self._membership.facts_of(site))
        named = frozenset(request.series)
        requested = await asyncio.to_thread(
            lambda: {each: metadata for each, metadata in events if each in named}
        )
        batches: list[pa.RecordBatch] = []
        missing: list[str] = []

        async def read(follower: str, replica: ReplicaFact, covered: _Requested) -> None:
            left = request.max_points - sum(batch.num_rows for batch in batches)
            part = replace(request, series=covered)
            found, complete_to = await self._points_at(follower, replica, part, left)
            batches.extend(found)
            if complete_to < request.end:
                missing.append(
                    f"{reason}; points of {_name_series(covered)} after {complete_to} are missing: "
                    f"the replica at {follower} has not received them"
                )

        times = (request.start, request.end)
        _, problem = await self._read_replicas(site, requested, times, read)
        return batches, [*missing, *([f"{reason}; {problem}"] if problem else [])]

    async def read(self, request: ReplicaGetRequest) -> bytes:
        """Return the JSON answer to a request of another agent, from a replica at this site.

        Raises ``NotFoundError`` if this site has no complete replica with the requested id.
        """
        sites = {site.name for site in self._membership.fabric().sites}
        for replica in self._follower.replicas(request.source):
            if replica.copy.id == request.id and replica.complete and request.source in sites:
                self._follower.check(replica)
                published = await self._requested_series(request.source, request.body)
                requested = await in_thread_if_many(
                    len(request.series), partial(_among, published, request.series)
                )
                return await self._answer(replica, request.body, requested, request.aggregate)
        raise NotFoundError(
            f"the site {self._membership.site} has no complete replica {request.id} of the site "
            f"{request.source}"
        )

    async def _read_replicas(
        self,
        site: str,
        requested: _Requested,
        times: _Times,
        read: Callable[[str, ReplicaFact, _Requested], Awaitable[T]],
    ) -> tuple[list[T], str]:
        """Read replicas of a site, nearest first, until each requested series is read.

        From each replica, ``read`` reads the series that no earlier replica has returned.
        ``times``: the requested times (start, end) in ms; None: the latest values. Returns (results
        of ``read``, message about missing series); the message is empty if series were requested
        and each series was read.
        """
        left = requested
        parts: list[T] = []
        has_incomplete = False
        for follower, replica in self._replicas_nearest_first(site):
            covered = await self._covered(site, replica, replica.instance, left, times)
            if not covered:
                continue
            if not replica.complete:
                has_incomplete = True
                continue
            try:
                parts.append(await read(follower, replica, covered))
            except (UnavailableError, NotFoundError, ConflictError, TooManyRequestsError):
                continue
            left = await in_thread_if_many(len(left), partial(_without, left, covered))
        return parts, "" if requested and not left else _describe_missing(
            left, requested, has_incomplete
        )

    async def _points_at(
        self, follower: str, replica: ReplicaFact, request: PointsRequest, max_points: int
    ) -> tuple[list[pa.RecordBatch], int]:
        """Return (points from a replica, time (ms) up to which the replica is complete)."""
        replica_request = ReplicaPointsRequest(
            source=replica.source,
            id=replica.id,
            instance=replica.instance,
            store=self._membership.store_of(replica.source) or "",
            series=tuple(request.series),
            start=request.start,
            end=request.end,
            columns=request.columns,
            reached=0,
            deleted=0,
        )
        rows, complete_to = 0, 0
        batches: list[pa.RecordBatch] = []
        async with aclosing(self._chunks_at(follower, replica_request)) as chunks:
            async for chunk in chunks:
                rows += chunk.rows.num_rows
                if rows > max_points:
                    raise TooLargeError(
                        f"the request matches more than {request.max_points} values",
                        hint="Select a shorter time, or fewer metrics and entities.",
                    )
                batches.append(chunk.rows)
                complete_to = chunk.position.frontier
        return batches, complete_to

    async def _chunks_at(
        self, follower: str, request: ReplicaPointsRequest
    ) -> AsyncGenerator[Chunk, None]:
        if follower == self._membership.site:
            _, first, chunks = await self._server.points(request)
            yield first
        else:
            chunks = read_replica_points(self._membership.network, follower, request)
        async for chunk in chunks:
            yield chunk

    async def _requested_series(self, site: str, body: GetBody) -> _Requested:
        matches = series_filter(body)
        published = published_series(self._membership.facts_of(site))
        return await asyncio.to_thread(
            lambda: {series: metadata for series, metadata in published if matches(metadata)}
        )

    async def _covered(
        self,
        source: str,
        replica: ReplicaFact | Copy,
        instance: str,
        requested: _Requested,
        times: _Times,
    ) -> _Requested:
        """Return the requested series for which a replica has every point in a time range.

        Offloaded points of the source are only in the replica to which the source offloaded these
        points. ``instance``: the id of the replica. ``times``: (start, end) in ms; None: the latest
        values.
        """
        offloaded = [
            copy.filter
            for copy in copies_of(self._membership.facts_of(source))
            if copy.offloaded_to is not None
            and copy.offloaded_in != instance
            and (times is None or times[0] <= copy.offloaded_to)
        ]
        elsewhere = (*replica.withheld, *offloaded)

        def select() -> _Requested:
            return {
                series: metadata
                for series, metadata in requested.items()
                if matches_all_points(replica.filter, metadata)
                and not any(may_match_points(each, metadata) for each in elsewhere)
            }

        return await in_thread_if_many(len(requested), select)

    def _usable_replicas(self, source: str) -> list[Replica]:
        return [
            each
            for each in self._follower.replicas(source)
            if each.copy.stream == RAW and each.complete and not self._follower.is_refused(each)
        ]

    def _replicas_nearest_first(self, source: str) -> Iterator[tuple[str, ReplicaFact]]:
        """Yield (site, replica) for each replica of the points of ``source`` at a reachable site.

        The replicas at this site come first, then the replicas at other sites in the order of
        latency.
        """
        own, peers = self._membership.site, self._membership.peers
        near = sorted(peers, key=lambda peer: peer.latency_ms or float("inf"))
        for site in (own, *(peer.site for peer in near if peers.reachable(peer.site))):
            # The facts of this site may be a second old, so the follower is read instead.
            is_own = site == own
            facts = (
                self._follower.facts() if is_own else replica_facts(self._membership.facts_of(site))
            )
            for replica in facts:
                is_right = replica.source == source and replica.stream == RAW
                if is_right and (is_own or self._is_believed(site, replica)):
                    yield site, replica

    def _is_believed(self, site: str, replica: ReplicaFact) -> bool:
        """Return whether a site really has the replica that it states; a stolen site may lie."""
        source, membership = replica.source, self._membership
        return membership.may_state(site, source) or is_requested(
            replica, site, membership.facts_of(source)
        )

    async def _read_at(
        self, follower: str, replica: ReplicaFact, body: GetBody, requested: _Requested
    ) -> bytes:
        request = ReplicaGetRequest(
            source=replica.source,
            id=replica.id,
            series=tuple(requested),
            body=body,
            aggregate=is_aggregate(body),
        )
        if follower == self._membership.site:
            return await self.read(request)
        call = post_request(follower, "/replication/get", msgspec.json.encode(request))
        return await self._membership.network.read(call)

    async def _answer(
        self, replica: Replica, body: GetBody, requested: _Requested, aggregate: bool
    ) -> bytes:
        self._follower.count_read(replica)
        sites = self._membership.fabric().sites
        node = next(site.node for site in sites if site.name == replica.source)
        own = self._membership.site
        return await answer_from_replica(replica, node, own, body, requested, aggregate=aggregate)


@dataclass(frozen=True, slots=True)
class ReadFailover:
    """Answers a /get or a /query with ``body`` from replicas; implements ``SiteFailover``.

    The answer to a /get has the items of the replicas; the answer to a /query is their merged
    aggregate state.
    """

    reader: FailoverReader
    body: GetBody

    async def answer_nearby(self, site: Site) -> bytes | None:
        """Return the JSON answer from a recent replica of ``site`` that this site stores.

        Returns None if this site stores no recent replica.
        """
        answer = await self.reader.answer_nearby(site, self.body)
        return None if answer is None else self._encode(answer)

    async def answer_instead(self, site: Site, reason: str) -> bytes:
        """Return the JSON answer from replicas in place of ``site``.

        ``reason``: why ``site`` did not answer.
        """
        return self._encode(await self.reader.answer_instead(site, self.body, reason))

    def _encode(self, answer: FailoverAnswer) -> bytes:
        is_query = isinstance(self.body, QueryBody)
        return _merge_states(answer) if is_query else _encode_items(answer)


def _among(published: _Requested, series: Collection[Series]) -> _Requested:
    return {each: published[each] for each in series if each in published}


def _without(requested: _Requested, covered: _Requested) -> _Requested:
    return {series: metadata for series, metadata in requested.items() if series not in covered}


def _describe_missing(left: _Requested, requested: _Requested, has_incomplete: bool) -> str:
    if not requested:
        return "the request matches none of the site's published series"
    why = "no complete replica" if has_incomplete else "no replica"
    return f"{why} at a reachable site has {_name_series(left)}"


def _name_series(series: Collection[Series]) -> str:
    some = list(series)[:_MAX_NAMED_SERIES]
    named = ", ".join(f"{metric} of {entity}" for metric, entity in some)
    return named + (f" and {len(series) - len(some)} more" if len(series) > len(some) else "")


def _encode_items(answer: FailoverAnswer) -> bytes:
    items = tuple(msgspec.Raw(item) for item in answer.items)
    return msgspec.json.encode(GetAnswer(items, answer.missing))


def _merge_states(answer: FailoverAnswer) -> bytes:
    state = merge(msgspec.json.decode(item, type=AggregateState) for item in answer.items)
    return msgspec.json.encode(msgspec.structs.replace(state, missing=answer.missing))
