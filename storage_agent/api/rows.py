"""HTTP routes that return the rows of a stream as JSON: in pages, or as server-sent events."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa
from fastapi import APIRouter, Depends, Header, Query, Response
from sse_starlette import EventSourceResponse

from mistbow.auth.rules import requires
from mistbow.errors import ConflictError, InvalidRequestError, MistbowError, NotFoundError
from mistbow.openapi import raises
from mistbow.streams.wire import MAX_INT64, Position
from mistbow.timestamps import Timestamps
from storage_agent.agent.agent import Agent
from storage_agent.api.streams import row_selection
from storage_agent.http.abandonment import only_reads
from storage_agent.membership.proxy import proxied_router
from storage_agent.streams import subscription
from storage_agent.streams.columns import Int64s, without_unused_words
from storage_agent.streams.json_values import encode, objects
from storage_agent.streams.log import StreamLog
from storage_agent.streams.read_access import check_readable
from storage_agent.streams.streams import Stream
from storage_agent.streams.subscription import RowSelection, RowSelector, SelectedRows

_MAX_PAGE_ROWS = 10_000
_MAX_PAGE_S = 2.0
"""The time (s) after which a page ends, with the rows found so far."""

_MAX_PAGE_BYTES = 16 * 2**20
"""The size of a page in Arrow, which only its last row exceeds; in JSON, lists take far more."""

_POSITION_INTERVAL_S = 2.0
_PING_S = 15
_SEND_TIMEOUT_S = 30.0
"""The time (s) after which a reader that receives nothing is disconnected."""

_BATCH_ROWS = 500
_BATCH_BYTES = 4 * 2**20
"""The maximum number and size of rows that are encoded and sent at once, but at least one row."""

_MAX_LOOP_BYTES = 64 * 2**10
"""The maximum size of rows that are encoded in the event loop; a row may have long lists."""

_READ_ROWS = 10_000
"""The number of positions to read at once: a run that is not cached is decoded for each read."""

_MAX_SPAN = 50_000
"""The number of positions to scan before other tasks of the event loop may run."""


def rows_routes(agent: Agent, times: Timestamps) -> APIRouter:
    """Return the routes that read the rows of streams as JSON.

    These routes must be added before the routes of ``/streams/{name}``.
    """
    routes = proxied_router(agent.proxy, "streams", prefix="/streams")
    encoder = EventEncoder()

    @routes.get("/{name:path}/rows", summary="Rows as JSON")
    @only_reads
    @requires("read")
    @raises(ConflictError, NotFoundError)
    async def rows(
        name: str,
        selection: Annotated[RowSelection, Depends(row_selection(times))],
        start: Annotated[int, Query(alias="from", ge=0, le=MAX_INT64)] = 0,
        end: Annotated[int | None, Query(alias="to", ge=0, le=MAX_INT64)] = None,
        limit: Annotated[int, Query(ge=1, le=_MAX_PAGE_ROWS)] = 1000,
    ) -> Response:
        """Return a page of at most `limit` selected rows.

        For the next page, set `from` to the `next` of the answer. At the last page, `next` equals
        `head`, or `to` if it is smaller. A page may have fewer rows, or no rows, if few rows are
        selected.
        """
        check_readable(name)
        stream = await agent.streams.get(name)
        page = await _page(stream.log, RowSelector(stream, selection), start, end, limit)
        content = await asyncio.to_thread(page.to_json, stream.log.head)
        return Response(content, media_type="application/json")

    @routes.get(
        "/{name:path}/events",
        summary="Subscribe by server-sent events",
        response_class=EventSourceResponse,
    )
    @requires("read")
    @raises(ConflictError, NotFoundError)
    async def events(
        name: str,
        selection: Annotated[RowSelection, Depends(row_selection(times))],
        start: Annotated[int | None, Query(alias="from", ge=0, le=MAX_INT64)] = None,
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> EventSourceResponse:
        """Send a `row` event for each selected row from the position `from` on.

        By default, `from` is the head of the stream. The `id` of an event is the position after its
        row. A client that sends this id as `Last-Event-ID` resumes at this position without loss.
        While there are no rows to send, a `position` event is sent every 2 s.
        """
        check_readable(name)
        stream = await agent.streams.get(name)
        begin = stream.log.head if start is None else start
        if last_event_id is not None:
            begin = _parse_position(last_event_id)
        selector = RowSelector(stream, selection)
        # A position beyond the head raises here, while the status can still be set.
        await anext(subscription.read(stream.log, selector, begin, begin))
        return EventSourceResponse(
            _events(agent, stream, selector, begin, encoder),
            ping=_PING_S,
            send_timeout=_SEND_TIMEOUT_S,
        )

    return routes


@dataclass(slots=True)
class _Page:
    """A page to which rows are still added.

    ``batches``: the selected rows. ``rows``: the number of these rows. ``position``: the position
    up to which the stream was scanned. ``size``: the size of the rows in Arrow (bytes).
    """

    batches: list[pa.RecordBatch]
    rows: int
    position: Position
    size: int = 0

    def add(self, rows: pa.RecordBatch, position: Position) -> None:
        self.batches.append(rows)
        self.rows += rows.num_rows
        self.size += rows.nbytes
        self.position = position

    def to_json(self, head: int) -> bytes:
        return encode(
            {
                "rows": [row for batch in self.batches for row in objects(batch)],
                "next": self.position.next,
                "frontier": self.position.frontier,
                "head": head,
            }
        )


async def _page(
    log: StreamLog, selector: RowSelector, start: int, end: int | None, limit: int
) -> _Page:
    deadline = time.monotonic() + _MAX_PAGE_S
    page = _Page([], 0, Position(start, 0))
    span = limit
    while True:
        stop = page.position.next + span
        near = stop if end is None else min(stop, end)
        found_before = page.rows
        async for found in subscription.read(log, selector, page.position.next, near):
            left = min(limit - page.rows, _rows_within(found.rows, _MAX_PAGE_BYTES - page.size))
            if found.rows.num_rows > left:
                after = int(found.positions[left - 1]) + 1
                position = Position(after, await log.frontier_at(after))
                page.add(found.rows.slice(0, left), position)
            else:
                page.add(found.rows, found.position)
            full = page.rows == limit or page.size >= _MAX_PAGE_BYTES
            if full or left < found.rows.num_rows or time.monotonic() > deadline:
                return page
        if near == end or page.position.next >= log.head:
            return page
        span = _next_span(span, has_rows=page.rows > found_before)


def _rows_within(rows: pa.RecordBatch, size: int) -> int:
    """Return how many of the first rows take about ``size`` bytes, at least one."""
    share = min(1, size / max(1, rows.nbytes))
    return max(1, int(rows.num_rows * share))


def _next_span(span: int, *, has_rows: bool) -> int:
    """Return the number of positions to scan next; without rows, there may be a wide gap.

    A restored backup leaves a gap.
    """
    return min(2 * span, _MAX_SPAN) if has_rows else 2 * span


class EventEncoder:
    """Encodes the rows of all readers, one small and one large batch at a time.

    So other requests wait for one batch, however many readers there are.
    """

    def __init__(self) -> None:
        self._small = asyncio.Lock()
        self._large = asyncio.Lock()

    async def encode(self, found: SelectedRows, start: int, count: int) -> bytes:
        """Return encoded `row` events of a batch; a thread encodes a large batch.

        ``start``, ``count``: the index of the first row of the batch, and the number of its rows.
        """
        rows = found.rows.slice(start, count)
        positions = found.positions[start : start + count]
        if rows.nbytes > _MAX_LOOP_BYTES:
            # A slice retains the dictionaries of the whole segment or run.
            rows = without_unused_words(rows)
        if rows.nbytes > _MAX_LOOP_BYTES:
            async with self._large:
                return await asyncio.to_thread(_row_events, rows, positions)
        async with self._small:
            events = _row_events(rows, positions)
            await asyncio.sleep(0)
        return events


async def _events(
    agent: Agent, stream: Stream, selector: RowSelector, begin: int, encoder: EventEncoder
) -> AsyncIterator[bytes]:
    """Yield encoded server-sent events: `row` events in batches, and `position` events.

    Rows are read only as fast as the client receives events, which bounds the memory in use.
    """
    log, position, span = stream.log, Position(begin, 0), 0
    last_sent = time.monotonic()
    # After an error, the reader reconnects, and gets the error as a status.
    with agent.subscriptions.counted(), contextlib.suppress(MistbowError):
        while await agent.streams.get(stream.name) is stream:
            changed = log.watch()
            rows = 0
            least = min(_READ_ROWS, agent.subscriptions.rows)
            span = max(span, least)
            async for found in subscription.read(
                log, selector, position.next, position.next + span
            ):
                batch = min(_BATCH_ROWS, _rows_within(found.rows, _BATCH_BYTES))
                for start in range(0, found.rows.num_rows, batch):
                    yield await encoder.encode(found, start, batch)
                    last_sent = time.monotonic()
                rows += found.rows.num_rows
                position = found.position
            # Scan further at once if few rows are selected.
            span = _next_span(span, has_rows=rows > 0) if 2 * rows < _BATCH_ROWS else least
            if time.monotonic() - last_sent >= _POSITION_INTERVAL_S:
                yield _position_event(position)
                last_sent = time.monotonic()
            if position.next >= log.head:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_POSITION_INTERVAL_S):
                        await changed.wait()


def _position_event(position: Position) -> bytes:
    data = encode({"next": position.next, "frontier": position.frontier})
    return _event("position", data, position.next)


def _row_events(rows: pa.RecordBatch, positions: Int64s) -> bytes:
    """Return encoded `row` events; the id of an event is the position after its row."""
    after = (positions + 1).tolist()
    return b"".join(
        _event("row", encode(row), position)
        for row, position in zip(objects(rows), after, strict=True)
    )


def _event(kind: str, data: bytes, after: int) -> bytes:
    # JSON has no line ends, which would have to be divided.
    return b"id: %d\r\nevent: %b\r\ndata: %b\r\n\r\n" % (after, kind.encode(), data)


def _parse_position(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > MAX_INT64:
        raise InvalidRequestError(
            f"Last-Event-ID: {text[:100]!r} is not a position",
            hint="Send the id of the last received event of this stream.",
        )
    return int(text)
