"""Calls about records; each function builds the call that one client method sends."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from mistbow.client.agent_model import Missing, Names
from mistbow.client.record_model import (
    AppSchema,
    Kind,
    Record,
    Records,
    RecordValue,
    RoutingTable,
    RoutingTables,
)
from mistbow.client.transport import (
    Call,
    acknowledged,
    get_json,
    json_of,
    no_answer,
    send_json,
    without_none,
)


class _KeyValues(msgspec.Struct, frozen=True):
    key: str
    values: list[RecordValue[Any]]


class _NodeTables(msgspec.Struct, frozen=True):
    node: str
    values: list[RoutingTable]


class _RecordsAnswer(msgspec.Struct, frozen=True):
    analytics: list[_KeyValues] = []
    application: list[_KeyValues] = []
    routing: list[_NodeTables] = []
    missing: list[Missing] = []


class _Schemas(msgspec.Struct, frozen=True):
    schemas: list[AppSchema]


def put(kind: Kind, records: Sequence[Record], idempotency_key: str | None = None) -> Call[None]:
    """Store records atomically: if one record cannot be stored, no record is stored.

    A request with the idempotency key of an earlier request changes nothing.
    """
    key = idempotency_key or str(uuid.uuid4())
    return send_json("POST", f"{_path(kind)}/put", {kind: records}, acknowledged, key=key)


def get(
    kind: Kind,
    keys: Names | None = None,
    *,
    start: int | None = None,
    end: int | None = None,
    nodes: Names | None = None,
    from_key: str | None = None,
    limit: int | None = None,
) -> Call[Records]:
    """Return the latest record of each key, or the records from ``start`` to ``end`` (ms,
    inclusive).

    Records are ordered by key; keys below ``from_key`` are left out. ``limit``: the maximum number
    of keys.
    """
    body = {
        "key": keys,
        "from": start,
        "to": end,
        "nodes": nodes,
        "start": from_key,
        "limit": limit,
    }
    path = f"{_path(kind)}/get"
    return send_json("POST", path, without_none(body), json_of(_RecordsAnswer)).map(_records)


def delete(
    kind: Kind,
    keys: Names | None = None,
    *,
    start: int | None = None,
    end: int | None = None,
) -> Call[None]:
    """Delete the records of some keys from ``start`` to ``end`` (ms, inclusive).

    ``keys``: None: the records of all keys are deleted.
    """
    body = without_none({"key": keys, "from": start, "to": end})
    return send_json("DELETE", _path(kind), body, no_answer)


def find(
    schema: str,
    where: Mapping[str, Any] | None = None,
    *,
    nodes: Names | None = None,
    limit: int | None = None,
) -> Call[Records]:
    """Return the latest application records that name the schema ``schema`` and match ``where``.

    ``where``: field → a value, or a range of values such as ``{"gte": 1, "lte": 5}``.
    """
    body = {"schema": schema, "where": where or {}, "nodes": nodes, "limit": limit}
    return send_json("POST", "/app/query", without_none(body), json_of(_RecordsAnswer)).map(
        _records
    )


def put_schema(schema: AppSchema) -> Call[None]:
    """Register a schema, in place of an earlier schema with the same name."""
    body = {"schema": schema.schema, "indexed": schema.indexed}
    return send_json("PUT", _schema_path(schema.name), body, no_answer)


def schemas() -> Call[list[AppSchema]]:
    """Return all schemas."""
    return get_json("/app/schemas", _Schemas).map(lambda answer: answer.schemas)


def delete_schema(name: str) -> Call[None]:
    """Remove a schema; raises ``NotFoundError`` if the schema does not exist."""
    # Not repeatable: the second answer would be an error.
    return Call("DELETE", _schema_path(name), no_answer)


def put_routes(tables: Sequence[RoutingTable]) -> Call[None]:
    """Store routing tables atomically: if one table cannot be stored, no table is stored."""
    key = str(uuid.uuid4())
    return send_json("POST", "/routing/put", {"routing": tables}, acknowledged, key=key)


def routes(nodes: Names | None = None) -> Call[RoutingTables]:
    """Return the latest routing table of each node.

    ``nodes``: None: the nodes whose tables the agent stores.
    """
    body = without_none({"nodes": nodes})
    return send_json("POST", "/routing/get", body, json_of(_RecordsAnswer)).map(_tables)


def _records(answer: _RecordsAnswer) -> Records:
    values: dict[str, list[RecordValue[Any]]] = {}
    # A key may have values at several nodes.
    for each in (*answer.analytics, *answer.application):
        values.setdefault(each.key, []).extend(each.values)
    return Records(values, _reasons(answer))


def _tables(answer: _RecordsAnswer) -> RoutingTables:
    latest: dict[str, RoutingTable] = {}
    for each in answer.routing:
        for table in each.values:
            former = latest.get(each.node)
            if former is None or (former.timestamp or 0) <= (table.timestamp or 0):
                latest[each.node] = msgspec.structs.replace(table, node=each.node)
    return RoutingTables(latest, _reasons(answer))


def _reasons(answer: _RecordsAnswer) -> dict[str, str]:
    return {each.node: each.reason for each in answer.missing}


def _path(kind: Kind) -> str:
    return "/analytics" if kind == "analytics" else "/app"


def _schema_path(name: str) -> str:
    return f"/app/schemas/{quote(name, safe='')}"
