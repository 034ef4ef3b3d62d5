"""The results of a deployment: the latest, and those to come."""

from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Header, Query, Response
from sse_starlette import EventSourceResponse, ServerSentEvent

from analytics_enabler.deployments.service import Deployments
from analytics_enabler.limits import MOST_RESULTS
from analytics_enabler.results.follower import Follower
from analytics_enabler.results.places import Places
from analytics_enabler.results.positions import Start, starts_of, text_of
from analytics_enabler.results.reader import ResultReader
from analytics_enabler.results.selection import select
from analytics_enabler.results.streams import ResultStreams
from mistbow.auth.callers import current_caller
from mistbow.auth.rules import requires
from mistbow.errors import InvalidRequestError
from mistbow.insights import Results

PING_S = 15
LATEST_MS = 253_402_300_799_999  # the end of the year 9999

Time = Annotated[int | None, Query(ge=0, le=LATEST_MS)]


def results_router(
    deployments: Deployments, reader: ResultReader, followed: ResultStreams, places: Places
) -> APIRouter:
    """Return the routes under ``/api/insights/{id}/results``.

    Followers have the client ``followed`` to themselves, so that they keep nobody else waiting.
    """
    router = APIRouter(prefix="/api/insights/{deployment_id}/results", tags=["results"])

    @router.get("", response_model=Results)
    @requires("read")
    async def results(
        deployment_id: str,
        insight: str | None = None,
        start: Annotated[Time, Query(alias="from")] = None,
        end: Annotated[Time, Query(alias="to")] = None,
        limit: Annotated[int, Query(ge=1, le=MOST_RESULTS)] = 1000,
    ) -> Response:
        """Return the latest results that stand, by time; ``from`` and ``to`` are inclusive.

        Those of signed insights only with a token that carries the signature.
        """
        if start is not None and end is not None and start > end:
            raise InvalidRequestError(
                f"from ({start}) is after to ({end})", hint="Both are ms since the epoch."
            )
        selection = select(deployments.find(deployment_id), insight, current_caller())
        # Before the results are read: what comes in between is followed too.
        starts = await reader.starts(selection)
        latest = await reader.latest(selection, start=start, end=end, limit=limit)
        answer = {
            "results": latest.rows,
            "next": text_of(starts),
            "missing_sites": latest.missing_sites,
        }
        # Validating rows that this service made itself would take longer than reading them.
        return Response(msgspec.json.encode(answer), media_type="application/json")

    @router.get("/follow", response_class=EventSourceResponse, dependencies=[Depends(places.one)])
    @requires("read")
    async def follow(
        deployment_id: str,
        insight: str | None = None,
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> EventSourceResponse:
        """Follow results as they come: events ``result``, each a row that changes what stands."""
        caller = current_caller()
        selection = select(deployments.find(deployment_id), insight, caller)
        asked = None if last_event_id is None else starts_of(last_event_id)
        starts = await reader.starts(selection)
        if asked is not None:
            starts = {g: _at_most(start, starts.get(g, start)) for g, start in asked.items()}
        follower = Follower(
            followed,
            lambda: deployments.find(deployment_id),
            insight,
            dict(starts),
            caller,
        )
        for identity, revision in await reader.revisions(selection, starts):
            follower.memory.changes(identity, revision)
        return EventSourceResponse(_events(follower), ping=PING_S)

    return router


def _at_most(asked: Start, head: Start) -> Start:
    """Return what was asked for, but no number that the stream does not have yet."""
    return min(asked, head) if isinstance(asked, int) and isinstance(head, int) else asked


async def _events(follower: Follower) -> AsyncIterator[ServerSentEvent]:
    async for position, row in follower.results():
        data = msgspec.json.encode(row).decode()
        yield ServerSentEvent(data, event="result", id=position)
