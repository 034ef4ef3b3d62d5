"""Streams over HTTP: make, append, claim, and above all subscribe."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from mistbow.auth.callers import current_caller
from mistbow.auth.rules import requires
from mistbow.errors import ConflictError, InvalidRequestError
from mistbow.streams.schemas import RAW
from mistbow.streams.wire import MEDIA_TYPE
from storage_agent.agent import Agent
from storage_agent.fabric.relay import relayed, takes_site
from storage_agent.monitoring.api import check_key, takes
from storage_agent.monitoring.bodies import (
    AdvanceBody,
    HoldBody,
    check_depth,
    check_notes,
    read_body,
)
from storage_agent.streams import reading
from storage_agent.streams.arrow_bodies import encoded, read_table
from storage_agent.streams.reading import Selection, Selector
from storage_agent.streams.signed import check_readable
from storage_agent.streams.state import State
from storage_agent.streams.streams import RECORDS, REPLICAS, Stream, conform, is_agents_own

_ARROW_BODY = {"requestBody": {"required": True, "content": {MEDIA_TYPE: {}}}}
_ADVANCE = msgspec.json.Decoder(AdvanceBody)
_HOLD = msgspec.json.Decoder(HoldBody)
_MOST_TS = 2**63 - 1

Number = Annotated[int, Query(ge=0, le=_MOST_TS)]
Time = Annotated[int | None, Query(ge=-_MOST_TS, le=_MOST_TS)]


def streams_routes(agent: Agent) -> APIRouter:
    """Return the routes of an agent; those of longer paths come before ``/streams/{name}``."""
    routes = APIRouter(
        prefix="/streams",
        tags=["streams"],
        route_class=relayed(agent.relay),
        dependencies=[Depends(takes_site)],
    )
    _add_state_routes(routes, agent)
    _add_position_routes(routes, agent)
    _add_hold_route(routes, agent)
    _add_row_routes(routes, agent)
    _add_delete_route(routes, agent)
    return routes


def _add_state_routes(routes: APIRouter, agent: Agent) -> None:
    @routes.get("", summary="All streams")
    @requires("read")
    async def all_streams() -> dict[str, Any]:
        return {"streams": [stream.info() for stream in agent.streams.all()]}

    @routes.get("/{name:path}/info", summary="A stream")
    @requires("read")
    async def info(name: str) -> dict[str, Any]:
        return (await agent.streams.get(name)).info()

    @routes.post("/{name:path}/claim", summary="Become a stream's only writer")
    @requires("admin")
    async def claim(name: str) -> dict[str, Any]:
        """Begin a new epoch: appends of older ones are refused from now on."""
        stream = await _writable(agent, name)
        return _state(stream, await stream.writer.claim())

    @routes.patch(
        "/{name:path}", summary="Move a frontier, note attributes", openapi_extra=takes(AdvanceBody)
    )
    @requires("admin")
    async def advance(name: str, request: Request) -> dict[str, Any]:
        """A null attribute is removed; those that are not named stay as they are."""
        content = await request.body()
        body = read_body(_ADVANCE, content)
        check_depth(content.decode(), "attributes")
        check_notes(body.attributes)
        stream = await _writable(agent, name)
        state = await stream.writer.advance(body.epoch, body.frontier, body.attributes)
        return _state(stream, state)


def _add_delete_route(routes: APIRouter, agent: Agent) -> None:
    @routes.delete("/{name:path}", status_code=204, summary="Delete a stream")
    @requires("admin")
    async def delete(name: str) -> None:
        """Its rows are gone at once; who follows it is told. Another of its name may be made."""
        await _writable(agent, name)
        await agent.streams.delete(name)


def _add_hold_route(routes: APIRouter, agent: Agent) -> None:
    @routes.put(
        "/{name:path}/hold",
        status_code=204,
        summary="Have rows kept",
        openapi_extra=takes(HoldBody),
    )
    @requires("admin")
    async def hold(name: str, request: Request) -> None:
        """Keep rows for `keep_ms` after they came, however short the retention is.

        It holds for `for_ms`, and is to be asked for again before that.
        """
        body = read_body(_HOLD, await request.body())
        stream = await agent.streams.get(name)
        await stream.writer.hold(body.holder, body.keep_ms, body.for_ms)
        if name == RAW:
            agent.replication.count_insight(body)


def _add_position_routes(routes: APIRouter, agent: Agent) -> None:
    @routes.get("/{name:path}/seek", summary="Where a time begins")
    @requires("read")
    async def seek(name: str, time: Annotated[int, Query(ge=-_MOST_TS, le=_MOST_TS)]) -> Any:
        """Return the greatest start of a segment before which every row has `ts <= time`."""
        return {"number": await (await agent.streams.get(name)).log.seek(time)}

    @routes.get("/{name:path}/offset", summary="How far a batch may go")
    @requires("read")
    async def offset(
        name: str,
        start: Annotated[int, Query(alias="from", ge=0, le=_MOST_TS)],
        max_rows: Annotated[int, Query(ge=1, le=_MOST_TS)],
        wait_ms: Annotated[int, Query(ge=0, le=60_000)] = 0,
        after_frontier: Time = None,
    ) -> dict[str, int]:
        """Return the furthest end of a segment with at most so many rows; at least one segment.

        Waits at most `wait_ms` for a row, or for a frontier greater than `after_frontier`.
        """
        log = (await agent.streams.get(name)).log
        position = await reading.furthest(log, start, max_rows, after_frontier, wait_ms / 1000)
        return {"next": position.next, "frontier": position.frontier, "head": log.head}


def _add_row_routes(routes: APIRouter, agent: Agent) -> None:
    @routes.put("/{name:path}", summary="Make a stream", openapi_extra=_ARROW_BODY)
    @requires("admin")
    async def create(name: str, request: Request, response: Response) -> dict[str, Any]:
        """The body is an Arrow IPC stream of the schema; the answer is 201 if the stream is new."""
        if name.startswith((REPLICAS, RECORDS)):
            _refuse_own(name)
        made = await agent.streams.create(name, read_table(await request.body()).schema)
        response.status_code = 201 if made else 200
        return (await agent.streams.get(name)).info()

    @routes.post("/{name:path}", summary="Append rows", openapi_extra=_ARROW_BODY)
    @requires("admin")
    async def append(
        name: str,
        request: Request,
        epoch: Annotated[int | None, Query(ge=0, le=_MOST_TS)] = None,
        frontier: Annotated[int, Query(ge=0, le=_MOST_TS)] = 0,
        idempotency_key: Annotated[str | None, Header()] = None,
    ) -> dict[str, int]:
        """The body is an Arrow IPC stream of rows; they are durable once this answers.

        With a `frontier`, that is moved in the same stroke: both are stored or neither.
        """
        check_key(idempotency_key)
        stream = await _writable(agent, name)
        rows = conform(read_table(await request.body()), stream.log.schema)
        if rows.num_rows == 0:
            log = stream.log
            if frontier:
                await stream.writer.advance(epoch, frontier)
            return {"first": log.head, "next": log.head, "frontier": log.frontier}
        key = None if idempotency_key is None else current_caller().own(idempotency_key)
        done = await stream.writer.append(rows, epoch=epoch, key=key, frontier=frontier)
        return {"first": done.first, "next": done.next, "frontier": done.frontier}

    @routes.get("/{name:path}", summary="Subscribe", response_class=StreamingResponse)
    @requires("read")
    async def subscribe(
        name: str,
        selection: Annotated[Selection, Depends(chosen_rows)],
        start: Annotated[int, Query(alias="from", ge=0, le=_MOST_TS)] = 0,
        end: Annotated[int | None, Query(alias="to", ge=0, le=_MOST_TS)] = None,
        follow: bool = False,
    ) -> StreamingResponse:
        """Rows from a number, as an Arrow IPC stream, and with `follow` all that come later.

        Each batch tells in its metadata the `next` number and the `frontier` after it.
        """
        check_readable(name)
        stream = await agent.streams.get(name)
        selector = Selector(stream, selection)
        read = reading.follow if follow else reading.read
        chunks = (found.chunk async for found in read(stream.log, selector, start, end))
        # What is wrong with the request shows at the first chunk, while the status can tell.
        first = await anext(chunks)
        return StreamingResponse(encoded(selector.schema, first, chunks), media_type=MEDIA_TYPE)


def chosen_rows(
    match: Annotated[list[str] | None, Query(description="column:value, repeatable")] = None,
    columns: Annotated[str | None, Query(description="names with commas between")] = None,
    late: Annotated[bool | None, Query(description="only late rows, or only others")] = None,
    min_ts: Time = None,
    max_ts: Time = None,
) -> Selection:
    """Return the selection that a query's parameters make; raises ``InvalidRequestError``."""
    matches: dict[str, list[str]] = {}
    for text in match or []:
        column, colon, value = text.partition(":")
        if not colon:
            raise InvalidRequestError(f"match={text}: it is not of the form column:value")
        matches.setdefault(column, []).append(value)
    wanted = [name.strip() for name in columns.split(",")] if columns else []
    return Selection(matches, wanted, late, min_ts, max_ts)


async def _writable(agent: Agent, name: str) -> Stream:
    _refuse_own(name)
    return await agent.streams.get(name)


def _refuse_own(name: str) -> None:
    if is_agents_own(name):
        hint = "POST /put appends to it." if name == RAW else "It can be read only."
        if name.startswith(REPLICAS):
            hint += " DELETE /replication/replicas/SITE/ID deletes a replica."
        raise ConflictError(f"the stream {name} belongs to this agent", hint=hint)


def _state(stream: Stream, state: State) -> dict[str, Any]:
    return {
        "epoch": state.epoch,
        "head": stream.log.head,
        "frontier": state.frontier,
        "attributes": state.attributes,
        "bytes": stream.log.bytes,
    }
