"""The requests to a storage agent, each built by one function, for both clients."""

import io
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec
import pyarrow as pa
from httpx_sse import ServerSentEvent

from mistbow.client.agent_model import (
    VALUES,
    Aggregate,
    Aggregated,
    Appended,
    Filters,
    Node,
    NodeData,
    Offset,
    Point,
    RowEvent,
    Rows,
    RowsPage,
    Selection,
    StreamInfo,
    StreamState,
    Words,
)
from mistbow.client.transport import Call
from mistbow.errors import UnavailableError
from mistbow.fabric import Fabric, Worker
from mistbow.streams.wire import MEDIA_TYPE, decode, encode_rows

T = TypeVar("T")
A = TypeVar("A")

_JSON = {"Content-Type": "application/json"}
_ARROW = {"Content-Type": MEDIA_TYPE}
_FILTERS = {
    "entity_type": "entityType",
    "group": "groupName",
    "pod_name": "podName",
    "pod_namespace": "podNamespace",
    "container_name": "containerName",
    "nodes": "nodes",
}


class _Missing(msgspec.Struct, frozen=True):
    node: str
    reason: str


class _Monitoring(msgspec.Struct, frozen=True):
    monitoring: list[NodeData]
    missing: list[_Missing] = []


class _Value(msgspec.Struct, frozen=True):
    value: float | None
    missing: list[_Missing] = []


class _Metric(msgspec.Struct, frozen=True):
    metric: list[dict[str, Any]]


class _Nodes(msgspec.Struct, frozen=True):
    nodes: list[Node]


class _Streams(msgspec.Struct, frozen=True):
    streams: list[StreamInfo]


class _Number(msgspec.Struct, frozen=True):
    number: int


def put(points: Sequence[Point], key: str | None) -> Call[None]:
    """Store points; without a key one is made, so that a repeat changes nothing."""
    return Call(
        "POST",
        "/put",
        lambda _: None,
        content=msgspec.json.encode({"monitoring": points}),
        headers={**_JSON, "Idempotency-Key": key or str(uuid.uuid4())},
        repeatable=True,
    )


def get(
    metric: Words | None,
    entity: Words | None,
    start: int | None,
    end: int | None,
    latest: bool | None,
    filters: Filters,
) -> Call[list[NodeData]]:
    """Read values in JSON."""
    answer = _json(_Monitoring)
    body = _asked(metric, entity, filters, start=start, end=end, latest=latest)
    return _post("/get", body, lambda response: _node_data(answer(response)))


def get_table(
    metric: Words | None,
    entity: Words | None,
    start: int | None,
    end: int | None,
    latest: bool | None,
    filters: Filters,
) -> Call[pa.Table]:
    """Read values as a table."""
    return mapped(get(metric, entity, start, end, latest, filters), _values_table)


def query(
    agg: Aggregate,
    metric: Words | None,
    entity: Words | None,
    start: int | None,
    end: int | None,
    latest: bool | None,
    filters: Filters,
) -> Call[Aggregated]:
    """Aggregate values where they are."""
    body = _asked(metric, entity, filters, start=start, end=end, latest=latest)
    answer = _json(_Value)
    return _post("/query", {**body, "agg": agg}, lambda response: _aggregated(answer(response)))


def list_series(
    metric: Words | None, entity: Words | None, wanted: Sequence[str] | None, filters: Filters
) -> Call[list[dict[str, Any]]]:
    """Read metadata."""
    body = {**_asked(metric, entity, filters), **_given({"fields": wanted})}
    answer = _json(_Metric)
    return _post("/list", body, lambda response: answer(response).metric)


def nodes() -> Call[list[Node]]:
    """Ask for all nodes."""
    answer = _json(_Nodes)
    return _post("/nodes", {}, lambda response: answer(response).nodes)


def delete(
    metric: Words | None,
    entity: Words | None,
    start: int | None,
    end: int | None,
    filters: Filters,
) -> Call[None]:
    """Delete points; doing it twice does no more."""
    body = _asked(metric, entity, filters, start=start, end=end)
    return _post("/monitoring", body, lambda _: None, method="DELETE")


