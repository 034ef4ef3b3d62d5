"""Calls about streams; each function builds the call that one client method sends."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Unpack
from urllib.parse import quote

import httpx
import msgspec
import pyarrow as pa
from httpx_sse import ServerSentEvent

from mistbow.client.agent_model import (
    Names,
    RowEvent,
    Rows,
    RowsPage,
    Selection,
)
from mistbow.client.methods import ArrowChunks, ServerSentEvents, StreamCall
from mistbow.client.transport import Call, get_json, json_of, no_answer, without_none
from mistbow.errors import UnavailableError
from mistbow.streams.models import (
    Appended,
    Offset,
    StreamInfo,
    WriterState,
)
from mistbow.streams.wire import MEDIA_TYPE, Chunk, decode, encode_rows

_ARROW_HEADERS = {"Content-Type": MEDIA_TYPE}


class _Streams(msgspec.Struct, frozen=True):
    streams: list[StreamInfo]


class _Number(msgspec.Struct, frozen=True):
    number: int


def streams() -> Call[list[StreamInfo]]:
    """Return all streams."""
    return get_json("/streams", _Streams).map(lambda answer: answer.streams)


def create_stream(name: str, schema: pa.Schema) -> Call[StreamInfo]:
    """Create a stream if the stream does not exist; return the state of the stream.

    Raises ``ConflictError`` if the stream exists with another schema.
    """
    body = encode_rows(schema.empty_table())
    parse = json_of(StreamInfo)
    return Call("PUT", _path(name), parse, content=body, headers=_ARROW_HEADERS, repeatable=True)


def info(name: str) -> Call[StreamInfo]:
    """Return the state of a stream; raises ``NotFoundError`` if the stream does not exist."""
    return get_json(_path(name, "info"), StreamInfo)


def claim(name: str) -> Call[WriterState]:
    """Take the lease of a stream with a new epoch; return the state of the stream.

    Writers with older epochs are fenced: their appends are refused.
    """
    return Call("POST", _path(name, "claim"), json_of(WriterState), repeatable=True)


def append(
    name: str,
    rows: pa.RecordBatch | pa.Table,
    *,
    epoch: int | None = None,
    frontier: int | None = None,
    idempotency_key: str | None = None,
) -> Call[Appended]:
    """Store rows and a frontier atomically; return the positions of the rows.

    A request with the idempotency key of an earlier request changes nothing. Raises ``FencedError``
    if a greater epoch exists.
    """
    return Call(
        "POST",
        _path(name),
        json_of(Appended),
        params=without_none({"epoch": epoch, "frontier": frontier}),
        content=encode_rows(rows),
        headers={**_ARROW_HEADERS, "Idempotency-Key": idempotency_key or str(uuid.uuid4())},
        repeatable=True,
    )


def advance(
    name: str,
    epoch: int | None = None,
    *,
    frontier: int | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> Call[WriterState]:
    """Advance the frontier and set attributes of a stream; return the state of the stream.

    A frontier below the present frontier is ignored. ``attributes``: name → value; None removes the
    attribute.
    """
    body = without_none({"epoch": epoch, "frontier": frontier, "attributes": attributes})
    return Call("PATCH", _path(name), json_of(WriterState), json=body, repeatable=True)


def retain(
    name: str, holder: str, retain_ms: int, lease_ms: int, metrics: Sequence[str] = ()
) -> Call[None]:
    """Take or extend a retention lease: rows are retained for ``retain_ms`` after their arrival.

    ``lease_ms``: the time (ms) after which the lease expires. ``metrics``: the metrics whose points
    the holder needs; empty: all metrics.
    """
    body = {"holder": holder, "keep_ms": retain_ms, "for_ms": lease_ms, "metrics": list(metrics)}
    return Call("PUT", _path(name, "hold"), no_answer, json=body, repeatable=True)


def seek(name: str, time: int) -> Call[int]:
    """Return the start of the first segment that may have rows with ``ts > time``.

    All rows before this position have ``ts <= time``. If no segment has later rows, return the
    head.
    """
    call = get_json(_path(name, "seek"), _Number, {"time": time})
    return call.map(lambda answer: answer.number)


def offset(
    name: str,
    start: int,
    max_rows: int,
    *,
    wait_ms: int = 0,
    after_frontier: int | None = None,
) -> Call[Offset]:
    """Return the end of a batch of at most ``max_rows`` rows that begins at the position ``start``.

    Waits up to ``wait_ms`` for a row, or for a frontier greater than ``after_frontier``.
    """
    params = {
        "from": start,
        "max_rows": max_rows,
        "wait_ms": wait_ms,
        "after_frontier": after_frontier,
    }
    return get_json(_path(name, "offset"), Offset, params)


def read(
    name: str, start: int = 0, end: int | None = None, **selection: Unpack[Selection]
) -> Call[Rows]:
    """Return the rows from position ``start`` to before ``end``; ``end`` None: up to the head."""
    params = {"from": start, "to": end, **_params(selection)}
    return Call("GET", _path(name), _rows, params=without_none(params), repeatable=True)


def chunks(name: str, start: int, end: int, **selection: Unpack[Selection]) -> StreamCall[Chunk]:
    """Yield the rows from position ``start`` to before ``end`` in chunks, as they arrive.

    The position of the last chunk is ``end``, or the head if that is lower. Raises
    ``UnavailableError`` when the connection breaks.
    """
    params = without_none({"from": start, "to": end, **_params(selection)})
    call = Call("GET", _path(name), no_answer, params=params, repeatable=True)
    return StreamCall(call, ArrowChunks(), f"the stream {name}", has_end=True)


def follow(name: str, start: int = 0, **selection: Unpack[Selection]) -> StreamCall[Chunk]:
    """Yield the rows from position ``start`` on in chunks, and then new rows as they are stored.

    A chunk without rows is a heartbeat. Raises ``UnavailableError`` when the connection breaks;
    resume at the last chunk's position.
    """
    params = without_none({"from": start, "follow": "true", **_params(selection)})
    call = Call("GET", _path(name), no_answer, params=params)
    return StreamCall(call, ArrowChunks(), f"the stream {name}")


def rows(
    name: str,
    start: int = 0,
    end: int | None = None,
    *,
    limit: int | None = None,
    **selection: Unpack[Selection],
) -> Call[RowsPage]:
    """Return a page of rows as JSON objects; the next page begins at the page's ``next``."""
    params = {"from": start, "to": end, "limit": limit, **_params(selection)}
    return get_json(_path(name, "rows"), RowsPage, params)


