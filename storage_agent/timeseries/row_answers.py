"""Answers as rows: line-delimited JSON or an Arrow IPC stream.

Rows are sent while they are read. So an error can occur after the first byte, when the status is
already sent. A complete answer ends with an end mark, and an interrupted answer with the error.
"""

import asyncio
import io
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Protocol, Self

import msgspec
import pyarrow as pa
from fastapi.responses import StreamingResponse
from starlette.types import Send

from mistbow.client.agent_model import Missing, ReplicaSource
from mistbow.errors import MistbowError
from mistbow.streams.wire import take_written
from mistbow.telemetry import get_logger
from storage_agent.http.accept import LINES
from storage_agent.http.cursors import PageKey
from storage_agent.streams.json_values import objects

log = get_logger(__name__)

_INTERNAL = MistbowError("internal error; the agent's log has the details")
_PAGE_ROWS = 50_000
_BATCH_ROWS = 5_000


class End(msgspec.Struct, frozen=True, omit_defaults=True):
    """The end mark of a complete answer.

    ``rows``: the number of rows. ``next``: the cursor of the next page; None: this is the last
    page. ``replicas``: the replicas from which rows were read. ``missing``: the nodes whose data is
    missing.
    """

    rows: int
    next: str | None = None
    replicas: tuple[ReplicaSource, ...] = ()
    missing: tuple[Missing, ...] = ()


class RowPage(Protocol):
    """A page of an answer."""

    @property
    def next(self) -> PageKey | None:
        """The last item of the page; None: this is the last page."""
        ...

    @property
    def replicas(self) -> tuple[ReplicaSource, ...]:
        """The replicas from which the page was read."""
        ...

    @property
    def missing(self) -> tuple[Missing, ...]:
        """The nodes whose data is missing."""
        ...

    def __len__(self) -> int: ...

    def to_rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the items of the page as rows."""
        ...

    def to_json(self, cursor: str | None) -> Iterator[bytes]:
        """Yield the parts of the JSON answer; ``cursor``: the cursor of the next page, if any."""
        ...


ReadPage = Callable[[PageKey | None, int], Awaitable[RowPage]]
"""A function that returns the page after an item, with about the given number of items.

If the item is None, the function returns the first page.
"""


class RowEncoder(Protocol):
    """Encodes the rows of an answer, and the mark at its end."""

    def rows(self, batch: pa.RecordBatch) -> bytes:
        """Return the bytes of rows."""
        ...

    def mark(self, name: str, content: Any) -> bytes:
        """Return the bytes of a mark, which is the last part of an answer.

        ``name``: ``end`` for the end mark, or ``error`` for the error that interrupted the answer.
        ``content``: the content of the mark, which is encoded as JSON.
        """
        ...


class LineEncoder:
    """Encodes each row as a line with a JSON object; null values are omitted."""

    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder(enc_hook=str)

    def rows(self, batch: pa.RecordBatch) -> bytes:
        """Return the lines of rows."""
        lines = [
            {name: value for name, value in row.items() if value is not None}
            for row in objects(batch)
        ]
        return self._encoder.encode_lines(lines)

    def mark(self, name: str, content: Any) -> bytes:
        """Return a line with a JSON object that has the single field ``name``."""
        return self._encoder.encode_lines([{name: content}])


class ArrowEncoder:
    """Encodes rows as record batches; a mark is the metadata of a last batch without rows."""

    def __init__(self, schema: pa.Schema) -> None:
        self._sink = io.BytesIO()
        self._schema = schema
        self._writer = pa.ipc.new_stream(self._sink, schema)

    def rows(self, batch: pa.RecordBatch) -> bytes:
        """Return the record batches of rows; the first bytes begin with the schema."""
        self._writer.write_batch(batch)
        return take_written(self._sink)

    def mark(self, name: str, content: Any) -> bytes:
        """Return a record batch without rows, whose metadata contains the mark as JSON."""
        empty = pa.RecordBatch.from_pylist([], self._schema)
        self._writer.write_batch(empty, custom_metadata={name: msgspec.json.encode(content)})
        if name == "end":
            self._writer.close()
        return take_written(self._sink)


def row_encoder(media_type: str, schema: pa.Schema) -> RowEncoder:
    """Return an encoder of rows for a media type."""
    return LineEncoder() if media_type == LINES else ArrowEncoder(schema)


class RowsResponse(StreamingResponse):
    """A response that sends rows while they are read.

    After an error the body stays incomplete, and the connection is closed, so that HTTP clients
    recognize the interruption too.
    """

    @classmethod
    async def start(
        cls,
        media_type: str,
        schema: pa.Schema,
        read: ReadPage,
        after: PageKey | None,
        limit: int | None,
        encode_next: Callable[[PageKey], str],
    ) -> Self:
        """Read the first page, and return the response that sends this page and the later pages.

        ``media_type``: the form of the answer. ``schema``: the schema of the rows. ``read``: reads
        a page. ``after``: the item after which the answer begins; None: the answer begins with the
        first item. ``limit``: the maximum number of rows; None: all rows. ``encode_next``: returns
        the cursor of the page after an item. Raises the errors of reading the first page; errors of
        later pages interrupt the answer.
        """
        first = await read(after, _page_rows(limit))
        pages = _pages(first, read, limit)
        encoder = row_encoder(media_type, schema)
        return cls(_encode(pages, encoder, encode_next), media_type=media_type)

    async def stream_response(self, send: Send) -> None:
        """Send the parts of the answer; leave the body incomplete after an error."""
        try:
            await super().stream_response(send)
        except _InterruptedError:
            return


class _InterruptedError(Exception):
    """Raised after the error mark was sent."""


def _page_rows(left: int | None) -> int:
    return _PAGE_ROWS if left is None else min(left, _PAGE_ROWS)


async def _pages(first: RowPage, read: ReadPage, limit: int | None) -> AsyncIterator[RowPage]:
    """Yield the first page and the later pages, until they have ``limit`` rows."""
    page, left = first, limit
    while True:
        yield page
        if left is not None:
            left -= len(page)
        if page.next is None or (left is not None and left <= 0):
            return
        page = await read(page.next, _page_rows(left))


async def _encode(
    pages: AsyncIterator[RowPage],
    encoder: RowEncoder,
    encode_next: Callable[[PageKey], str],
) -> AsyncGenerator[bytes, None]:
    rows = 0
    # A replica is stated once, although its age differs from page to page.
    replicas: dict[tuple[str, str], ReplicaSource] = {}
    missing: dict[Missing, None] = {}
    key = None
    try:
        async for page in pages:
            batches = page.to_rows()
            while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                for begin in range(0, batch.num_rows, _BATCH_ROWS):
                    some = batch.slice(begin, _BATCH_ROWS)
                    # A thread, since a fast reader would keep other tasks from running.
                    yield await asyncio.to_thread(encoder.rows, some)
            rows += len(page)
            replicas |= {(each.node, each.at): each for each in page.replicas}
            missing |= dict.fromkeys(page.missing)
            key = page.next
    except MistbowError as error:
        log.warning("answer_interrupted", error=error.message, rows=rows)
        yield encoder.mark("error", error.body()["error"])
        raise _InterruptedError from error
    except Exception as error:
        # Without a mark, it would look like a failed connection, after which clients retry.
        log.error("answer_interrupted", exc_info=error, rows=rows)
        yield encoder.mark("error", _INTERNAL.body()["error"])
        raise _InterruptedError from error
    cursor = None if key is None else encode_next(key)
    yield encoder.mark("end", End(rows, cursor, tuple(replicas.values()), tuple(missing)))
