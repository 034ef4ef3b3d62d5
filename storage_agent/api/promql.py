"""The part of the Prometheus HTTP API under /api/v1 that Grafana's data source uses."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from fastapi import APIRouter, Request, Response

from mistbow import __version__
from mistbow.auth.rules import requires
from mistbow.clock import Clock
from mistbow.errors import MistbowError
from mistbow.runtime.collection import full_collections_paused, release
from storage_agent.agent.agent import Agent
from storage_agent.http.abandonment import only_reads
from storage_agent.http.responses import json_response
from storage_agent.membership.facts import published_series
from storage_agent.membership.proxy import UNREACHABLE, proxied_router
from storage_agent.promql.encode import Chunks, encode_items
from storage_agent.promql.engine import Query, QueryEngine
from storage_agent.promql.errors import PromqlError, bad_data, to_promql_error
from storage_agent.promql.label_index import LabelIndex
from storage_agent.promql.labels import (
    Labels,
    is_label_name,
    metric_name,
    omit_original_names,
    sort_labels,
)
from storage_agent.promql.matchers import match_series
from storage_agent.promql.parameters import Parameters, read_parameters
from storage_agent.promql.querier import Querier
from storage_agent.series import Metadata
from storage_agent.settings import AgentSettings

PATH = "/api/v1"

_MAX_WHOLE_BYTES = 256 * 2**10
"""The maximum size of an answer that is sent as a whole, and not streamed."""

_PROMETHEUS_VERSION = "2.42.0"
"""The version of Prometheus whose answers this API is tested against."""

Handler = Callable[[Parameters, list[str]], Awaitable[Chunks]]
"""A function of parameters and a list of warnings that returns ``data`` of the answer as JSON.

