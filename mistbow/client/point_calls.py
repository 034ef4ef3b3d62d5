"""Calls about points and series; each function builds the call that one client method sends."""

import math
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

import httpx
import msgspec
import pyarrow as pa

from mistbow.client.agent_model import (
    POINT_SCHEMA,
    Aggregate,
    Aggregated,
    Deleted,
    Filters,
    FogNode,
    ListAnswer,
    Missing,
    Names,
    NodeData,
    Point,
    QueryAnswer,
)
from mistbow.client.methods import Page, PagedCall
from mistbow.client.transport import Call, acknowledged, json_of, send_json, without_none
from mistbow.errors import UnavailableError
from mistbow.streams.json_numbers import from_json, to_json
from mistbow.streams.wire import MEDIA_TYPE, read_batches, read_table

_FILTERS = {
    "entity_type": "entityType",
    "group": "groupName",
    "pod_name": "podName",
    "pod_namespace": "podNamespace",
    "container_name": "containerName",
    "nodes": "nodes",
}
"""The names of filters: name in Python → name in the REST API."""


class _GetAnswer(msgspec.Struct, frozen=True):
    monitoring: list[NodeData]
    missing: list[Missing] = []
    next: str | None = None


class _End(msgspec.Struct, frozen=True):
    missing: list[Missing] = []


class _NodesAnswer(msgspec.Struct, frozen=True):
    nodes: list[FogNode]


def put(points: Sequence[Point], idempotency_key: str | None = None) -> Call[None]:
    """Store points atomically: if one point cannot be stored, no point is stored.

    A request with the idempotency key of an earlier request changes nothing.
    """
    key = idempotency_key or str(uuid.uuid4())
    body = {"monitoring": [_sendable(point) for point in points]}
    return send_json("POST", "/put", body, acknowledged, key=key)


def get(
    metric: Names | None = None,
    entity: Names | None = None,
    *,
    start: int | None = None,
    end: int | None = None,
    latest: bool | None = None,
    **filters: Unpack[Filters],
) -> Call[list[NodeData]]:
    """Return the latest point of each series, or the points from ``start`` to ``end`` (ms,
    inclusive).

    ``latest=False`` without ``start`` and ``end``: all points. ``nodes``: the nodes whose points
    are read; None: the agent's own node; empty: all nodes.
    """
    body = _body(metric, entity, filters, start=start, end=end, latest=latest)
    return send_json("POST", "/get", body, _get_answer).map(_node_data)


def get_table(
    metric: Names | None = None,
    entity: Names | None = None,
    *,
    start: int | None = None,
    end: int | None = None,
    latest: bool | None = None,
    **filters: Unpack[Filters],
) -> Call[pa.Table]:
    """Return the points that ``get`` would return, as a table of the schema ``POINT_SCHEMA``.

    The number of points is not limited. Raises ``UnavailableError`` for an interrupted answer.
    """
    body = _body(metric, entity, filters, start=start, end=end, latest=latest)
    call = send_json("POST", "/get", body, _read_points)
    return replace(call, headers={**call.headers, "Accept": MEDIA_TYPE})


def iterate_points(
    metric: Names | None = None,
    entity: Names | None = None,
    *,
    start: int | None = None,
    end: int | None = None,
    latest: bool | None = None,
    limit: int = 10_000,
    **filters: Unpack[Filters],
) -> PagedCall[NodeData]:
    """Yield the points that ``get`` would return, in pages of about ``limit`` points.

    The points of a node, and of a series, can be in several items.
    """
    body = _body(metric, entity, filters, start=start, end=end, latest=latest)

    def request(cursor: str | None) -> Call[Page[NodeData]]:
        page = {**body, **without_none({"limit": limit, "cursor": cursor})}
        call = send_json("POST", "/get", page, _get_answer)
        return call.map(lambda answer: Page(_node_data(answer), answer.next))

    return PagedCall(request)


def query(
    agg: Aggregate,
    metric: Names | None = None,
    entity: Names | None = None,
    *,
    start: int | None = None,
    end: int | None = None,
    latest: bool | None = None,
    **filters: Unpack[Filters],
) -> Call[Aggregated]:
    """Return an aggregate over the values of the points that ``get`` would return."""
    body = _body(metric, entity, filters, start=start, end=end, latest=latest)
    call = send_json("POST", "/query", {**body, "agg": agg}, json_of(QueryAnswer))
    return call.map(lambda answer: Aggregated(answer.value, _reasons(answer.missing)))


