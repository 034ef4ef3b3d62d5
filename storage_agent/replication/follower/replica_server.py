"""Serves the replicas at this site to the agents of other sites."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator

import msgspec
import pyarrow as pa

from mistbow.auth.callers import current_caller
from mistbow.client.fields import Int64
from mistbow.errors import ConflictError, InvalidRequestError, NotFoundError, UnavailableError
from mistbow.streams.schemas import POINTS
from mistbow.streams.wire import Chunk, Position
from storage_agent.membership.network import PeerNetwork, post_request
from storage_agent.replication.follower.follower import Follower
from storage_agent.replication.follower.replica import Replica
from storage_agent.series import Series
from storage_agent.streams.segments import empty_batch

_CATCH_UP_S = 2.0
_CHECK_S = 0.02


class ReplicaPointsRequest(
    msgspec.Struct, frozen=True, kw_only=True, rename={"source": "of", "instance": "kept"}
):
    """A request for points of the replica of the copy ``id`` of the site ``source``.

    The source sends the request for points that it offloaded; another site sends the request while
    the source is unreachable. ``instance``: the required instance of the replica, since a replica
    that was created later lacks the offloaded points. ``store``: the name of the source's store,
    whose rows the replica must have. ``reached``: the position in the source that the replica must
    have reached; 0 in a failover. ``deleted``: the number of the source's last deletion that the
    replica must have applied. ``start``, ``end``: the first and the last time of the points (ms).
    """

    source: str
    id: str
    instance: str
    store: str
    series: tuple[Series, ...]
    start: Int64
    end: Int64
    columns: tuple[str, ...]
    reached: Int64
    deleted: Int64


class ReplicaProgress(msgspec.Struct, frozen=True, kw_only=True, rename={"instance": "made"}):
    """The progress of a replica, which its source reads before it deletes offloaded points.

    ``instance``: the instance of the replica. ``store``: the name of the source's store from which
    the replica has its rows; None: the replica has not begun. ``complete``: whether the replica has
    all rows of the source before ``position``. ``durable``: whether stored rows survive a crash.
    """

    instance: str
    store: str | None
    position: int
    complete: bool
    durable: bool


def read_replica_points(
    network: PeerNetwork, target: str, request: ReplicaPointsRequest
) -> AsyncGenerator[Chunk, None]:
    """Yield the points of a replica at the site ``target``, as chunks.

    The frontier of a chunk is the time (ms) up to which the replica has all points, except late
    points. Raises a ``MistbowError`` if the target does not answer or refuses the request.
    """
    body = msgspec.json.encode(request)
    return network.chunks(post_request(target, "/replication/points", body), follows=False)


class ReplicaServer:
    """Answers requests of other sites' agents about the replicas at this site.

    ``durable``: whether rows that this site has stored survive a crash.
    """

    def __init__(self, follower: Follower, *, durable: bool) -> None:
        self._follower = follower
        self._durable = durable

    def progress(self, source: str, copy_id: str) -> ReplicaProgress:
        """Return the progress of the replica of a copy.

        Raises ``NotFoundError`` if this site stores no such replica.
        """
        replica = self._find(source, copy_id)
        return ReplicaProgress(
            instance=replica.instance,
            store=replica.store,
            position=replica.position,
            complete=replica.complete and not replica.missed_deletions,
            durable=self._durable,
        )

    async def points(
        self, request: ReplicaPointsRequest
    ) -> tuple[pa.Schema, Chunk, AsyncIterator[Chunk]]:
        """Return (schema, an empty first chunk, an iterator over chunks of the requested points).

        Raises ``InvalidRequestError`` for unknown columns, ``NotFoundError`` if this site stores no
        replica of the copy, ``ConflictError`` if the replica has another instance or other rows
        than requested, and ``UnavailableError`` if the replica does not catch up with its source in
        time.
        """
        unknown = [name for name in request.columns if name not in POINTS.names]
        if unknown or not request.columns:
            names = ", ".join(unknown)
            raise InvalidRequestError(
                f"columns: points have no columns {names}"
                if names
                else "columns: the list is empty",
                hint=f"The columns are {', '.join(POINTS.names)}.",
            )
        replica = self._find(request.source, request.id)
        await _wait_caught_up(replica, request)
        prefix = current_caller().entity_prefix
        series = [each for each in request.series if each[1].startswith(prefix)]
        schema = pa.schema([POINTS.field(name) for name in request.columns])
        # Points have no times before 1970.
        start = max(0, request.start)
        found = replica.history.batches(series, start, request.end, columns=request.columns)
        reached = Position(0, replica.complete_to)
        chunks = (Chunk(batch, reached) async for batch in found)
        return schema, Chunk(empty_batch(schema), reached), chunks

    def _find(self, source: str, copy_id: str) -> Replica:
        for replica in self._follower.replicas(source):
            if replica.copy.id == copy_id:
                self._follower.check(replica)
                return replica
        raise NotFoundError(f"this site stores no replica {copy_id} of the site {source}")


async def _wait_caught_up(replica: Replica, request: ReplicaPointsRequest) -> None:
    """Wait until a replica has caught up with its source, as a request requires.

    Raises ``ConflictError`` if the replica has another instance or store than requested, or missed
    deletions, and ``UnavailableError`` if the replica does not catch up in time.
    """
    name = f"the replica {request.id} of {request.source}"
    if replica.instance != request.instance:
        raise ConflictError(
            f"{name} was deleted or lost, with the points that were offloaded to it"
        )
    if replica.store != request.store or replica.missed_deletions:
        raise ConflictError(f"{name} is not a copy of the store whose points were offloaded")
    end = time.monotonic() + _CATCH_UP_S
    while replica.received < request.reached or (replica.deleted or 0) < request.deleted:
        if time.monotonic() > end:
            raise UnavailableError(
                f"{name} has not caught up with its source", hint="Try again later."
            )
        await asyncio.sleep(_CHECK_S)
