"""Routes for the latest results of a deployment, and for following new results."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping
from contextlib import aclosing
from itertools import chain
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Depends, Header, Query, Response
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import iterate_in_threadpool
from starlette.responses import StreamingResponse

from analytics.insight_models import Results
from analytics_enabler.api.dependencies import proxied_to_owner
from analytics_enabler.api.live_answers import until_standby
from analytics_enabler.deployments.model import Generation
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.domains.proxy import DomainProxy
from analytics_enabler.domains.role import RoleCell
from analytics_enabler.execution.settled_results import SettledResults
from analytics_enabler.limits import MAX_RESULTS, MAX_RESULTS_WAIT_S
from analytics_enabler.results.cursor import Start, decode_cursor
from analytics_enabler.results.export import MEDIA_TYPES, FileFormat, export
from analytics_enabler.results.follower import ResultFollower
from analytics_enabler.results.follower_limit import FollowerLimit
from analytics_enabler.results.reader import LatestResults, ResultReader
from analytics_enabler.results.selection import select
from analytics_enabler.results.streams import ResultStreams
from mistbow.auth.callers import current_caller
from mistbow.auth.rules import requires
from mistbow.client.fields import MAX_TIMESTAMP_MS
from mistbow.errors import InvalidRequestError, NotFoundError, TooLargeError
from mistbow.openapi import raises
from mistbow.streams.wire import Position
from mistbow.timestamps import Timestamps

PING_S = 15
_MAX_WHOLE_ROWS = 1000
"""The number of results up to which an answer is not sent in parts."""

_MAX_INT64 = 2**63 - 1

Time = Annotated[int | None, Query(ge=0, le=_MAX_INT64)]


def results_router(
    deployments: Deployments,
    reader: ResultReader,
    followed: ResultStreams,
    follower_limit: FollowerLimit,
    times: Timestamps,
    proxy: DomainProxy,
    settled_results: SettledResults,
    role: RoleCell,
) -> APIRouter:
    """Return the routes under ``/api/insights/{id}/results``.

    ``followed``: the streams of results that clients follow. These streams are read with a separate
    client of the storage agent, so that open streams do not block other requests. ``times``: reads
    the times of requests. ``proxy``: proxies requests for deployments of other domains.
    ``settled_results``: waits for settled results. ``role``: ends the events of a standby.
    """
    router = APIRouter(
        prefix="/api/insights/{deployment_id}/results",
        tags=["results"],
        dependencies=[Depends(proxied_to_owner(deployments, proxy))],
    )

    @router.get("", response_model=Results)
    @requires("read")
    @raises(NotFoundError, TooLargeError)
    async def results(
        deployment_id: str,
        insight: str | None = None,
        start: Annotated[Time, Query(alias="from")] = None,
        end: Annotated[Time, Query(alias="to")] = None,
        limit: Annotated[int, Query(ge=1, le=MAX_RESULTS)] = 1000,
        settled_until: Time = None,
        wait: Annotated[float, Query(ge=0, le=MAX_RESULTS_WAIT_S)] = 0.0,
    ) -> Response:
        """Return the latest results in time order, each in its latest revision.

        `from` and `to` are inclusive. Reading the results of a signed insight requires a token with
        the signature of the insight. `settled_until` asks whether the results up to this time are
        complete and include all points that are stored, and `wait` is the time (s) to wait for it.
        """
        start, end = _read_span(times, start, end)
        settled_until = _read_time(times, settled_until, "settled_until")
        if wait and settled_until is None:
            raise InvalidRequestError(
                "wait has no effect without settled_until",
                hint="Send settled_until, the time (ms) up to which results are to be settled.",
            )
        caller = current_caller()
        selection = select(deployments.find(deployment_id), insight, caller)
        unsettled: list[str] = []
        if settled_until is not None:

            def selected() -> Collection[Generation]:
                chosen = select(deployments.find(deployment_id), insight, caller)
                return chosen.generations.values()

            unsettled = await settled_results.wait(selected, settled_until, wait)
            selection = select(deployments.find(deployment_id), insight, caller)
        # Before the results are read, so that a follower misses none in between.
        end_of_results = await reader.end(selection)
        latest = await reader.latest(selection, start=start, end=end, limit=limit)
        answer: dict[str, Any] = {
            "next": str(end_of_results),
            "missing_sites": latest.missing_sites,
        }
        if settled_until is not None:
            is_settled = not unsettled and not latest.missing_sites
            answer = {**answer, "settled": is_settled, "unsettled": unsettled}
        # Validation of the rows would take longer than reading them.
        parts = _encode(latest, answer)
        if latest.table.num_rows <= _MAX_WHOLE_ROWS:
            return Response(b"".join(parts), media_type="application/json")
        return StreamingResponse(iterate_in_threadpool(parts), media_type="application/json")

    @router.get("/download")
    @requires("read")
    @raises(NotFoundError, TooLargeError)
    async def download(
        deployment_id: str,
        format: Annotated[FileFormat, Query(description="The format of the file.")] = "csv",
        insight: str | None = None,
        start: Annotated[Time, Query(alias="from")] = None,
        end: Annotated[Time, Query(alias="to")] = None,
        limit: Annotated[int, Query(ge=1, le=MAX_RESULTS)] = MAX_RESULTS,
    ) -> Response:
        """Return the latest results as a file, each in its latest revision.

        The columns are the fields of a result. The column `key` is JSON, as are lists in CSV.
        """
        start, end = _read_span(times, start, end)
        selection = select(deployments.find(deployment_id), insight, current_caller())
        latest = await reader.latest(selection, start=start, end=end, limit=limit)
        rows = chain.from_iterable(latest.batches())
        content = await asyncio.to_thread(export, rows, format)
        name = f"{deployment_id}{'' if insight is None else f'-{insight}'}.{format}"
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
        if latest.missing_sites:
            headers["Mistbow-Missing-Sites"] = ",".join(latest.missing_sites)
        return Response(content, media_type=MEDIA_TYPES[format], headers=headers)

    @router.get(
        "/follow",
        response_class=EventSourceResponse,
        dependencies=[Depends(follower_limit.follower)],
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
        newest = await reader.end(selection)
        starts = dict(newest.starts)
        if resumed is not None:
            begun = resumed.starts_at(newest.site, selection.groups)
            starts = {g: _at_most(start, starts.get(g, start)) for g, start in begun.items()}
        follower = ResultFollower(
            followed,
            lambda: deployments.find(deployment_id),
            insight,
            starts,
            caller,
        )
        for identity, revision in await reader.revisions(selection, starts):
            follower.revisions.add(identity, revision)
        return EventSourceResponse(until_standby(role, _events(follower)), ping=PING_S)

    return router


def _encode(latest: LatestResults, more: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the parts of the JSON answer with results; ``more``: its other fields."""
    separator = b""
    yield b'{"results":['
    for rows in latest.batches():
        yield separator + msgspec.json.encode(rows)[1:-1]
        separator = b","
    yield b"]," + msgspec.json.encode(more)[1:]


