"""This site's Ignite over HTTP: how it is, and repairing what it lost."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Query, Response

from mistbow.auth.rules import requires
from mistbow.errors import InvalidRequestError
from storage_agent.agent import Agent
from storage_agent.fabric.relay import relayed, takes_site


def cluster_routes(agent: Agent) -> APIRouter:
    """Return the routes of an agent."""
    routes = APIRouter(
        tags=["operations"], route_class=relayed(agent.relay), dependencies=[Depends(takes_site)]
    )

    @routes.get("/cluster", summary="The nodes of this site's Ignite")
    @requires("read")
    async def cluster() -> Response:
        """Whether one may fail now, and which streams are refused because some of them is lost."""
        found = await agent.topology()
        body = {
            **msgspec.structs.asdict(found),
            "tolerates_a_failure": found.tolerates_a_failure,
            "refused": [
                {"stream": loss.stream, "head": loss.head, "remembered": loss.known, "by": loss.by}
                for loss in agent.guard.losses
            ],
        }
        return Response(msgspec.json.encode(body), media_type="application/json")

    @routes.post("/streams/{name:path}/repair", summary="Make a stream whole that lost rows")
    @requires("admin")
    async def repair(
        name: str,
        source: Annotated[str | None, Query(alias="from", description="a site's replica")] = None,
        accept_loss: Annotated[bool, Query(description="go on without what is lost")] = False,
    ) -> dict[str, Any]:
        """Rows of the replica take the numbers that they had; the others stand for no row."""
        if (source is None) is not accept_loss:
            raise InvalidRequestError(
                "from and accept_loss: exactly one of them is needed",
                hint="from=SITE takes rows from the replica there; GET /replication lists them.",
            )
        done = await agent.guard.repair(name, source)
        return {"stream": name, "missing": done.missing, "restored": done.restored}

    return routes
