"""Rows of a stream for people and browsers: pages of JSON, and server-sent events."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa
from fastapi import APIRouter, Depends, Header, Query, Response
from sse_starlette import EventSourceResponse, ServerSentEvent

from mistbow.auth.rules import requires
from mistbow.errors import InvalidRequestError, MistbowError
from mistbow.streams.wire import Position
from storage_agent.agent import Agent
from storage_agent.fabric.relay import relayed, takes_site
from storage_agent.streams import reading
from storage_agent.streams.api import chosen_rows
from storage_agent.streams.json_values import encode, objects
from storage_agent.streams.log import StreamLog
from storage_agent.streams.reading import Found, Selection, Selector
from storage_agent.streams.signed import check_readable
from storage_agent.streams.streams import Stream

_MOST_TS = 2**63 - 1
_MOST_ROWS = 10_000
_LOOK_S = 2.0
"""After so long a page ends with what was found."""

_BEAT_S = 2.0
_PING_S = 15
_SEND_S = 30.0
"""A reader that takes nothing for so long is let go."""

_ROWS_AT_ONCE = 500
_MOST_SPAN = 50_000
"""Most numbers that are looked at at once for one who follows."""


def rows_routes(agent: Agent) -> APIRouter:
    """Return the routes of an agent; they come before those of ``/streams/{name}``."""
    routes = APIRouter(
        prefix="/streams",
        tags=["streams"],
        route_class=relayed(agent.relay),
        dependencies=[Depends(takes_site)],
    )

    @routes.get("/{name:path}/rows", summary="Rows as JSON")
    @requires("read")
    async def rows(
        name: str,
        selection: Annotated[Selection, Depends(chosen_rows)],
        start: Annotated[int, Query(alias="from", ge=0, le=_MOST_TS)] = 0,
        end: Annotated[int | None, Query(alias="to", ge=0, le=_MOST_TS)] = None,
        limit: Annotated[int, Query(ge=1, le=_MOST_ROWS)] = 1000,
    ) -> Response:
        """At most `limit` of the rows wanted; go on at `next`, until that is `to` or `head`.

        A page may have fewer rows, or none, where few are wanted among many.
        """
        check_readable(name)
        stream = await agent.streams.get(name)
        page = await _page(stream.log, Selector(stream, selection), start, end, limit)
        answer = {
            "rows": [row for part in page.parts for row in objects(part)],
            "next": page.position.next,
            "frontier": page.position.frontier,
            "head": stream.log.head,
        }
        return Response(encode(answer), media_type="application/json")

    @routes.get("/{name:path}/events", summary="Follow", response_class=EventSourceResponse)
    @requires("read")
    async def events(
        name: str,
        selection: Annotated[Selection, Depends(chosen_rows)],
        start: Annotated[int | None, Query(alias="from", ge=0, le=_MOST_TS)] = None,
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> EventSourceResponse:
        """Server-sent events `row`, from `from` or else from now on.

        An `id` is the number to go on from: `Last-Event-ID` resumes there, and nothing is missed.
        Where there are no rows, an event `position` tells every 2 s how far the stream is.
        """
        check_readable(name)
        stream = await agent.streams.get(name)
        begin = stream.log.head if start is None else start
        if last_event_id is not None:
            begin = _number(last_event_id)
        selector = Selector(stream, selection)
        # A number beyond the head is refused while the status can tell.
        await anext(reading.read(stream.log, selector, begin, begin))
        return EventSourceResponse(
            _events(agent, stream, selector, begin), ping=_PING_S, send_timeout=_SEND_S
        )

    return routes


@dataclass(slots=True)
class _Page:
    """Rows so far, how many they are, and the position after them."""

    parts: list[pa.RecordBatch]
    rows: int
    position: Position

    def add(self, rows: pa.RecordBatch, position: Position) -> None:
        self.parts.append(rows)
        self.rows += rows.num_rows
        self.position = position


async def _page(
    log: StreamLog, selector: Selector, start: int, end: int | None, limit: int
) -> _Page:
    deadline = time.monotonic() + _LOOK_S
    page = _Page([], 0, Position(start, 0))
    span = limit
    while True:
        stop = page.position.next + span
        near = stop if end is None else min(stop, end)
        async for found in reading.read(log, selector, page.position.next, near):
            room = limit - page.rows
            if found.rows.num_rows > room:
                after = int(found.numbers[room - 1]) + 1
                position = Position(after, await log.frontier_at(after))
                page.add(found.rows.slice(0, room), position)
            else:
                page.add(found.rows, found.position)
            if page.rows == limit or time.monotonic() > deadline:
                return page
        if near == end or page.position.next >= log.head:
            return page
        # Where few rows are wanted, more is looked at at once.
        span = min(2 * span, _MOST_SPAN)


async def _events(
    agent: Agent, stream: Stream, selector: Selector, begin: int
) -> AsyncIterator[bytes]:
    """Yield the events of some rows at a time, and one of the position now and then.

    The stream is read on at the reader's pace, and little of it is held meanwhile.
    """
    log, position, span = stream.log, Position(begin, 0), _ROWS_AT_ONCE
    told = time.monotonic()
    with contextlib.suppress(MistbowError):  # the reader connects anew, and learns what is wrong
        while await agent.streams.get(stream.name) is stream:
            changed = log.ask()
            rows = 0
            async for found in reading.read(log, selector, position.next, position.next + span):
                for text in _texts(found):
                    yield text
                    await asyncio.sleep(0)  # sending to who reads fast lets nobody have a turn
                    told = time.monotonic()
                rows += found.rows.num_rows
                position = found.position
            # Where few rows are wanted, more is looked at at once.
            span = min(2 * span, _MOST_SPAN) if 2 * rows < _ROWS_AT_ONCE else _ROWS_AT_ONCE
            if time.monotonic() - told >= _BEAT_S:
                yield _beat(position)
                told = time.monotonic()
            if position.next >= log.head:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_BEAT_S):
                        await changed.wait()


def _beat(position: Position) -> bytes:
    told = {"next": position.next, "frontier": position.frontier}
    return _event("position", encode(told), position.next)


def _texts(found: Found) -> Iterator[bytes]:
    """Yield events of rows, some at a time; the id of each is the number to go on from."""
    after = (found.numbers + 1).tolist()
    for begin in range(0, found.rows.num_rows, _ROWS_AT_ONCE):
        rows = objects(found.rows.slice(begin, _ROWS_AT_ONCE))
        events = (_event("row", encode(row), after[at]) for at, row in enumerate(rows, begin))
        yield b"".join(events)


def _event(kind: str, data: bytes, after: int) -> bytes:
    return ServerSentEvent(data.decode(), event=kind, id=str(after)).encode()


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > _MOST_TS:
        raise InvalidRequestError(
            f"Last-Event-ID: {text[:100]!r} is no number of a row",
            hint="Send the id of an event of this stream.",
        )
    return int(text)
