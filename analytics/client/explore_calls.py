"""Calls for editors and for the search of data; each builds the call that one method sends."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel

from analytics.editor_models import Completions, Formatted, Preview
from analytics.metric_models import Attribute, Attributes, Metrics, SeriesPage
from mistbow.client.transport import Call, without_none

Model = TypeVar("Model", bound=BaseModel)


def model_call(method: str, path: str, model: type[Model], **arguments: Any) -> Call[Model]:
    """Return a call whose answer is a model as JSON."""

    def parse(response: httpx.Response) -> Model:
        return model.model_validate_json(response.content)

    return Call(method, path, parse, **arguments)


def format_queries(queries: str) -> Call[Formatted]:
    """Return a text in its canonical form; a text with syntax errors is returned unchanged."""
    body = {"queries": queries}
    return model_call("POST", "/api/insights/format", Formatted, json=body, repeatable=True)


def complete(queries: str, line: int, column: int) -> Call[Completions]:
    """Return the completions before a column of a line (both from 1) of a text."""
    body = {"queries": queries, "line": line, "column": column}
    return model_call("POST", "/api/insights/complete", Completions, json=body, repeatable=True)


def preview(
    queries: str,
    *,
    minutes: float | None = None,
    insight: str | None = None,
    limit: int | None = None,
) -> Call[Preview]:
    """Return the results that a text would have had in the last minutes, without deploying it.

    ``insight``: the only insight to compute. ``limit``: the maximum number of results.
    """
    body = without_none(
        {"queries": queries, "minutes": minutes, "insight": insight, "limit": limit}
    )
    return model_call("POST", "/api/insights/preview", Preview, json=body)


def metrics(
    search: str = "",
    *,
    metric: str | None = None,
    entity: str | None = None,
    site: str | None = None,
    label: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Metrics]:
    """Return a page of the metrics of all sites that match all conditions.

    ``search``: words of the id, the name, the description, the group or the units. ``label``: an
    attribute of recent points, as KEY=VALUE. ``cursor``: ``next`` of the page before.
    """
    params = without_none(
        {
            **{"search": search or None, "metric": metric, "entity": entity, "site": site},
            **{"label": label, "limit": limit, "cursor": cursor},
        }
    )
    return model_call("GET", "/api/metrics", Metrics, params=params, repeatable=True)


def series(
    metric: str,
    *,
    site: str | None = None,
    entity: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[SeriesPage]:
    """Return a page of the series of a metric, each with its latest point."""
    params = without_none({"site": site, "entity": entity, "limit": limit, "cursor": cursor})
    path = f"/api/metrics/{quote(metric, safe='')}/series"
    return model_call("GET", path, SeriesPage, params=params, repeatable=True)


def attributes(metric: str | None = None) -> Call[list[Attribute]]:
    """Return the attributes of recent points of a metric, or of all metrics, with their values."""
    params = without_none({"metric": metric})
    call = model_call("GET", "/api/attributes", Attributes, params=params, repeatable=True)
    return call.map(lambda each: each.attributes)


def sql(query: str, parameters: Sequence[Any] = (), *, site: str | None = None) -> Call[Any]:
    """Return ``{"columns", "rows"}`` of one SELECT over the data of a storage agent.

    ``site``: the site whose agent executes the SELECT; None: the enabler's site.
    """
    body = {"query": query, "parameters": list(parameters)}
    params = without_none({"site": site})
    return Call("POST", "/api/sql", _json, params=params, json=body, repeatable=True)


def promql(
    query: str,
    *,
    time: float | None = None,
    start: float | None = None,
    end: float | None = None,
    step: float | str | None = None,
    site: str | None = None,
) -> Call[Mapping[str, Any]]:
    """Return Prometheus's answer to a query; with a ``step``, of a range query (times in s)."""
    body = without_none({"query": query, "time": time, "start": start, "end": end, "step": step})
    path = f"/api/promql/{'query' if step is None else 'query_range'}"
    params = without_none({"site": site})
    return Call("POST", path, _json, params=params, json=body, repeatable=True)


def download(
    deployment_id: str,
    file_format: Literal["csv", "parquet"] = "csv",
    *,
    insight: str | None = None,
    start: int | None = None,
    end: int | None = None,
    limit: int | None = None,
) -> Call[bytes]:
    """Return the latest results as a file; see ``results`` for the arguments."""
    span = {"insight": insight, "from": start, "to": end, "limit": limit}
    params = without_none({"format": file_format, **span})
    path = f"/api/insights/{quote(deployment_id, safe='')}/results/download"
    return Call("GET", path, lambda response: response.content, params=params, repeatable=True)


def _json(response: httpx.Response) -> Any:
    return response.json()
