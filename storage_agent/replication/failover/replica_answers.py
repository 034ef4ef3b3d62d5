"""Answers a /get or a /query from one replica at this site."""

import asyncio
from collections.abc import Collection, Mapping

import msgspec

from mistbow.client.agent_model import ReplicaSource
from mistbow.client.fields import MAX_TIMESTAMP_MS
from mistbow.streams.json_numbers import to_json
from storage_agent.http.points import GetBody, QueryBody
from storage_agent.replication.follower.replica import Replica
from storage_agent.series import Metadata, Series
from storage_agent.timeseries.aggregation import AggregateState, aggregate_range, merge
from storage_agent.timeseries.grouped_points import series_item
from storage_agent.timeseries.history import latest_points
from storage_agent.timeseries.point_queries import time_range
from storage_agent.work_threads import in_thread_if_many

_LatestPoints = dict[Series, tuple[int, float]]


class ReplicaGetRequest(
    msgspec.Struct, frozen=True, kw_only=True, rename={"source": "of", "aggregate": "sums"}
):
    """A request to another agent for data of the replica ``id`` of the site ``source``.

    ``series``: the series to read. ``body``: the /get or /query that the replica answers.
    ``aggregate``: whether the answer is an aggregate state instead of points.
    """

    source: str
    id: str
    series: tuple[Series, ...]
    body: GetBody
    aggregate: bool = False


class _ReplicaData(msgspec.Struct, frozen=True, kw_only=True, rename={"at": "from"}):
    """The data of a node, read from a replica at the site ``at``.

    ``stale_ms``: the age of the data.
    """

    node: str
    at: str
    stale_ms: int
    data: msgspec.Raw


def is_aggregate(body: GetBody) -> bool:
    """Return whether a body belongs to a /query, which requests an aggregate."""
    return isinstance(body, QueryBody)


async def answer_from_replica(
    replica: Replica,
    node: str,
    site: str,
    body: GetBody,
    requested: Mapping[Series, Metadata],
    *,
    aggregate: bool,
) -> bytes:
    """Return the data of the requested series from a replica, as JSON.

    ``node``: the node of the replica's source. ``site``: the site that stores the replica.
    ``aggregate``: whether to return an aggregate state instead of points.
    """
    times = time_range(body)
    source = ReplicaSource(node=node, at=site, stale_ms=replica.stale_ms)
    if aggregate:
        state = await _aggregate(replica, requested, times)
        return msgspec.json.encode(msgspec.structs.replace(state, replicas=(source,)))
    if times is None:
        latest = await _latest(replica, set(requested))
        data = await in_thread_if_many(len(latest), lambda: _latest_items(requested, latest))
    else:
        points = await replica.history.read_grouped(requested, *times)
        data = await asyncio.to_thread(lambda: b"".join(points.to_json()))
    item = _ReplicaData(node=node, at=site, stale_ms=replica.stale_ms, data=msgspec.Raw(data))
    return msgspec.json.encode(item)


async def _aggregate(
    replica: Replica, requested: Mapping[Series, Metadata], times: tuple[int, int] | None
) -> AggregateState:
    if times is not None:
        return await aggregate_range(replica.history, requested, *times)
    latest = await _latest(replica, set(requested))
    return await in_thread_if_many(
        len(latest), lambda: merge(AggregateState.of_value(value) for _, value in latest.values())
    )


def _latest_items(requested: Mapping[Series, Metadata], latest: _LatestPoints) -> bytes:
    """Return the latest points as the JSON items of a /get."""
    items = [
        series_item(requested[series], [{"timestamp": ts, "val": to_json(value)}])
        for series, (ts, value) in latest.items()
    ]
    return msgspec.json.encode(items)


async def _latest(replica: Replica, series: Collection[Series]) -> _LatestPoints:
    """Return the latest point of each series: series -> (time (ms), value)."""
    return await latest_points(
        replica.history.batches, series, replica.complete_to, MAX_TIMESTAMP_MS
    )
