"""The requests about what an agent keeps by key, each built by one function, for both clients."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from mistbow.client.agent_model import Words
from mistbow.client.record_model import (
    AppSchema,
    Kind,
    Record,
    Records,
    RecordValue,
    RoutingTable,
    RoutingTables,
)
from mistbow.client.transport import Call

T = TypeVar("T")

_JSON = {"Content-Type": "application/json"}


class _KeyValues(msgspec.Struct, frozen=True):
    key: str
    values: list[RecordValue]


class _NodeTables(msgspec.Struct, frozen=True):
    node: str
    values: list[RoutingTable]


class _Missing(msgspec.Struct, frozen=True):
    node: str
    reason: str


class _Answer(msgspec.Struct, frozen=True):
    analytics: list[_KeyValues] = []
    application: list[_KeyValues] = []
    routing: list[_NodeTables] = []
    missing: list[_Missing] = []


class _Schemas(msgspec.Struct, frozen=True):
    schemas: list[AppSchema]


def put(kind: Kind, records: Sequence[Record], key: str | None) -> Call[None]:
    """Store records; without a key one is made, so that a repeat changes nothing."""
    path = f"{_path(kind)}/put"
    return _post(path, {kind: records}, lambda _: None, key=key or str(uuid.uuid4()))


def get(
    kind: Kind,
    keys: Words | None,
    begin: int | None,
    end: int | None,
    nodes: Words | None,
    start: str | None,
    limit: int | None,
) -> Call[Records]:
    """Read records."""
    body = {"key": keys, "from": begin, "to": end, "nodes": nodes, "start": start, "limit": limit}
    return _post(f"{_path(kind)}/get", _given(body), _records)


def delete(kind: Kind, keys: Words | None, begin: int | None, end: int | None) -> Call[None]:
    """Delete records; doing it twice does no more."""
    body = _given({"key": keys, "from": begin, "to": end})
    return _post(_path(kind), body, lambda _: None, method="DELETE")


def find(
    schema: str, where: Mapping[str, Any], nodes: Words | None, limit: int | None
) -> Call[Records]:
    """Find records of applications by their fields."""
    body = {"schema": schema, "where": where, "nodes": nodes, "limit": limit}
    return _post("/app/query", _given(body), _records)


def put_schema(schema: AppSchema) -> Call[None]:
    """Register a schema."""
    body = {"schema": schema.schema, "indexed": schema.indexed}
    return _post(_schema_path(schema.name), body, lambda _: None, method="PUT")


def schemas() -> Call[list[AppSchema]]:
    """Ask for all schemas."""

    def parse(response: httpx.Response) -> list[AppSchema]:
        return msgspec.json.decode(response.content, type=_Schemas).schemas

    return Call("GET", "/app/schemas", parse, repeatable=True)


def delete_schema(name: str) -> Call[None]:
    """Remove a schema; not repeated, for the second answer would be 'not found'."""
    return Call("DELETE", _schema_path(name), lambda _: None)


def put_routes(tables: Sequence[RoutingTable]) -> Call[None]:
    """Store routing tables."""
    key = str(uuid.uuid4())
    return _post("/routing/put", {"routing": tables}, lambda _: None, key=key)


def get_routes(nodes: Words | None) -> Call[RoutingTables]:
    """Read the latest routing tables."""
    return _post("/routing/get", _given({"nodes": nodes}), _tables)


def _records(response: httpx.Response) -> Records:
    answer = msgspec.json.decode(response.content, type=_Answer)
    values: dict[str, list[RecordValue]] = {}
    # A key may have values at several nodes.
    for each in (*answer.analytics, *answer.application):
        values.setdefault(each.key, []).extend(each.values)
    return Records(values, _missing(answer))


def _tables(response: httpx.Response) -> RoutingTables:
    answer = msgspec.json.decode(response.content, type=_Answer)
    latest: dict[str, RoutingTable] = {}
    for each in answer.routing:
        for table in each.values:
            known = latest.get(each.node)
            if known is None or (known.timestamp or 0) <= (table.timestamp or 0):
                latest[each.node] = msgspec.structs.replace(table, node=each.node)
    return RoutingTables(latest, _missing(answer))


def _missing(answer: _Answer) -> dict[str, str]:
    return {each.node: each.reason for each in answer.missing}


def _post(
    path: str,
    body: Any,
    parse: Callable[[httpx.Response], T],
    *,
    method: str = "POST",
    key: str | None = None,
) -> Call[T]:
    headers = _JSON if key is None else {**_JSON, "Idempotency-Key": key}
    content = msgspec.json.encode(body)
    return Call(method, path, parse, content=content, headers=headers, repeatable=True)


def _path(kind: Kind) -> str:
    return "/analytics" if kind == "analytics" else "/app"


def _schema_path(name: str) -> str:
    return f"/app/schemas/{quote(name, safe='')}"


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