def _read_span(
    times: Timestamps, start: int | None, end: int | None
) -> tuple[int | None, int | None]:
    start, end = (_read_time(times, *each) for each in ((start, "from"), (end, "to")))
    if start is not None and end is not None and start > end:
        raise InvalidRequestError(
            f"from ({start}) is after to ({end})",
            hint="Send `from` and `to` in ms since the epoch, with `from` at most `to`.",
        )
    return start, end


def _read_time(times: Timestamps, time: int | None, path: str) -> int | None:
    read = None if time is None else int(times.read(time, path))
    if read is not None and read > MAX_TIMESTAMP_MS:
        raise InvalidRequestError(
            f"{path}: {time} is beyond the year 9999", hint="Send milliseconds since the epoch."
        )
    return read


def _at_most(start: Start, end: Start) -> Start:
    """Return ``start``; if ``start`` is a position after ``end``, return ``end``."""
    if isinstance(start, Position) and isinstance(end, Position) and start.next > end.next:
        return end
    return start


async def _events(follower: ResultFollower) -> AsyncGenerator[ServerSentEvent, None]:
    async with aclosing(follower.results()) as results:
        async for cursor, row in results:
            data = msgspec.json.encode(row).decode()
            yield ServerSentEvent(data, event="result", id=cursor)