def events(
    name: str, start: int | None = None, **selection: Unpack[Selection]
) -> StreamCall[RowEvent]:
    """Yield the rows from position ``start`` on as JSON objects, and then new rows as they are
    stored.

    ``start``: None: only new rows. Raises ``UnavailableError`` when the connection breaks; resume
    at the last row's ``next``.
    """
    params = without_none({"from": start, **_params(selection)})
    headers = {"Accept": "text/event-stream"}
    call = Call("GET", _path(name, "events"), no_answer, params=params, headers=headers)
    return StreamCall(call, ServerSentEvents(_row_event), f"the stream {name}")


def _row_event(event: ServerSentEvent) -> RowEvent | None:
    if event.event != "row":
        return None
    return RowEvent(msgspec.json.decode(event.data), int(event.id))


def _params(selection: Selection) -> dict[str, Any]:
    match = selection.get("match") or {}
    columns = selection.get("columns")
    late = selection.get("late")
    return {
        "match": [f"{column}:{value}" for column, names in match.items() for value in _list(names)],
        "columns": ",".join(columns) if columns else None,
        "min_ts": selection.get("min_ts"),
        "max_ts": selection.get("max_ts"),
        "late": None if late is None else str(late).lower(),
    }


def _list(names: Names) -> Sequence[str]:
    return [names] if isinstance(names, str) else names


def _rows(response: httpx.Response) -> Rows:
    chunks = decode(response.content)
    if not chunks:
        raise UnavailableError("the answer has no position", hint="Send the request again.")
    table = pa.Table.from_batches([chunk.rows for chunk in chunks])
    return Rows(table, chunks[-1].position)


def _path(name: str, *more: str) -> str:
    return "/".join(("/streams", quote(name), *more))
