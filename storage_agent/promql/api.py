"""The Prometheus HTTP API under /api/v1, as far as Grafana's built-in data source asks for it."""

from collections.abc import Awaitable, Collection
from typing import Any

import msgspec
import numpy as np
from fastapi import APIRouter, Depends, Request, Response

from mistbow import __version__
from mistbow.auth.rules import requires
from mistbow.clock import Clock
from mistbow.errors import MistbowError
from mistbow.settings import AgentSettings
from storage_agent.agent import Agent
from storage_agent.fabric.relay import SILENT, relayed, takes_site
from storage_agent.promql.known import KnownLabels
from storage_agent.promql.labels import Labels, is_label_name, metric_name
from storage_agent.promql.matching import fitting
from storage_agent.promql.parameters import Parameters, read_parameters
from storage_agent.promql.problems import PromqlError, bad_data, translated
from storage_agent.promql.queries import Queries, Query
from storage_agent.promql.store import Store
from storage_agent.replication.told import series_told

PATH = "/api/v1"

_LIKE = "2.42.0"
"""The version of Prometheus that this answers like, and is tested against."""


def promql_routes(agent: Agent, settings: AgentSettings, clock: Clock) -> APIRouter:
    """Return the routes of an agent."""
    routes = APIRouter(
        prefix=PATH,
        tags=["prometheus"],
        route_class=relayed(agent.relay, stands_in=True),
        dependencies=[Depends(takes_site)],
    )
    store = Store(agent)
    _add_query_routes(routes, Queries(store, settings), clock)
    _add_label_routes(routes, KnownLabels(agent, settings, store))
    _add_status_routes(routes, agent)
    return routes


def _add_query_routes(routes: APIRouter, queries: Queries, clock: Clock) -> None:
    @routes.get("/query", summary="PromQL at one time", openapi_extra=_takes("query", "time"))
    @routes.post("/query", summary="PromQL at one time", openapi_extra=_form("query", "time"))
    @requires("read")
    async def query(request: Request) -> Response:
        """Answer a query at `time` (seconds or RFC 3339; by default now)."""

        async def answer() -> bytes:
            given = await read_parameters(request)
            at = given.time("time", clock())
            asked = Query(given.text("query"), at, at)
            return await queries.answer(asked, missing, _timeout(given))

        missing: list[str] = []
        return await _answered(answer(), missing)

    @routes.get("/query_range", summary="PromQL over time", openapi_extra=_takes(*_RANGE))
    @routes.post("/query_range", summary="PromQL over time", openapi_extra=_form(*_RANGE))
    @requires("read")
    async def query_range(request: Request) -> Response:
        """Answer a query at each `step` from `start` to `end`."""

        async def answer() -> bytes:
            given = await read_parameters(request)
            start, end = given.time("start"), given.time("end")
            step = given.duration("step")
            asked = Query(given.text("query"), start, end, step)
            return await queries.answer(asked, missing, _timeout(given))

        missing: list[str] = []
        return await _answered(answer(), missing)


def _add_label_routes(routes: APIRouter, known: KnownLabels) -> None:
    async def matched(given: Parameters, missing: list[str]) -> list[Labels]:
        series = await known.all(given.time("start", 0), missing)
        selectors = given.selectors("match[]")
        if not selectors:
            return series
        fits = np.any([fitting(selector, series) for selector in selectors], axis=0)
        return [labels for labels, fit in zip(series, fits, strict=True) if fit]

    @routes.get("/labels", summary="Names of labels", openapi_extra=_takes(*_SERIES))
    @routes.post("/labels", summary="Names of labels", openapi_extra=_form(*_SERIES))
    @requires("read")
    async def labels(request: Request) -> Response:
        async def answer() -> bytes:
            given = await read_parameters(request)
            names = {name for series in await matched(given, missing) for name, _ in series}
            return msgspec.json.encode(sorted(names)[: given.count("limit")])

        missing: list[str] = []
        return await _answered(answer(), missing)

    @routes.get("/label/{name}/values", summary="A label's values", openapi_extra=_takes(*_SERIES))
    @requires("read")
    async def values(name: str, request: Request) -> Response:
        async def answer() -> bytes:
            if not is_label_name(name):
                raise bad_data(f"invalid label name: {name!r}")
            given = await read_parameters(request)
            found = {dict(series).get(name, "") for series in await matched(given, missing)} - {""}
            return msgspec.json.encode(sorted(found)[: given.count("limit")])

        missing: list[str] = []
        return await _answered(answer(), missing)

    @routes.get("/series", summary="Series by selectors", openapi_extra=_takes(*_SERIES))
    @routes.post("/series", summary="Series by selectors", openapi_extra=_form(*_SERIES))
    @requires("read")
    async def series(request: Request) -> Response:
        async def answer() -> bytes:
            given = await read_parameters(request)
            given.text("match[]")
            found = (await matched(given, missing))[: given.count("limit")]
            return msgspec.json.encode([dict(each) for each in found])

        missing: list[str] = []
        return await _answered(answer(), missing)


