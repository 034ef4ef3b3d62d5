"""HTTP routes that create, claim, append to, retain, subscribe to and delete streams."""

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

from mistbow.auth.callers import current_caller
from mistbow.auth.rules import requires
from mistbow.client.operation_model import SeriesFilter
from mistbow.errors import (
    ConflictError,
    FencedError,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    ReusedKeyError,
    StorageFullError,
    TooLargeError,
)
from mistbow.http.parameters import only_parameters, reject_unknown_parameters
from mistbow.openapi import raises
from mistbow.streams.models import Appended, Offset, WriterState
from mistbow.streams.schemas import (
    DECISIONS,
    DEPLOYMENTS,
    EVENTS,
    FOG_HISTORY,
    METADATA,
    PLACEMENTS,
    RAW,
)
from mistbow.streams.wire import MAX_INT64, MEDIA_TYPE
from mistbow.timestamps import Timestamps
from storage_agent.agent.agent import Agent
from storage_agent.http.decode import check_depth, decode_beside, decode_body, decode_renamed
from storage_agent.http.idempotency import IdempotencyKey, request_key
from storage_agent.http.openapi import json_body
from storage_agent.http.responses import json_response
from storage_agent.http.streams import (
    AdvanceBody,
    RetentionLeaseBody,
    check_attributes,
    check_times,
    decode_table,
    encode_chunks,
    read_time,
)
from storage_agent.membership.proxy import proxied_router
from storage_agent.streams import subscription
from storage_agent.streams.conform import conform
from storage_agent.streams.read_access import check_readable
from storage_agent.streams.small_parts import SmallParts
from storage_agent.streams.state import State
from storage_agent.streams.streams import (
    RECORD_PREFIX,
    REPLICA_PREFIX,
    Stream,
    is_internal,
)
from storage_agent.streams.subscription import RowSelection, RowSelector

_ARROW_BODY = {
    "requestBody": {
        "required": True,
        "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
    }
}
_EXAMPLE_ADVANCE = {"epoch": 1, "frontier": 1795262400000, "attributes": {"owner": "lab"}}
_EXAMPLE_LEASE = {"holder": "reader-1", "keep_ms": 86_400_000, "for_ms": 60_000}
_ADVANCE = msgspec.json.Decoder(AdvanceBody)
_RETENTION_LEASE = msgspec.json.Decoder(RetentionLeaseBody)
_MAX_ADVANCE_BYTES = 2 * 2**20
"""The maximum size of a body with attributes, which may take half of it in the stream's state."""
_STATE_OF_ENABLERS = (DEPLOYMENTS, PLACEMENTS, FOG_HISTORY)

Time = Annotated[int | None, Query(ge=-MAX_INT64, le=MAX_INT64)]


def streams_routes(agent: Agent, times: Timestamps) -> APIRouter:
    """Return the routes for streams; ``times``: reads the times in parameters and rows.

    Routes with longer paths are matched before ``/streams/{name}``.
    """
    routes = proxied_router(agent.proxy, "streams", prefix="/streams")
    _add_state_routes(routes, agent)
    _add_position_routes(routes, agent, times)
    _add_retention_route(routes, agent)
    _add_row_routes(routes, agent, times)
    _add_delete_route(routes, agent)
    return routes


def _add_state_routes(routes: APIRouter, agent: Agent) -> None:
    @routes.get("", summary="All streams")
    @requires("read", for_peers=True)
    async def all_streams() -> Response:
        """Return all streams; an agent of another site gets those that it may read.

        So it detects that the head of a stream of its site is less than the head of a replica.
        """
        readable = (each for each in agent.streams.all() if is_for_peer(agent, each.name))
        return _json({"streams": [each.info() for each in readable]})

    @routes.get("/{name:path}/info", summary="State of a stream")
    @requires("read", for_peers=True)
    @raises(NotFoundError)
    async def info(name: str) -> Response:
        check_peer(agent, name)
        return _json((await agent.streams.get(name)).info())

    @routes.post(
        "/{name:path}/claim",
        summary="Become the only writer of a stream",
        dependencies=[Depends(only_parameters("site"))],
    )
    @requires("append", admits=_check_writer)
    @raises(ConflictError, NotFoundError)
    async def claim(name: str) -> Response:
        """Begin a new epoch of a stream; afterwards, appends with older epochs are rejected."""
        stream = await _writable(agent, name)
        return _state(stream, await stream.writer.claim())

    @routes.patch(
        "/{name:path}",
        summary="Advance the frontier, set attributes",
        openapi_extra=json_body(AdvanceBody, _EXAMPLE_ADVANCE),
        dependencies=[Depends(only_parameters("site"))],
    )
    @requires("append", admits=_check_writer)
    @raises(ConflictError, FencedError, NotFoundError)
    async def advance(name: str, request: Request) -> Response:
        """Advance the frontier of a stream, and set attributes of the stream.

        The value null removes an attribute. Omitted attributes keep their values.
        """
        content = await request.body()
        if len(content) > _MAX_ADVANCE_BYTES:
            raise TooLargeError(
                f"the body has {len(content)} bytes, and at most {_MAX_ADVANCE_BYTES} are allowed",
                hint="Store large values as rows.",
            )
        body = await decode_beside(len(content), lambda: _decode_advance(content))
        stream = await _writable(agent, name)
        state = await stream.writer.advance(body.epoch, body.frontier, body.attributes)
        return _state(stream, state)