def list_series(
    metric: Names | None = None,
    entity: Names | None = None,
    *,
    fields: Sequence[str] | None = None,
    **filters: Unpack[Filters],
) -> Call[list[dict[str, Any]]]:
    """Return the metadata of series, without points; keys are the field names of the REST API."""
    body = {**_body(metric, entity, filters), **without_none({"fields": fields})}
    return send_json("POST", "/list", body, json_of(ListAnswer)).map(lambda each: list(each.metric))


def iterate_series(
    metric: Names | None = None,
    entity: Names | None = None,
    *,
    fields: Sequence[str] | None = None,
    limit: int = 1000,
    **filters: Unpack[Filters],
) -> PagedCall[dict[str, Any]]:
    """Yield the metadata that ``list_series`` would return, in pages of ``limit`` series."""
    body = {**_body(metric, entity, filters), **without_none({"fields": fields})}

    def request(cursor: str | None) -> Call[Page[dict[str, Any]]]:
        page = {**body, **without_none({"limit": limit, "cursor": cursor})}
        call = send_json("POST", "/list", page, json_of(ListAnswer))
        return call.map(lambda answer: Page(answer.metric, answer.next or None))

    return PagedCall(request)


def nodes() -> Call[list[FogNode]]:
    """Return all nodes of the fog."""
    return send_json("POST", "/nodes", {}, json_of(_NodesAnswer)).map(lambda each: each.nodes)


def delete(
    metric: Names | None = None,
    entity: Names | None = None,
    *,
    start: int | None = None,
    end: int | None = None,
    dry_run: bool = False,
    **filters: Unpack[Filters],
) -> Call[Deleted]:
    """Delete the points that ``get`` would return with ``latest=False``; return the numbers of
    points.

    ``dry_run``: only count these points.
    """
    body = _body(metric, entity, filters, start=start, end=end)
    call = send_json("DELETE", "/monitoring", body, json_of(Deleted))
    return replace(call, params={"dry_run": "true"}) if dry_run else call


def sql(query: str, parameters: Sequence[Any] = ()) -> Call[pa.Table]:
    """Return the result of one SELECT over the agent's points, streams and records."""
    body = {"query": query, "parameters": parameters, "format": "arrow"}
    return send_json("POST", "/sql", body, _arrow_table)


def _sendable(point: Point) -> Point:
    """Return a point that JSON can represent: the value NaN or an infinity becomes a text."""
    if isinstance(point.value, str) or math.isfinite(point.value):
        return point
    return msgspec.structs.replace(point, value=to_json(point.value))


def _get_answer(response: httpx.Response) -> _GetAnswer:
    try:
        return msgspec.json.decode(response.content, type=_GetAnswer)
    except msgspec.ValidationError:
        # Some values are texts, which is rare: the numbers that JSON lacks.
        answer = msgspec.json.decode(response.content)
        for node in answer["monitoring"]:
            for series in node["data"]:
                for point in series["values"]:
                    point["val"] = from_json(point["val"])
        return msgspec.convert(answer, _GetAnswer)


def _arrow_table(response: httpx.Response) -> pa.Table:
    return read_table(response.content)


def _body(
    metric: Names | None,
    entity: Names | None,
    filters: Filters,
    *,
    start: int | None = None,
    end: int | None = None,
    latest: bool | None = None,
) -> dict[str, Any]:
    body = {"metricID": metric, "entityID": entity, "from": start, "to": end, "latest": latest}
    return without_none({**body, **{_FILTERS[name]: value for name, value in filters.items()}})


def _node_data(answer: _GetAnswer) -> list[NodeData]:
    missing = [NodeData(each.node, [], each.reason) for each in answer.missing]
    return answer.monitoring + missing


def _read_points(response: httpx.Response) -> pa.Table:
    """Return the rows of an answer, whose last batch has the end mark or the error as metadata."""
    found = read_batches(response.content)
    mark = found[-1][1] if found else {}
    if "end" not in mark:
        reason = "the end mark is missing"
        if "error" in mark:
            reason = msgspec.json.decode(mark["error"])["message"]
        raise UnavailableError(
            f"the answer was interrupted: {reason}", hint="Send the request again."
        )
    table = pa.Table.from_batches([rows for rows, _ in found], POINT_SCHEMA)
    missing = _reasons(msgspec.json.decode(mark["end"], type=_End).missing)
    return table.replace_schema_metadata(
        {"missing": msgspec.json.encode(missing)} if missing else None
    )


def _reasons(missing: Sequence[Missing]) -> dict[str, str]:
    return {each.node: each.reason for each in missing}