def sql(query: str, parameters: Sequence[Any]) -> Call[pa.Table]:
    """Query by SQL."""
    body = {"query": query, "parameters": parameters, "format": "arrow"}
    return _post("/sql", body, lambda response: pa.ipc.open_stream(response.content).read_all())


def mapped(call: Call[A], made: Callable[[A], T]) -> Call[T]:
    """Return a call whose answer something else is made of."""
    given = {field.name: getattr(call, field.name) for field in fields(call)}
    return Call(**{**given, "parse": lambda response: made(call.parse(response))})


def _post(
    path: str, body: Any, parse: Callable[[httpx.Response], T], *, method: str = "POST"
) -> Call[T]:
    content = msgspec.json.encode(body)
    return Call(method, path, parse, content=content, headers=_JSON, repeatable=True)


def _asked(
    metric: Words | None,
    entity: Words | None,
    filters: Filters,
    *,
    start: int | None = None,
    end: int | None = None,
    latest: bool | None = None,
) -> dict[str, Any]:
    body = {
        "metricID": metric,
        "entityID": entity,
        "from": start,
        "to": end,
        "latest": latest,
        **{_FILTERS[name]: value for name, value in filters.items()},
    }
    return _given(body)


def _values_table(nodes: Sequence[NodeData]) -> pa.Table:
    rows = [
        (each.node, series.metric, series.entity, value.ts, value.value)
        for each in nodes
        for series in each.data
        for value in series.values
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(VALUES)
    arrays = [pa.array(each, field.type) for each, field in zip(columns, VALUES, strict=True)]
    missing = {each.node: each.missing for each in nodes if each.missing is not None}
    schema = VALUES.with_metadata({"missing": msgspec.json.encode(missing)}) if missing else VALUES
    return pa.Table.from_arrays(arrays, schema=schema)


def _aggregated(answer: "_Value") -> Aggregated:
    return Aggregated(answer.value, {each.node: each.reason for each in answer.missing})


def _node_data(answer: _Monitoring) -> list[NodeData]:
    away = [NodeData(each.node, [], each.reason) for each in answer.missing]
    return answer.monitoring + away


def fabric() -> Call[Fabric]:
    """Ask who is there."""
    return Call("GET", "/fabric", _json(Fabric), repeatable=True)


def announce(worker: Worker) -> Call[None]:
    """Say that a worker is alive; not repeated here, for the next announcement is soon."""
    return Call(
        "PUT",
        _worker_path(worker.name),
        lambda _: None,
        content=msgspec.json.encode(worker),
        headers=_JSON,
    )


def leave(name: str) -> Call[None]:
    """Say that a worker leaves."""
    return Call("DELETE", _worker_path(name), lambda _: None, repeatable=True)


def _worker_path(name: str) -> str:
    return f"/workers/{quote(name, safe='')}"


def at(site: str | None, call: Call[T]) -> Call[T]:
    """Have a call answered by a site's agent; None: by the one that is asked."""
    return call if site is None else replace(call, params={**call.params, "site": site})


def streams() -> Call[list[StreamInfo]]:
    """List the streams."""
    answer = _json(_Streams)
    return Call("GET", "/streams", lambda response: answer(response).streams, repeatable=True)


def create_stream(name: str, schema: pa.Schema) -> Call[StreamInfo]:
    """Make a stream."""
    body = encode_rows(schema.empty_table())
    parse = _json(StreamInfo)
    return Call("PUT", _path(name), parse, content=body, headers=_ARROW, repeatable=True)


def info(name: str) -> Call[StreamInfo]:
    """Describe a stream."""
    return Call("GET", _path(name, "info"), _json(StreamInfo), repeatable=True)


def claim(name: str) -> Call[StreamState]:
    """Begin a new epoch; one that nobody heard of does no harm, so it may be repeated."""
    return Call("POST", _path(name, "claim"), _json(StreamState), repeatable=True)


def append(
    name: str,
    rows: pa.RecordBatch | pa.Table,
    epoch: int | None,
    frontier: int | None,
    key: str | None,
) -> Call[Appended]:
    """Store rows; without a key one is made, so that a repeat changes nothing."""
    return Call(
        "POST",
        _path(name),
        _json(Appended),
        params=_given({"epoch": epoch, "frontier": frontier}),
        content=encode_rows(rows),
        headers={**_ARROW, "Idempotency-Key": key or str(uuid.uuid4())},
        repeatable=True,
    )


def advance(
    name: str, epoch: int | None, frontier: int | None, attributes: Mapping[str, Any] | None
) -> Call[StreamState]:
    """Move a frontier, merge attributes."""
    body = _given({"epoch": epoch, "frontier": frontier, "attributes": attributes})
    return Call("PATCH", _path(name), _json(StreamState), json=body, repeatable=True)


def hold(
    name: str, holder: str, keep_ms: int, for_ms: int, metrics: Sequence[str] = ()
) -> Call[None]:
    """Ask for rows to be kept."""
    body = {"holder": holder, "keep_ms": keep_ms, "for_ms": for_ms, "metrics": list(metrics)}
    return Call("PUT", _path(name, "hold"), lambda _: None, json=body, repeatable=True)


def seek(name: str, time: int) -> Call[int]:
    """Find where a time begins."""
    answer = _json(_Number)
    return Call(
        "GET",
        _path(name, "seek"),
        lambda response: answer(response).number,
        params={"time": time},
        repeatable=True,
    )


def offset(
    name: str, start: int, max_rows: int, wait_ms: int, after_frontier: int | None
) -> Call[Offset]:
    """Ask how far a batch goes."""
    params = {
        "from": start,
        "max_rows": max_rows,
        "wait_ms": wait_ms,
        "after_frontier": after_frontier,
    }
    parse = _json(Offset)
    return Call("GET", _path(name, "offset"), parse, params=_given(params), repeatable=True)


def read(name: str, start: int, end: int | None, selection: Selection) -> Call[Rows]:
    """Read rows, all at once."""
    params = {"from": start, "to": end, **_selection(selection)}
    return Call("GET", _path(name), _rows, params=_given(params), repeatable=True)


def follow(name: str, start: int, selection: Selection) -> Call[None]:
    """Read rows as they come; the answer is to be streamed."""
    params = {"from": start, "follow": "true", **_selection(selection)}
    return Call("GET", _path(name), lambda _: None, params=_given(params))


def rows(
    name: str, start: int, end: int | None, limit: int | None, selection: Selection
) -> Call[RowsPage]:
    """Read rows as JSON."""
    params = {"from": start, "to": end, "limit": limit, **_selection(selection)}
    path = _path(name, "rows")
    return Call("GET", path, _json(RowsPage), params=_given(params), repeatable=True)


def events(name: str, start: int | None, selection: Selection) -> Call[None]:
    """Follow rows as server-sent events; the answer is to be streamed."""
    params = _given({"from": start, **_selection(selection)})
    headers = {"Accept": "text/event-stream"}
    return Call("GET", _path(name, "events"), lambda _: None, params=params, headers=headers)


def row_event(event: ServerSentEvent) -> RowEvent | None:
    """Return the row that an event tells, or None if it tells none."""
    if event.event != "row":
        return None
    return RowEvent(msgspec.json.decode(event.data), int(event.id))


def _selection(selection: Selection) -> dict[str, Any]:
    match = selection.get("match") or {}
    columns = selection.get("columns")
    late = selection.get("late")
    return {
        "match": [f"{name}:{word}" for name, words in match.items() for word in _listed(words)],
        "columns": ",".join(columns) if columns else None,
        "min_ts": selection.get("min_ts"),
        "max_ts": selection.get("max_ts"),
        "late": None if late is None else str(late).lower(),
    }


def _rows(response: httpx.Response) -> Rows:
    try:
        chunks = list(decode(io.BytesIO(response.content)))
    except pa.ArrowInvalid as error:
        raise UnavailableError(f"the answer broke off: {error}") from error
    table = pa.Table.from_batches([chunk.rows for chunk in chunks])
    return Rows(table, chunks[-1].position)


def _path(name: str, *more: str) -> str:
    return "/".join(("/streams", quote(name), *more))


def _json(kind: type[T]) -> Callable[[httpx.Response], T]:
    return lambda response: msgspec.json.decode(response.content, type=kind)


def _listed(words: Words) -> Sequence[str]:
    return [words] if isinstance(words, str) else words


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
