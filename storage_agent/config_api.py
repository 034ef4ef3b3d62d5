"""GET and PUT /config: what can be changed while the agent runs."""

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from mistbow.auth.rules import requires
from storage_agent.agent import Agent
from storage_agent.config import Config, ConfigChange
from storage_agent.fabric.relay import relayed, takes_site
from storage_agent.monitoring.api import takes
from storage_agent.monitoring.bodies import read_body

_CHANGE = msgspec.json.Decoder(ConfigChange)
_EXAMPLE = {
    "retention_ms": 604_800_000,
    "streams": {"results/*": 86_400_000},
    "most_bytes": 2_000_000_000,
    "when_full": "evict",
}


def config_routes(agent: Agent) -> APIRouter:
    """Return the routes of an agent."""
    routes = APIRouter(
        tags=["operations"], route_class=relayed(agent.relay), dependencies=[Depends(takes_site)]
    )

    @routes.get("/config", summary="How long and in how much room streams are kept")
    @requires("read")
    async def config() -> Response:
        return _json(agent.config.current)

    @routes.put("/config", summary="Change it", openapi_extra=takes(ConfigChange, _EXAMPLE))
    @requires("admin")
    async def change(request: Request) -> Response:
        """What is left out stays as it is. It is in force at once, and after a restart."""
        body = read_body(_CHANGE, await request.body())
        return _json(await agent.config.change(body))

    return routes


def _json(config: Config) -> Response:
    return Response(msgspec.json.encode(config), media_type="application/json")