def _add_delete_route(routes: APIRouter, agent: Agent) -> None:
    @routes.delete("/{name:path}", status_code=204, summary="Delete a stream")
    @requires("admin", admits=_check_owner)
    @raises(ConflictError, NotFoundError)
    async def delete(
        name: str,
        request: Request,
        owner: Annotated[str | None, Query(description="enabler: delete its state")] = None,
    ) -> None:
        """Delete a stream with its rows, and end its subscriptions; the name can be used again.

        A stream with the state of an enabler, such as `deployments`, is deleted only with the fog's
        own token and `owner=enabler`.
        """
        reject_unknown_parameters(request, ("site", "owner"))
        await _writable(agent, name)
        _check_stated_owner(name, owner)
        await agent.streams.delete(name)


def _add_retention_route(routes: APIRouter, agent: Agent) -> None:
    @routes.put(
        "/{name:path}/hold",
        status_code=204,
        summary="Acquire a retention lease",
        openapi_extra=json_body(RetentionLeaseBody, _EXAMPLE_LEASE),
        dependencies=[Depends(only_parameters("site"))],
    )
    @requires("append")
    @raises(NotFoundError)
    async def hold(name: str, request: Request) -> None:
        """Retain rows for at least `keep_ms` after their arrival, even if the retention is shorter.

        The lease expires after `for_ms`, unless it is renewed.
        """
        body = decode_renamed(_RETENTION_LEASE, await request.body(), {"retain_ms": "keep_ms"})
        stream = await agent.streams.get(name)
        await stream.writer.retain(body.holder, body.keep_ms, body.for_ms)
        if name == RAW:
            agent.replication.record_insight(body)


def _add_position_routes(routes: APIRouter, agent: Agent, times: Timestamps) -> None:
    @routes.get("/{name:path}/seek", summary="Find the position of a time")
    @requires("read")
    @raises(NotFoundError)
    async def seek(name: str, time: Annotated[int, Query(ge=-MAX_INT64, le=MAX_INT64)]) -> Any:
        """Return a position, as `number`, such that all rows before the position have `ts <= time`.

        From this position on, rows may have `ts > time`. If no row has `ts > time`, the position is
        the head of the stream.
        """
        after = read_time(times, name, time, "time")
        return {"number": await (await agent.streams.get(name)).log.seek(after)}

    @routes.get("/{name:path}/offset", summary="Find the end of a batch")
    @requires("read", for_peers=True)
    @raises(ConflictError, NotFoundError)
    async def offset(
        name: str,
        start: Annotated[int, Query(alias="from", ge=0, le=MAX_INT64)],
        max_rows: Annotated[int, Query(ge=1, le=MAX_INT64)],
        wait_ms: Annotated[int, Query(ge=0, le=60_000)] = 0,
        after_frontier: Time = None,
    ) -> Response:
        """Return the position at which a read of at most `max_rows` rows from `from` ends.

        The position is the end of a segment. At least one segment is read, even if the segment has
        more rows. The request waits at most `wait_ms` for a row, or for a frontier greater than
        `after_frontier`.
        """
        check_peer(agent, name)
        log = (await agent.streams.get(name)).log
        position = await subscription.find_end(log, start, max_rows, after_frontier, wait_ms / 1000)
        return _json(Offset(position.next, position.frontier, log.head))


