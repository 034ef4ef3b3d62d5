"""HTTP routes of this site's Ignite: its topology, and the repair of streams that lost rows."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Response

from mistbow.auth.rules import requires
from mistbow.client.operation_model import Cluster, RefusedStream
from mistbow.errors import ConflictError, InvalidRequestError, NotFoundError
from mistbow.openapi import raises
from storage_agent.agent.agent import Agent
from storage_agent.membership.proxy import proxied_router


def cluster_routes(agent: Agent) -> APIRouter:
    """Return the routes that show the site's Ignite cluster and repair its streams."""
    routes = proxied_router(agent.proxy, "operations")

    @routes.get("/status", summary="The status of this site's agent")
    @requires("read")
    async def status() -> Response:
        """Return why the agent is not ready, its warnings, and its use of the disk.

        Unlike `/readyz`, the request can be forwarded to another site.
        """
        return Response(msgspec.json.encode(await agent.status()), media_type="application/json")

    @routes.get("/cluster", summary="The nodes of this site's Ignite")
    @requires("read")
    async def cluster() -> Response:
        """Return the Ignite nodes of this site, and the streams refused after a loss of rows.

        The answer also states whether any one node may fail without a loss of data.
        """
        topology = await agent.topology()
        body = Cluster(
            **msgspec.structs.asdict(topology),
            tolerates_a_failure=topology.tolerates_a_failure,
            refused=tuple(
                RefusedStream(loss.stream, loss.head, loss.remembered, loss.by)
                for loss in agent.guard.losses
            ),
        )
        return Response(msgspec.json.encode(body), media_type="application/json")

    @routes.post("/streams/{name:path}/repair", summary="Repair a stream that lost rows")
    @requires("admin")
    @raises(ConflictError, NotFoundError)
    async def repair(
        name: str,
        source: Annotated[str | None, Query(alias="from", description="a site's replica")] = None,
        accept_loss: Annotated[bool, Query(description="continue without the lost rows")] = False,
    ) -> dict[str, Any]:
        """Restore the lost rows of a stream from a replica, or accept the loss.

        Restored rows get their old positions. Positions whose rows are not restored stay empty.
        """
        if (source is None) is not accept_loss:
            raise InvalidRequestError(
                "exactly one of the parameters `from` and `accept_loss` is required",
                hint="from=SITE restores the rows from a replica at SITE; see GET /replication.",
            )
        result = await agent.guard.repair(name, source)
        return {"stream": name, "missing": result.missing, "restored": result.restored}

    return routes
