"""POST /sql: read-only SQL over the points and streams of this agent."""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import Meta

from mistbow.auth.rules import requires
from mistbow.client.fields import Finite, Text
from mistbow.errors import NotAcceptableError
from mistbow.openapi import raises
from storage_agent.agent.agent import Agent
from storage_agent.http.abandonment import only_reads
from storage_agent.http.accept import ARROW, JSON, LINES, ROW_TYPES, accept_of, negotiate
from storage_agent.http.decode import decode_body
from storage_agent.http.openapi import json_body
from storage_agent.membership.proxy import proxied_router
from storage_agent.sql.messages import Format
from storage_agent.sql.tables import SqlTables

_Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_EXAMPLE = {
    "query": "SELECT entity, avg(value) AS mean FROM historical "
    "WHERE metric = ? AND ts > ? GROUP BY entity ORDER BY mean DESC LIMIT 10",
    "parameters": ["metric1", 1795262400000],
}


class SqlBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a /sql request.

    ``parameters``: the values for ``?`` or ``$1`` in the query. ``format``: the format of the
    answer; None: the header ``Accept`` selects the format.
    """

    query: Annotated[str, Meta(min_length=1, max_length=100_000)]
    parameters: Annotated[list[_Integer | Finite | bool | Text | None], Meta(max_length=1_000)] = []
    format: Literal["json", "arrow"] | None = None


_FORMATS: Mapping[str, Format] = {JSON: "json", ARROW: "arrow", LINES: "lines"}
_MEDIA_TYPES: Mapping[str | None, str] = {"json": JSON, "arrow": ARROW}
_BODY = msgspec.json.Decoder(SqlBody)


def sql_routes(agent: Agent) -> APIRouter:
    """Return a router with the route ``POST /sql``."""
    routes = proxied_router(agent.proxy, "sql")

    @routes.post("/sql", summary="Query by SQL", openapi_extra=json_body(SqlBody, _EXAMPLE))
    @only_reads
    @requires("read", by_entity=True)
    @raises(NotAcceptableError)
    async def sql(request: Request) -> Response:
        """Run a DuckDB SELECT over the tables `latest`, `historical`, `metadata` and all streams.

        The answer is `{"columns": [{name, type}], "rows": [[…]]}`, an Arrow IPC stream, or
        line-delimited JSON, as `format` or the header `Accept` selects.
        """
        body = decode_body(_BODY, await request.body())
        media_type = _MEDIA_TYPES.get(body.format) or negotiate(accept_of(request), ROW_TYPES)
        history = agent.history
        tables = SqlTables(agent.streams, agent.catalogue, history)
        data = await agent.sql.run(
            body.query, body.parameters, _FORMATS[media_type], tables.find, history.unstored()
        )
        return Response(data, media_type=media_type)

    return routes
