"""Examples of the answers for pages: sessions, editors, metrics and queries."""

from collections.abc import Mapping
from typing import Any

from mistbow.openapi import AnswerDescription

_TIME = 1795262400000
_TEXT = "cpu_now = COMPUTE AVG(cpu.util, 10 SECONDS) EVERY 5 SECONDS\n"
_SESSION = {
    **{"token_required": True, "name": "viewer", "scopes": ["read"], "entity_prefix": ""},
    **{
        "signatures": [],
        "expires_at": _TIME,
        "domain": "all",
        "grafana_url": None,
        "version": "0.1.0",
    },
}
_METRIC = {
    **{"metric": "cpu.util", "name": "CPU", "units": "%", "desc": None, "group": "cpu"},
    **{"min": 0, "max": 100, "entity_types": ["host"], "entities": ["edge-1"]},
    **{"entity_count": 1, "sites": ["edge-1"], "labels": {"region": ["north"]}},
}
_SERIES = {
    **{"entity": "edge-1", "entity_type": "host", "site": "edge-1", "node": "edge-1"},
    **{"latest": {"ts": _TIME, "value": 12.5}},
}
_ITEM = {"label": "AVG", "kind": "function", "insert": "AVG(", "detail": "mean of the values"}
_PLACEMENT = {
    **{"group": "all.fair", "scheduler": "fair", "task": "merge", "fragment": "all.fair"},
    **{"kind": "merge", "node": "cloud", "site": "cloud", "since": _TIME},
}
_PROBLEM = {
    **{"severity": "error", "kind": "site_silent", "subject": "edge-1", "site": "edge-1"},
    **{"what": "the site edge-1 does not answer", "since": _TIME - 60_000},
    **{"action": "Check its machine, its storage agent, and its network."},
}
_HEALTH = {
    **{"at": _TIME, "state": "failed", "problems": [_PROBLEM]},
    "counts": {
        **{"sites": 2, "sites_reachable": 1, "workers": 1, "fragments": 2},
        **{"insights": 3, "insights_running": 3},
    },
}
_EVENT = "event: result\nid: 1795262400000\ndata: {}\n\n"
_PREVIEW = {
    **{"ok": True, "problems": [], "from": _TIME - 600_000, "to": _TIME, "insights": ["cpu_now"]},
    **{"results": [], "truncated": False, "missing_sites": [], "worker": "edge-1"},
    **{"took_ms": 1840},
}
_MOVE = {"at": _TIME, "group": "all.fair", "task": "merge", "node": "cloud", "former": "edge-1"}
_CHANGE = {"at": _TIME, "part": "nodes", "names": ["edge-1"], "change": "removed"}
_CSV = "insight,key,ts,value,…\r\n"


def json_answer(model: str, example: Any, *statuses: int) -> AnswerDescription:
    """Return the description of an answer that is a model as JSON."""
    schema = {"$ref": f"#/components/schemas/{model}"}
    content = {"application/json": {"schema": schema, "example": example}}
    return AnswerDescription(content, statuses or (200,))


def _foreign(title: str, example: Any) -> AnswerDescription:
    """Return the description of an answer of the storage agent."""
    schema = {"type": "object", "title": title, "additionalProperties": True}
    return AnswerDescription({"application/json": {"schema": schema, "example": example}})


_PROMETHEUS = _foreign("PrometheusAnswer", {"status": "success", "data": []})

ANSWERS: Mapping[str, AnswerDescription] = {
    "post_api_session": json_answer("Session", _SESSION),
    "get_api_session": json_answer("Session", _SESSION),
    "post_api_insights_format": json_answer(
        "Formatted", {"ok": True, "queries": _TEXT, "problems": []}
    ),
    "post_api_insights_complete": json_answer(
        "Completions",
        {"line": 1, "column": 13, "length": 2, "items": [_ITEM], "truncated": False},
    ),
    "post_api_insights_preview": json_answer("Preview", _PREVIEW),
    "get_api_metrics": json_answer(
        "Metrics", {"metrics": [_METRIC], "next": None, "total": 1, "missing_sites": []}
    ),
    "get_api_metrics_metric_series": json_answer(
        "SeriesPage", {"series": [_SERIES], "next": None, "total": 1}
    ),
    "get_api_attributes": json_answer(
        "Attributes", {"attributes": [{"name": "region", "values": ["north"], "more": False}]}
    ),
    "post_api_sql": _foreign(
        "SqlAnswer", {"columns": [{"name": "n", "type": "BIGINT"}], "rows": [[42]]}
    ),
    "post_api_promql_query": _PROMETHEUS,
    "post_api_promql_query_range": _PROMETHEUS,
    "get_api_promql_labels": _PROMETHEUS,
    "get_api_promql_label_name_values": _PROMETHEUS,
    "get_api_promql_series": _PROMETHEUS,
    "get_api_placements": json_answer("Placements", {"at": _TIME, "placements": [_PLACEMENT]}),
    "get_api_placements_history": json_answer("PlacementChanges", {"changes": [_MOVE]}),
    "get_api_fog_history": json_answer(
        "FogChanges", {"first": _TIME - 3_600_000, "last": _TIME, "changes": [_CHANGE]}
    ),
    "get_api_health": json_answer("Health", _HEALTH),
    "get_api_events": AnswerDescription(
        {"text/event-stream": {"schema": {"type": "string"}, "example": _EVENT}}
    ),
    "get_api_insights_deployment_id_results_download": AnswerDescription(
        {
            "text/csv": {"schema": {"type": "string"}, "example": _CSV},
            "application/vnd.apache.parquet": {"schema": {"type": "string", "format": "binary"}},
        }
    ),
}
