"""Descriptions of the worker's parameters, fields and answers, for its OpenAPI document."""

from collections.abc import Mapping
from typing import Any

from analytics.plan.orders import Order, OrderAnswer
from analytics.plan.status import FragmentStatus
from mistbow.openapi import AnswerDescription, ApiDescription, inline_schema

FRAGMENT_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A fragment of a plan, as the enabler writes it.",
        "content": {"application/json": {"schema": {"type": "object"}, "example": {"id": "f-1"}}},
    }
}
"""The description of a body with a fragment, which only enablers write."""

PREVIEW_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A plan, and the span of its results, as the enabler writes it.",
        "content": {
            "application/json": {"schema": {"type": "object"}, "example": {"max_rows": 2000}}
        },
    }
}
"""The description of a body with a preview, which only enablers write."""

_EXAMPLE_ORDER = {
    "generation": 1795262400, "epoch": 3, "fragments": {}, "retained": [], "moving": [],
    "checked": {}, "number": 7, "orphaned": [],
}  # fmt: skip

ORDER_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The lease of an enabler, and the fragments that should run.",
        "content": {
            "application/json": {"schema": inline_schema(Order), "example": _EXAMPLE_ORDER}
        },
    }
}
"""The description of a body with an order, which only enablers write."""

_FIELDS: Mapping[str, str] = {
    "domain": "The domain whose enabler ordered the fragment.",
    "generation": "The generation of the enabler's lease.",
    "epoch": "The epoch of the enabler's lease.",
    "fragments": "The fragments of the domain.",
    "retained": "The group and the site of each partial fragment that is not stopped.",
    "moving": "The fragments that are not stopped while other workers take over.",
    "orphaned": "The fragments whose last worker is dead, and that no worker writes yet.",
    "number": "Increases with the orders of one lease; 0: unknown.",
    "refused": "Id of a fragment to the reason why the worker does not run the fragment.",
    "without_capacity": "The refused fragments for which the worker has too little memory.",
    "fragment_id": "The id of the fragment.",
    "id": "The id of the fragment.",
    "fingerprint": "The fingerprint of the newest accepted version.",
    "state": "The state of the fragment.",
    "active": "The fingerprint of the running version; null: no version runs.",
    "frontier": "The time (ms) up to which results are complete.",
    "error": "The reason why the fragment does not run; null: it runs.",
    "error_since": "The time (ms) since which the fragment does not run; null: it runs.",
    "lag_ms": "The time (ms) for which the oldest missing result has been due.",
    "lagging_since": "The time (ms) since which the fragment lags; null: it does not.",
    "shed_since": "The time (ms) since which the fragment is shed; null: it is not.",
    "queries": "The number of running Spark queries.",
    "batches": "The number of micro-batches.",
    "rows_dropped": "The number of rows that Spark's watermark dropped.",
    "rows_written": "The number of rows that the fragment wrote.",
    "bytes_written": "The number of bytes that the fragment wrote.",
    "spent_ms": "Phase of a micro-batch to the time (ms) of the phase.",
    "cpu_s": "The CPU time (s) of the fragment, measured every few seconds.",
    "rows_read": "The number of points or panes that the fragment read.",
    "checked": "The share of the points whose quality is checked, also by id of a fragment.",
    "points_checked": "The number of points whose quality was checked.",
    "check_cpu_s": "The CPU time (s) of the checks of points.",
    "memory_mb": "The memory (MB) of the fragment, as a part of the worker's memory.",
    "troubles": "Id of an insight to a text about its missing values.",
    "silent": "Uid of an insight without recent values to the reason.",
    "missing": "Site to the time (ms) after which results lack the site.",
    "correcting": "Insight uid to the time (ms) since which its results lack late points.",
    "corrections_due": "Insight uid to the number of ticks whose results lack late points.",
    "corrected_until": "The frontier (ms) before which all points that arrived are in the results.",
    "searched_until": "The frontier (ms) before which points that arrived late were searched for.",
}
_STATUS = inline_schema(FragmentStatus)
_EXAMPLE = {"id": "f-1", "fingerprint": "1f", "state": "running", "frontier": 1795262400000}


def _json(schema: dict[str, Any], example: Any, *statuses: int) -> AnswerDescription:
    content = {"application/json": {"schema": schema, "example": example}}
    return AnswerDescription(content, statuses)


_BINARY = {"type": "string", "format": "binary"}

DESCRIPTION = ApiDescription(
    _FIELDS,
    {
        "put_domains_domain_order": _json(
            inline_schema(OrderAnswer), {"fragments": [_EXAMPLE], "refused": {}}, 200
        ),
        "put_fragments_fragment_id": _json(_STATUS, _EXAMPLE, 202),
        "get_fragments_fragment_id": _json(_STATUS, _EXAMPLE, 200),
        "post_previews": AnswerDescription(
            {"application/vnd.apache.arrow.stream": {"schema": _BINARY}}
        ),
        "get_fragments": _json({"type": "array", "items": _STATUS}, [_EXAMPLE], 200),
    },
)
