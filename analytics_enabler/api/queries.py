"""Routes that send queries in SQL and PromQL to the storage agent of the enabler's site."""

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from analytics_enabler.agent_proxy import AgentProxy
from analytics_enabler.api.bodies import body_example
from mistbow.auth.rules import requires
from mistbow.errors import NotFoundError
from mistbow.openapi import raises

_PROMETHEUS = "/api/v1"

Site = Annotated[
    str | None, Query(description="The site whose agent answers; by default the enabler's site.")
]
Start = Annotated[str | None, Query(description="The first time: seconds, or RFC 3339.")]
End = Annotated[str | None, Query(description="The last time: seconds, or RFC 3339.")]
Selectors = Annotated[
    list[str] | None, Query(alias="match", description="Selectors of series; repeatable.")
]
MoreSelectors = Annotated[
    list[str] | None, Query(alias="match[]", description="The same, by the name in Prometheus.")
]


class SqlQuery(BaseModel):
    """A SELECT, and the values of its parameters."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1, description="One SELECT of DuckDB.")
    parameters: list[Any] = Field([], description="The values of ? in the query.")


class PromqlQuery(BaseModel):
    """A query in PromQL; times are seconds or RFC 3339, ``step`` is a duration."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1, description="The query.")
    time: str | float | None = Field(None, description="The time of an instant query.")
    start: str | float | None = Field(None, description="The first time of a range query.")
    end: str | float | None = Field(None, description="The last time of a range query.")
    step: str | float | None = Field(None, description="The interval of a range query.")


def queries_router(agent: AgentProxy) -> APIRouter:
    """Return the routes ``/api/sql`` and ``/api/promql/…``."""
    router = APIRouter(prefix="/api", tags=["explore"])

    select = {"query": "SELECT * FROM latest WHERE metric = ?", "parameters": ["cpu.util"]}
    instant, span = {"query": "cpu_util"}, {"start": 1795262400, "end": 1795263000, "step": 15}

    @router.post("/sql", openapi_extra=body_example(select))
    @requires("read", by_entity=True)
    @raises(NotFoundError)
    async def sql(body: SqlQuery, site: Site = None) -> Response:
        """Execute one SELECT over the data of the storage agent, with the rights of the caller.

        The answer, the limits and the errors are those of the storage agent's `/sql`.
        """
        sent = {"query": body.query, "parameters": body.parameters, "format": "json"}
        return await agent.post("/sql", site=site, json=sent)

    @router.post("/promql/query", openapi_extra=body_example(instant))
    @requires("read")
    async def promql(body: PromqlQuery, site: Site = None) -> Response:
        """Evaluate an instant query; the answer is that of the storage agent's PromQL."""
        form = _given(query=body.query, time=body.time)
        return await agent.post(f"{_PROMETHEUS}/query", site=site, form=form)

    @router.post("/promql/query_range", openapi_extra=body_example({**instant, **span}))
    @requires("read")
    async def promql_range(body: PromqlQuery, site: Site = None) -> Response:
        """Evaluate a query at each step; the answer is that of the storage agent's PromQL."""
        form = _given(query=body.query, start=body.start, end=body.end, step=body.step)
        return await agent.post(f"{_PROMETHEUS}/query_range", site=site, form=form)

    @router.get("/promql/labels")
    @requires("read")
    async def labels(
        match: Selectors = None,
        more: MoreSelectors = None,
        start: Start = None,
        end: End = None,
        site: Site = None,
    ) -> Response:
        """List the names of the labels of series."""
        params = _given(start=start, end=end) | _selectors(match, more)
        return await agent.get(f"{_PROMETHEUS}/labels", site=site, params=params)

    @router.get("/promql/label/{name}/values")
    @requires("read")
    async def label_values(
        name: str,
        match: Selectors = None,
        more: MoreSelectors = None,
        start: Start = None,
        end: End = None,
        site: Site = None,
    ) -> Response:
        """List the values of a label."""
        params = _given(start=start, end=end) | _selectors(match, more)
        path = f"{_PROMETHEUS}/label/{quote(name, safe='')}/values"
        return await agent.get(path, site=site, params=params)

    @router.get("/promql/series")
    @requires("read")
    async def series(
        match: Selectors = None,
        more: MoreSelectors = None,
        start: Start = None,
        end: End = None,
        site: Site = None,
    ) -> Response:
        """List the series that selectors match."""
        params = _given(start=start, end=end) | _selectors(match, more)
        return await agent.get(f"{_PROMETHEUS}/series", site=site, params=params)

    return router


def _given(**parameters: str | float | None) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}


def _selectors(*lists: list[str] | None) -> dict[str, Any]:
    selectors = [selector for each in lists for selector in each or ()]
    return {"match[]": selectors} if selectors else {}
