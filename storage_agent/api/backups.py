"""HTTP routes of backups: the cut, the parts of the streams, and the end of a backup."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import StreamingResponse

from mistbow.auth.rules import requires
from mistbow.errors import NotFoundError
from mistbow.http.parameters import only_parameters
from mistbow.openapi import raises
from mistbow.streams.wire import MAX_INT64
from storage_agent.agent.agent import Agent
from storage_agent.http.accept import LINES
from storage_agent.http.responses import json_response
from storage_agent.membership.proxy import proxied_router

PART = "application/octet-stream"


def backups_routes(agent: Agent) -> APIRouter:
    """Return the routes by which a client reads a backup of the site."""
    routes = proxied_router(agent.proxy, "operations", prefix="/backups")

    @routes.post("", status_code=201, summary="Begin a backup")
    @requires("admin")
    async def begin() -> Response:
        """Fix the positions at which the backup ends, and stop compaction until it ends.

        The backup ends when the client ends it, or when the client has sent no request for 15
        minutes. While the client reads the series, the backup does not end.
        """
        return json_response(msgspec.json.encode(await agent.begin_backup()), 201)

    @routes.get("/{backup}/parts/{name:path}", summary="A part of a stream")
    @requires("admin")
    @raises(NotFoundError)
    async def part(
        backup: str,
        name: str,
        start: Annotated[int, Query(alias="from", ge=0, le=MAX_INT64)],
    ) -> Response:
        """Return the stored rows from the position `from` on, up to 64 Ki rows or one run.

        The answer is an Arrow IPC stream whose rows have their positions. It is empty if no rows
        follow before the end of the backup.
        """
        return Response(await agent.backups.part(backup, name, start), media_type=PART)

    @routes.get("/{backup}/series", summary="The metadata of all series")
    @requires("admin")
    @raises(NotFoundError)
    async def series(backup: str) -> StreamingResponse:
        """Return the metadata of all series of this site, one JSON object a line."""
        return StreamingResponse(agent.backups.series(backup, agent.catalogue), media_type=LINES)

    @routes.get("/{backup}/deletions", summary="Deletions that are not compacted yet")
    @requires("admin")
    @raises(NotFoundError)
    async def deletions(backup: str) -> Response:
        """Return the present tombstones of each stream of the backup."""
        return json_response(await agent.backups.deletions(backup))

    @routes.delete(
        "/{backup}",
        status_code=204,
        summary="End a backup",
        dependencies=[Depends(only_parameters("site"))],
    )
    @requires("admin")
    async def end(backup: str) -> None:
        """End a backup; the status is 204 even if the backup has ended."""
        agent.backups.end(backup)

    return routes