def _add_status_routes(routes: APIRouter, agent: Agent) -> None:
    @routes.get("/metadata", summary="What metrics are", openapi_extra=_takes("metric", "limit"))
    @requires("read")
    async def metadata(request: Request) -> Response:
        async def answer() -> bytes:
            given = await read_parameters(request)
            wanted = set(given.all("metric"))
            found: dict[str, list[dict[str, str]]] = {}
            if (silent := SILENT.get()) is None:
                series = agent.catalogue.all()
            else:
                missing.append(f"{silent.reason}; metrics that it has not told of are missing")
                series = series_told(agent.member.told_by(silent.site))
            for (metric, _), told in series:
                name = metric_name(metric)
                if wanted and name not in wanted:
                    continue
                text = str(told.get("desc") or told.get("name") or "")
                item = {"type": "unknown", "help": text, "unit": str(told.get("units") or "")}
                items = found.setdefault(name, [])
                if item not in items:
                    items.append(item)
            return msgspec.json.encode(dict(sorted(found.items())[: given.count("limit")]))

        missing: list[str] = []
        return await _answered(answer(), missing)

    @routes.get("/status/buildinfo", summary="What this answers like")
    @requires("read")
    async def buildinfo() -> Response:
        """The version is that of the Prometheus that this answers like."""
        about = {"version": _LIKE, "revision": __version__, "application": "Mistbow"}
        blank = dict.fromkeys(("branch", "buildUser", "buildDate", "goVersion"), "")
        return _json(b'{"status":"success","data":%b}' % msgspec.json.encode(about | blank))


def _timeout(given: Parameters) -> float | None:
    return given.duration("timeout") / 1000 if given.all("timeout") else None


async def _answered(data: Awaitable[bytes], missing: Collection[str]) -> Response:
    """Return data, or why there is none, in Prometheus' form; what is missing are its warnings."""
    try:
        found = await data
        if not missing:
            return _json(b'{"status":"success","data":%b}' % found)
        warnings = msgspec.json.encode(sorted(set(missing)))
        return _json(b'{"status":"success","data":%b,"warnings":%b}' % (found, warnings))
    except PromqlError as error:
        problem = error
    except MistbowError as error:
        problem = translated(error)
    return _json(msgspec.json.encode(problem.body()), problem.status)


def _json(data: bytes, status: int = 200) -> Response:
    headers = {"Retry-After": "1"} if status == 503 else None
    return Response(data, status, headers, media_type="application/json")


_RANGE = ("query", "start", "end", "step")
_SERIES = ("match[]", "start", "end", "limit")
_NEEDED = frozenset({"query", "step"})
_EXAMPLES: dict[str, Any] = {
    "query": "sum by (node) (rate(requests_total[5m]))",
    "match[]": '{__name__="cpu"}',
    "step": "15s",
}


def _schema(name: str) -> dict[str, Any]:
    schema = {"type": "array", "items": {"type": "string"}} if "[" in name else {"type": "string"}
    return schema | ({"example": _EXAMPLES[name]} if name in _EXAMPLES and "[" not in name else {})


def _takes(*names: str) -> dict[str, Any]:
    """Return what OpenAPI says of a route with these parameters in its address."""
    return {
        "parameters": [
            {"name": name, "in": "query", "required": name in _NEEDED, "schema": _schema(name)}
            for name in names
        ]
    }


def _form(*names: str) -> dict[str, Any]:
    """Return what OpenAPI says of a route with these parameters in a form."""
    schema = {
        "type": "object",
        "required": [name for name in names if name in _NEEDED],
        "properties": {name: _schema(name) for name in names},
    }
    content = {"application/x-www-form-urlencoded": {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}}