def _add_row_routes(routes: APIRouter, agent: Agent, times: Timestamps) -> None:
    @routes.put(
        "/{name:path}",
        summary="Create a stream",
        openapi_extra=_ARROW_BODY,
        dependencies=[Depends(only_parameters("site"))],
    )
    @requires("append", admits=_check_writer)
    @raises(ConflictError, StorageFullError)
    async def create(name: str, request: Request) -> Response:
        """Create a stream with the schema of the Arrow IPC stream in the body.

        The status is 201 if the stream is new, and 200 if the stream exists already. The names of
        streams with the state of an enabler, such as `deployments`, are reserved: with other
        fields than an enabler's, the answer is 409.
        """
        if name.startswith((REPLICA_PREFIX, RECORD_PREFIX)):
            _check_not_internal(name)
        schema = decode_table(await request.body()).schema
        if _is_state_of_enabler(name):
            _check_state_schema(agent, name, schema)
        is_new = await agent.streams.create(name, schema)
        info = (await agent.streams.get(name)).info()
        return _json(info, 201 if is_new else 200)

    @routes.post(
        "/{name:path}",
        summary="Append rows",
        openapi_extra=_ARROW_BODY,
        dependencies=[Depends(only_parameters("site", "epoch", "frontier"))],
    )
    @requires("append", admits=_check_writer)
    @raises(ConflictError, FencedError, NotFoundError, ReusedKeyError, StorageFullError)
    async def append(
        name: str,
        request: Request,
        epoch: Annotated[int | None, Query(ge=0, le=MAX_INT64)] = None,
        frontier: Annotated[int, Query(ge=0, le=MAX_INT64)] = 0,
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """Append the rows of the Arrow IPC stream in the body.

        The rows are durable once the request succeeds. A `frontier` is stored atomically with the
        rows.
        """
        body = await request.body()
        key = request_key(idempotency_key, body)
        stream = await _writable(agent, name)
        rows = conform(decode_table(body), stream.log.schema)
        check_times(times, name, rows)
        if rows.num_rows == 0:
            log = stream.log
            if frontier:
                await stream.writer.advance(epoch, frontier)
            return _json(Appended(log.head, log.head, log.frontier))
        key = None if key is None else key.of(current_caller())
        appended = await stream.writer.append(rows, epoch=epoch, key=key, frontier=frontier)
        return _json(Appended(appended.first, appended.next, appended.frontier))

    @routes.get("/{name:path}", summary="Subscribe", response_class=StreamingResponse)
    @requires("read", for_peers=True)
    @raises(ConflictError, NotFoundError)
    async def subscribe(
        name: str,
        selection: Annotated[RowSelection, Depends(row_selection(times))],
        start: Annotated[int, Query(alias="from", ge=0, le=MAX_INT64)] = 0,
        end: Annotated[int | None, Query(alias="to", ge=0, le=MAX_INT64)] = None,
        follow: bool = False,
    ) -> StreamingResponse:
        """Return the selected rows from the position `from` on, as an Arrow IPC stream.

        With `follow`, the answer continues with each new row. The metadata of each batch has the
        `next` position and the `frontier` after the batch.
        """
        check_readable(name)
        # Up to the position 0 there are no rows, but the schema.
        check_peer(agent, name, rows=follow or end != 0)
        stream = await agent.streams.get(name)
        selector = RowSelector(stream, selection)
        # An invalid request raises at the first chunk, while the status can still be set.
        with agent.subscriptions.counted():
            if agent.subscriptions.are_many:
                small = SmallParts(
                    stream.log, selector, agent.subscriptions, start, end, follow=follow
                )
                parts = small.encode(await small.read())
            else:
                read = subscription.follow if follow else subscription.read
                chunks = (found.chunk async for found in read(stream.log, selector, start, end))
                parts = encode_chunks(selector.schema, await anext(chunks), chunks)
        return StreamingResponse(agent.subscriptions.count(parts), media_type=MEDIA_TYPE)


def check_peer(agent: Agent, name: str, *, rows: bool = False) -> None:
    """Raise ``OutOfReachError`` if a stream is not for an agent of another site; see
    ``is_for_peer``.
    """
    if not is_for_peer(agent, name, rows=rows):
        current_caller().check_site("", f"the stream {name}")


def is_for_peer(agent: Agent, name: str, *, rows: bool = False) -> bool:
    """Return whether the caller may read a stream, if the caller is an agent of another site.

    Each agent may read the metadata of a site, the streams that its site copies, and the replicas
    of its own site, from which this site is restored. ``rows``: whether the caller reads rows. A
    copy with only a part of the rows does not permit this: ``/replication/feed`` has its rows.
    """
    caller = current_caller()
    if not caller.is_peer or name == METADATA:
        return True
    copies = agent.replication.copies.all()
    own = [copy for copy in copies if copy.target == caller.home and copy.stream == name]
    if any(not rows or (copy.filter == SeriesFilter() and not copy.withheld) for copy in own):
        return True
    return name.startswith(f"{REPLICA_PREFIX}{caller.home}/")


def row_selection(times: Timestamps) -> Callable[..., RowSelection]:
    """Return the dependency that reads the selection of rows from the parameters of a request.

    ``times``: reads the times. The dependency raises ``InvalidRequestError`` if the parameter
    ``match`` is malformed, or if the unit of a time is refused.
    """

    def select(
        name: str,
        match: Annotated[list[str] | None, Query(description="column:value, repeatable")] = None,
        columns: Annotated[str | None, Query(description="names, separated by commas")] = None,
        late: Annotated[
            bool | None,
            Query(description="true: only late rows; false: only rows that are not late"),
        ] = None,
        min_ts: Time = None,
        max_ts: Time = None,
    ) -> RowSelection:
        matches: dict[str, list[str]] = {}
        for text in match or []:
            column, colon, value = text.partition(":")
            if not colon:
                raise InvalidRequestError(f"match: {text!r} is not of the form column:value")
            matches.setdefault(column, []).append(value)
        names = [each.strip() for each in columns.split(",")] if columns else []
        first = None if min_ts is None else read_time(times, name, min_ts, "min_ts")
        last = None if max_ts is None else read_time(times, name, max_ts, "max_ts")
        return RowSelection(matches, names, late, first, last)

    return select


def _check_writer(request: Request) -> None:
    """Raise ``ForbiddenError`` if a service that is not an enabler writes an enabler's state.

    This state contains the deployments and their placements.
    """
    caller, name = current_caller(), request.path_params["name"]
    is_enabler = caller.credential is not None and caller.credential.kind == "enabler"
    if _is_state_of_enabler(name) and not is_enabler and not caller.has_scope("admin"):
        raise ForbiddenError(
            f"only enablers write the stream {name}; the caller is the {caller.name}",
            hint="Deploy insights at the enabler.",
        )


def _check_owner(request: Request) -> None:
    """Raise ``ForbiddenError`` if a token that is not the fog's deletes the state of an enabler.

    Otherwise, one request with the scope ``admin`` could delete the deployments of all users.
    """
    caller, name = current_caller(), request.path_params["name"]
    if _is_state_of_enabler(name) and not caller.has_scope("adopt"):
        raise ForbiddenError(
            f"the stream {name} is the state of an enabler: only the fog's own token deletes it, "
            f"at the agent of its site; the caller is {caller.name}",
            hint="Delete deployments at the enabler: DELETE /api/insights/{id}.",
        )


def _check_stated_owner(name: str, owner: str | None) -> None:
    """Raise an error if the parameter ``owner`` does not name the service that owns a stream."""
    expected = "enabler" if _is_state_of_enabler(name) else None
    if owner == expected:
        return
    if expected is None:
        raise InvalidRequestError(
            f"owner: no enabler owns the stream {name}, and nothing was deleted",
            hint="Omit the parameter.",
        )
    raise ConflictError(
        f"the stream {name} is the state of an enabler, and nothing was deleted",
        hint="DELETE /api/insights/{id} at the enabler deletes a deployment. To delete the state "
        "of all deployments, stop the enabler and add ?owner=enabler.",
    )


def _is_state_of_enabler(name: str) -> bool:
    """Return whether only enablers write a stream.

    Merges write the decisions about their late points: a group has a dot in its name, but a domain
    has none.

    >>> names = ("deployments/north", "decisions", "decisions/north", "decisions/north.fair", "x")
    >>> [_is_state_of_enabler(name) for name in names]
    [True, True, True, False, False]
    """
    kind = name.partition("/")[0]
    return kind in _STATE_OF_ENABLERS or (kind == DECISIONS and "." not in name)


def _check_state_schema(agent: Agent, name: str, schema: pa.Schema) -> None:
    """Raise ``ConflictError`` if a stream with the name of an enabler's state has other fields.

    Neither a new stream nor an existing one may have other fields: no enabler could use it.
    """
    if not schema.equals(EVENTS):
        raise ConflictError(
            f"the name {name} is reserved for the state of an enabler, and an enabler creates this "
            f"stream",
            hint="Choose another name.",
        )
    existing = agent.streams.find_open(name)
    if existing is not None and not existing.log.schema.equals(EVENTS):
        raise ConflictError(
            f"the stream {name} has other fields than the state of an enabler, which cannot be "
            f"stored until this stream is deleted",
            hint=f"At the agent of its site, DELETE /streams/{name}?owner=enabler with the fog's "
            f"own token deletes it with its rows. The enabler then creates it again.",
        )


def _decode_advance(content: bytes) -> AdvanceBody:
    body = decode_body(_ADVANCE, content)
    check_depth(content.decode(), "attributes")
    check_attributes(body.attributes)
    return body


async def _writable(agent: Agent, name: str) -> Stream:
    _check_not_internal(name)
    return await agent.streams.get(name)


def _check_not_internal(name: str) -> None:
    if is_internal(name):
        hint = "Send points by POST /put." if name == RAW else "Clients can only read it."
        if name.startswith(REPLICA_PREFIX):
            hint += " DELETE /replication/replicas/SITE/ID deletes a replica."
        raise ConflictError(f"only the agent writes to the stream {name}", hint=hint)


def _state(stream: Stream, state: State) -> Response:
    log = stream.log
    return _json(WriterState(state.epoch, log.head, state.frontier, state.attributes, log.bytes))


def _json(body: object, status: int = 200) -> Response:
    return json_response(msgspec.json.encode(body), status)
