"""Routes for the latest results of a deployment, and for following new results."""

from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Header, Query, Response
from sse_starlette import EventSourceResponse, ServerSentEvent

from analytics.insight_models import Results
from analytics_enabler.api.dependencies import proxied_to_owner
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.domains.proxy import DomainProxy
from analytics_enabler.limits import MAX_RESULTS
from analytics_enabler.results.cursor import Start, decode_cursor, encode_cursor
from analytics_enabler.results.follower import ResultFollower
from analytics_enabler.results.follower_limit import FollowerLimit
from analytics_enabler.results.reader import ResultReader
from analytics_enabler.results.selection import select
from analytics_enabler.results.streams import ResultStreams
from mistbow.auth.callers import current_caller
from mistbow.auth.rules import requires
from mistbow.client.fields import MAX_TIMESTAMP_MS
from mistbow.errors import InvalidRequestError, NotFoundError
from mistbow.openapi import raises
from mistbow.timestamps import Timestamps

PING_S = 15
_MAX_INT64 = 2**63 - 1

Time = Annotated[int | None, Query(ge=0, le=_MAX_INT64)]


def results_router(
    deployments: Deployments,
    reader: ResultReader,
    followed: ResultStreams,
    limit: FollowerLimit,
    times: Timestamps,
    proxy: DomainProxy,
) -> APIRouter:
    """Return the routes under ``/api/insights/{id}/results``.

    ``followed``: the streams of results that clients follow. These streams are read with a separate
    client of the storage agent, so that open streams do not block other requests. ``times``: reads
    the times of requests. ``proxy``: proxies requests for deployments of other domains.
    """
    router = APIRouter(
        prefix="/api/insights/{deployment_id}/results",
        tags=["results"],
        dependencies=[Depends(proxied_to_owner(deployments, proxy))],
    )

    @router.get("", response_model=Results)
    @requires("read")
    @raises(NotFoundError)
    async def results(
        deployment_id: str,
        insight: str | None = None,
        start: Annotated[Time, Query(alias="from")] = None,
        end: Annotated[Time, Query(alias="to")] = None,
        limit: Annotated[int, Query(ge=1, le=MAX_RESULTS)] = 1000,
    ) -> Response:
        """Return the latest results in time order, each in its latest revision.

        `from` and `to` are inclusive. Reading the results of a signed insight requires a token with
        the signature of the insight.
        """
        start, end = (_read_time(times, *each) for each in ((start, "from"), (end, "to")))
        if start is not None and end is not None and start > end:
            raise InvalidRequestError(
                f"from ({start}) is after to ({end})",
                hint="Send a from that is at most to, both in ms since the epoch.",
            )
        selection = select(deployments.find(deployment_id), insight, current_caller())
        # Before the results are read, so that a follower misses none in between.
        starts = await reader.starts(selection)
        latest = await reader.latest(selection, start=start, end=end, limit=limit)
        answer = {
            "results": latest.rows,
            "next": encode_cursor(starts),
            "missing_sites": latest.missing_sites,
        }
        # Validation of the rows would take longer than reading them.
        return Response(msgspec.json.encode(answer), media_type="application/json")

    @router.get(
        "/follow", response_class=EventSourceResponse, dependencies=[Depends(limit.follower)]
    )
    @requires("read")
    @raises(NotFoundError)
    async def follow(
        deployment_id: str,
        insight: str | None = None,
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> EventSourceResponse:
        """Send a server-sent event `result` for each new result and each new revision."""
        caller = current_caller()
        selection = select(deployments.find(deployment_id), insight, caller)
        resumed = None if last_event_id is None else decode_cursor(last_event_id)
        starts = await reader.starts(selection)
        if resumed is not None:
            starts = {g: _at_most(start, starts.get(g, start)) for g, start in resumed.items()}
        follower = ResultFollower(
            followed,
            lambda: deployments.find(deployment_id),
            insight,
            dict(starts),
            caller,
        )
        for identity, revision in await reader.revisions(selection, starts):
            follower.revisions.add(identity, revision)
        return EventSourceResponse(_events(follower), ping=PING_S)

    return router


def _read_time(times: Timestamps, time: int | None, path: str) -> int | None:
    read = None if time is None else int(times.read(time, path))
    if read is not None and read > MAX_TIMESTAMP_MS:
        raise InvalidRequestError(
            f"{path}: {time} is beyond the year 9999", hint="Send milliseconds since the epoch."
        )
    return read


def _at_most(start: Start, head: Start) -> Start:
    """Return ``start``; if ``start`` is a position after ``head``, return ``head``."""
    return min(start, head) if isinstance(start, int) and isinstance(head, int) else start


async def _events(follower: ResultFollower) -> AsyncIterator[ServerSentEvent]:
    async for cursor, row in follower.results():
        data = msgspec.json.encode(row).decode()
        yield ServerSentEvent(data, event="result", id=cursor)
