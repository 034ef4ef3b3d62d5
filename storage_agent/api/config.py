"""GET and PUT /config: the configuration that can be changed while the agent runs."""

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from mistbow.auth.rules import requires
from mistbow.client.operation_model import Config, ConfigChange
from mistbow.http.parameters import only_parameters
from storage_agent.agent.agent import Agent
from storage_agent.http.decode import decode_renamed
from storage_agent.http.openapi import json_body
from storage_agent.http.responses import json_response
from storage_agent.membership.proxy import proxied_router

_CHANGE = msgspec.json.Decoder(ConfigChange)
_EXAMPLE = {
    "retention_ms": 604_800_000,
    "streams": {"results/*": 86_400_000},
    "most_bytes": 2_000_000_000,
    "when_full": "evict",
}


def config_routes(agent: Agent) -> APIRouter:
    """Return the routes that read and change an agent's configuration."""
    routes = proxied_router(agent.proxy, "operations")

    @routes.get("/config", summary="Retention and limits of storage")
    @requires("read")
    async def config() -> Response:
        return _encode(agent.config.current)

    @routes.put(
        "/config",
        summary="Change the configuration",
        openapi_extra=json_body(ConfigChange, _EXAMPLE),
        dependencies=[Depends(only_parameters("site"))],
    )
    @requires("admin")
    async def change(request: Request) -> Response:
        """Set the fields of the body, at once and durably; omitted fields keep their values."""
        body = decode_renamed(_CHANGE, await request.body(), {"max_bytes": "most_bytes"})
        return _encode(await agent.config.change(body))

    return routes


def _encode(config: Config) -> Response:
    return json_response(msgspec.json.encode(config))