For each missing part of the data, the function appends a message to the list.
"""


def promql_routes(agent: Agent, settings: AgentSettings, clock: Clock) -> APIRouter:
    """Return the routes of the Prometheus HTTP API."""
    routes = proxied_router(agent.proxy, "prometheus", prefix=PATH, fails_over=True)
    querier = Querier(agent, settings)
    _add_query_routes(routes, QueryEngine(querier, settings), clock)
    _add_label_routes(routes, LabelIndex(agent, settings, querier))
    _add_status_routes(routes, agent)
    return routes


def _add_query_routes(routes: APIRouter, engine: QueryEngine, clock: Clock) -> None:
    async def query(parameters: Parameters, missing: list[str]) -> Chunks:
        """Evaluate a query at `time` (seconds or RFC 3339; by default now)."""
        at = parameters.time("time", clock())
        instant_query = Query(parameters.text("query"), at, at)
        return await engine.answer(instant_query, missing, _timeout(parameters))

    async def query_range(parameters: Parameters, missing: list[str]) -> Chunks:
        """Evaluate a query at each `step` from `start` to `end`."""
        start, end = parameters.time("start"), parameters.time("end")
        step = parameters.duration("step")
        range_query = Query(parameters.text("query"), start, end, step)
        return await engine.answer(range_query, missing, _timeout(parameters))

    _add_route(routes, "/query", query, "Evaluate an instant query", ("query", "time"))
    _add_route(routes, "/query_range", query_range, "Evaluate a range query", _RANGE)


def _add_label_routes(routes: APIRouter, index: LabelIndex) -> None:
    async def match(
        parameters: Parameters, missing: list[str], encode: Callable[[list[Labels]], Chunks]
    ) -> Chunks:
        """Return the encoded label sets that ``match[]`` selects."""
        selectors = parameters.selectors("match[]")

        def select(label_sets: list[Labels]) -> Chunks:
            try:
                matching = label_sets
                if selectors:
                    matches = np.any([match_series(each, label_sets) for each in selectors], axis=0)
                    matching = list(itertools.compress(label_sets, matches))
                omit_original_names([matching])
                return encode(matching)
            finally:
                release(label_sets)

        # The labels of many series are millions of objects, all without cycles.
        with full_collections_paused():
            label_sets = await index.label_sets(parameters.time("start", 0), missing)
            return await asyncio.to_thread(select, label_sets)

    async def labels(parameters: Parameters, missing: list[str]) -> Chunks:
        """Return the sorted names of the labels of the series that match `match[]`.

        Without `match[]`, all series are searched.
        """
        limit = parameters.count("limit")

        def encode(matching: list[Labels]) -> Chunks:
            return _encode_texts({name for series in matching for name, _ in series}, limit)

        return await match(parameters, missing, encode)

    async def series(parameters: Parameters, missing: list[str]) -> Chunks:
        """Return the labels, with their values, of each series that matches a selector."""
        parameters.text("match[]")
        limit = parameters.count("limit")

        def encode(matching: list[Labels]) -> Chunks:
            order = sort_labels(matching)[:limit].tolist()
            return encode_items(dict(matching[number]) for number in order)

        return await match(parameters, missing, encode)

    _add_route(routes, "/labels", labels, "List the names of labels", _SERIES)
    _add_route(routes, "/series", series, "Find series by selectors", _SERIES)

    @routes.get(
        "/label/{name}/values",
        summary="List the values of a label",
        openapi_extra=_query_parameters(*_SERIES),
    )
    @only_reads
    @requires("read")
    async def values(name: str, request: Request) -> Response:
        """Return the sorted values of a label in the series that match `match[]`.

        Without `match[]`, all series are searched.
        """

        async def label_values(parameters: Parameters, missing: list[str]) -> Chunks:
            if not is_label_name(name):
                raise bad_data(f"invalid label name: {name!r}")
            limit = parameters.count("limit")

            def encode(matching: list[Labels]) -> Chunks:
                found = {dict(labels).get(name, "") for labels in matching}
                return _encode_texts(found - {""}, limit)

            return await match(parameters, missing, encode)

        return await _respond(label_values, request)


def _add_status_routes(routes: APIRouter, agent: Agent) -> None:
    async def metadata(parameters: Parameters, missing: list[str]) -> Chunks:
        """Return the description and the unit of each metric."""
        metrics = set(parameters.all("metric"))
        described: Iterable[tuple[str, Metadata]]
        if (unreachable := UNREACHABLE.get()) is None:
            described = agent.catalogue.select().described_metrics()
        else:
            missing.append(
                f"{unreachable.reason}; metrics that the site did not publish are missing"
            )
            published = published_series(agent.membership.facts_of(unreachable.site))
            described = ((metric, metadata) for (metric, _), metadata in published)
        found = await asyncio.to_thread(_describe_metrics, described, metrics)
        return [msgspec.json.encode(dict(sorted(found.items())[: parameters.count("limit")]))]

    _add_route(routes, "/metadata", metadata, "Describe metrics", ("metric", "limit"), post=False)

    @routes.get("/status/buildinfo", summary="Version of Prometheus that answers conform to")
    @requires("read")
    async def buildinfo() -> Response:
        """Return the version of Prometheus whose API this agent implements."""
        info = {"version": _PROMETHEUS_VERSION, "revision": __version__, "application": "Mistbow"}
        blank = dict.fromkeys(("branch", "buildUser", "buildDate", "goVersion"), "")
        return json_response(b'{"status":"success","data":%b}' % msgspec.json.encode(info | blank))


def _describe_metrics(
    described: Iterable[tuple[str, Metadata]], metrics: Collection[str]
) -> dict[str, list[dict[str, str]]]:
    """Return name of a metric -> its distinct descriptions and units, as Prometheus returns them.

    ``described``: pairs of a metric and its metadata. ``metrics``: the names of the metrics to
    return; empty: all metrics.
    """
    found: dict[str, dict[tuple[str, str], None]] = {}
    for metric, metadata in described:
        name = metric_name(metric)
        if not metrics or name in metrics:
            text = str(metadata.get("desc") or metadata.get("name") or "")
            found.setdefault(name, {})[text, str(metadata.get("units") or "")] = None
    return {
        name: [{"type": "unknown", "help": text, "unit": unit} for text, unit in items]
        for name, items in found.items()
    }


def _encode_texts(texts: Collection[str], limit: int | None) -> Chunks:
    """Return texts as a sorted JSON list; ``limit``: the maximum number of texts."""
    found = pa.array(texts, pa.string())
    # Unlike sorted(), Arrow lets other threads run.
    return encode_items(found.take(pc.sort_indices(found)).slice(0, limit).to_pylist())


def _timeout(parameters: Parameters) -> float | None:
    return parameters.duration("timeout") / 1000 if parameters.all("timeout") else None


def _add_route(
    routes: APIRouter,
    path: str,
    handler: Handler,
    summary: str,
    parameters: Sequence[str],
    *,
    post: bool = True,
) -> None:
    """Add a GET route with parameters in the URL.

    ``post``: whether to add a POST route with the same parameters in a form.
    """

    @only_reads
    @requires("read")
    async def endpoint(request: Request) -> Response:
        return await _respond(handler, request)

    operations = {"GET": _query_parameters(*parameters)}
    if post:
        operations["POST"] = _form_parameters(*parameters)
    for method, operation in operations.items():
        routes.add_api_route(
            path,
            endpoint,
            methods=[method],
            name=handler.__name__,
            summary=summary,
            description=handler.__doc__,
            openapi_extra=operation,
        )


async def _respond(handler: Handler, request: Request) -> Response:
    """Call a handler; return the data and warnings, or the error, in the format of Prometheus."""
    missing: list[str] = []
    try:
        data = await handler(await read_parameters(request), missing)
        end = b"}"
        if missing:
            end = b',"warnings":%b}' % msgspec.json.encode(sorted(set(missing)))
        chunks = [b'{"status":"success","data":', *data, end]
        is_long = sum(map(len, chunks)) > _MAX_WHOLE_BYTES
        return json_response(iter(chunks) if is_long else b"".join(chunks))
    except PromqlError as error:
        problem = error
    except MistbowError as error:
        problem = to_promql_error(error)
    headers = {"Retry-After": "1"} if problem.status == 503 else None
    return json_response(msgspec.json.encode(problem.body()), problem.status, headers)


_RANGE = ("query", "start", "end", "step")
_SERIES = ("match[]", "start", "end", "limit")
_REQUIRED = frozenset({"query", "step"})
_NOT_EXECUTED = {"responses": {"422": {"description": "The query cannot be executed."}}}
_EXAMPLES: dict[str, Any] = {
    "query": "sum by (node) (rate(requests_total[5m]))",
    "match[]": '{__name__="cpu"}',
    "step": "15s",
}


def _schema(name: str) -> dict[str, Any]:
    schema = {"type": "array", "items": {"type": "string"}} if "[" in name else {"type": "string"}
    return schema | ({"example": _EXAMPLES[name]} if name in _EXAMPLES and "[" not in name else {})


def _query_parameters(*names: str) -> dict[str, Any]:
    """Return the OpenAPI operation of a route with parameters in the URL."""
    return {
        "parameters": [
            {"name": name, "in": "query", "required": name in _REQUIRED, "schema": _schema(name)}
            for name in names
        ],
        **_NOT_EXECUTED,
    }


def _form_parameters(*names: str) -> dict[str, Any]:
    """Return the OpenAPI operation of a route with parameters in a posted form."""
    schema = {
        "type": "object",
        "required": [name for name in names if name in _REQUIRED],
        "properties": {name: _schema(name) for name in names},
    }
    example = {name: _EXAMPLES[name] for name in names if name in _REQUIRED}
    content = {"application/x-www-form-urlencoded": {"schema": schema, "example": example}}
    return {"requestBody": {"required": True, "content": content}, **_NOT_EXECUTED}
