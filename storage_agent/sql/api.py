"""POST /sql: read-only SQL over what this agent keeps."""

from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from msgspec import Meta

from mistbow.auth.rules import requires
from mistbow.streams.wire import MEDIA_TYPE
from storage_agent.agent import Agent
from storage_agent.fabric.relay import relayed, takes_site
from storage_agent.monitoring.api import takes
from storage_agent.monitoring.bodies import Finite, Text, read_body
from storage_agent.sql.tables import Tables

_Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_EXAMPLE = {
    "query": "SELECT entity, avg(value) AS mean FROM historical "
    "WHERE metric = ? AND ts > ? GROUP BY entity ORDER BY mean DESC LIMIT 10",
    "parameters": ["metric1", 1795262400000],
}


class SqlBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a /sql; parameters take the places of ``?`` or ``$1`` in the query."""

    query: Annotated[str, Meta(min_length=1, max_length=100_000)]
    parameters: Annotated[list[_Integer | Finite | bool | Text | None], Meta(max_length=1_000)] = []
    format: Literal["json", "arrow"] = "json"


_BODY = msgspec.json.Decoder(SqlBody)


def sql_routes(agent: Agent) -> APIRouter:
    """Return the routes of an agent."""
    routes = APIRouter(
        tags=["sql"],
        route_class=relayed(agent.relay),
        dependencies=[Depends(takes_site)],
    )

    @routes.post("/sql", summary="Query by SQL", openapi_extra=takes(SqlBody, _EXAMPLE))
    @requires("read", by_entity=True)
    async def sql(request: Request) -> Response:
        """One SELECT of DuckDB over `latest`, `historical`, `metadata` and every stream.

        The answer is `{"columns": [{name, type}], "rows": [[…]]}`, or an Arrow IPC stream.
        """
        body = read_body(_BODY, await request.body())
        tables = Tables(agent.streams, agent.catalogue, agent.history)
        data = await agent.sql.run(body.query, body.parameters, body.format, tables.find)
        kind = "application/json" if body.format == "json" else MEDIA_TYPE
        return Response(data, media_type=kind)

    return routes
