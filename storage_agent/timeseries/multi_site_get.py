"""The answer to a /get over several sites, with replicas in place of unreachable sites."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from mistbow.client.agent_model import Missing
from storage_agent.http.points import GetBody
from storage_agent.http.responses import Content
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.scatter_gather import ScatterRequest, SiteFailover, scatter
from storage_agent.timeseries.point_queries import name_set

LocalGet = Callable[[GetBody], Awaitable[Content]]
"""A function that returns the JSON answer of this node to a /get."""


class ReplicaReads(Protocol):
    """The methods of replication that a read across several sites calls."""

    async def count_read(self, body: GetBody) -> None:
        """Record that the requesting site reads the points of this node that a body selects."""
        ...

    def failover(self, body: GetBody) -> SiteFailover:
        """Return an object that answers a /get or a /query from replicas."""
        ...


class GetAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to a /get; ``monitoring``: a JSON object from the agent of each node."""

    monitoring: tuple[msgspec.Raw, ...]
    missing: tuple[Missing, ...] = ()


_GET_ANSWER = msgspec.json.Decoder(GetAnswer)


async def gather_points(
    body: GetBody, membership: FabricMembership, local: LocalGet, replicas: ReplicaReads
) -> Content:
    """Return the JSON answer to a /get.

    The nodes in the body are read; if the body names no nodes, this node is read.
    """
    if body.nodes is None:
        await replicas.count_read(body)
        return await local(body)
    alone = msgspec.structs.replace(body, nodes=None)

    async def local_bytes() -> bytes:
        content = await local(alone)
        if isinstance(content, bytes):
            return content
        return await asyncio.to_thread(b"".join, content)

    request = ScatterRequest(
        path="/get",
        body=msgspec.json.encode(alone),
        local=local_bytes,
        decode=_GET_ANSWER.decode,
        failover=replicas.failover(alone),
    )
    answers = await scatter(name_set(body.nodes), membership, request)
    items = tuple(item for part in answers.found for item in part.monitoring)
    missing = tuple(each for part in answers.found for each in part.missing)
    return msgspec.json.encode(GetAnswer(items, missing + answers.missing))
