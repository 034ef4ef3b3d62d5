"""Descriptions of the worker's parameters, fields and answers, for its OpenAPI document."""

from collections.abc import Mapping
from typing import Any

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

_FIELDS: Mapping[str, str] = {
    "fragment_id": "The id of the fragment.",
    "id": "The id of the fragment.",
    "fingerprint": "The fingerprint of the newest accepted version.",
    "state": "The state of the fragment.",
    "active": "The fingerprint of the running version; null: no version runs.",
    "frontier": "The time (ms) up to which results are complete.",
    "error": "Why the fragment does not run; null: it runs.",
    "error_since": "The time (ms) since which it does not run; null: it runs.",
    "lag_ms": "How long (ms) the oldest missing result has been due.",
    "lagging_since": "The time (ms) since which the fragment lags; null: it does not.",
    "shed_since": "The time (ms) since which the fragment is shed; null: it is not.",
    "queries": "The number of running Spark queries.",
    "batches": "The number of micro-batches.",
    "rows_dropped": "The number of rows that Spark's watermark dropped.",
    "rows_written": "The number of rows that the fragment wrote.",
    "bytes_written": "The number of bytes that the fragment wrote.",
    "spent_ms": "Phase of a micro-batch to the time (ms) spent in it.",
    "troubles": "Id of an insight to a text about its missing values.",
}
_STATUS = inline_schema(FragmentStatus)
_EXAMPLE = {"id": "f-1", "fingerprint": "1f", "state": "running", "frontier": 1795262400000}


def _json(schema: dict[str, Any], example: Any, *statuses: int) -> AnswerDescription:
    content = {"application/json": {"schema": schema, "example": example}}
    return AnswerDescription(content, statuses)


DESCRIPTION = ApiDescription(
    _FIELDS,
    {
        "put_fragments_fragment_id": _json(_STATUS, _EXAMPLE, 202),
        "get_fragments_fragment_id": _json(_STATUS, _EXAMPLE, 200),
        "get_fragments": _json({"type": "array", "items": _STATUS}, [_EXAMPLE], 200),
    },
)
