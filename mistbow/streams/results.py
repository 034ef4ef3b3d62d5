"""Selects the latest revisions from the rows of a stream of results, and reads their fields."""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

RESULT_IDENTITY = ["insight", "key", "ts"]
"""The columns that identify a result; its revisions have equal values in these columns."""


def latest_revisions(rows: pa.Table) -> pa.Table:
    """Return the row with the highest revision of each (insight, key, ts).

    Rows of withdrawn results, which have neither a value nor a text, are included. Of rows with
    equal revisions, the first row is returned. ``rows`` must be in the order of their positions;
    the returned rows are in the order of time, insight and key.
    """
    numbered = rows.append_column("position", pa.array(range(rows.num_rows), pa.int64()))
    best = numbered.select([*RESULT_IDENTITY, "revision", "position"]).sort_by(
        [("revision", "descending"), ("position", "ascending")]
    )
    first = best.group_by(RESULT_IDENTITY, use_threads=False).aggregate([("position", "first")])
    latest = rows.take(first["position_first"])
    return latest.sort_by([("ts", "ascending"), ("insight", "ascending"), ("key", "ascending")])


def current_results(rows: pa.Table) -> pa.Table:
    """Return the results that users see: the rows of the latest revisions, without withdrawn
    results.
    """
    latest = latest_revisions(rows)
    return latest.filter(pc.or_(pc.is_valid(latest["value"]), pc.is_valid(latest["text"])))


def result_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored row of results with its key and its missing sites in the form of the API.

    ``few_points``: the number of sampled points, if it is too small for narrow bounds of an
    estimate. The row stores it in ``values``, which only functions without a confidence use.

    >>> fields = {"key": '{"site": "n"}', "values": [3.0], "confidence": 0.95, "missing": "b,c"}
    >>> result_fields(fields)["few_points"], result_fields(fields)["values"]
    (3, None)
    """
    values = row.get("values")
    is_few = row.get("confidence") is not None
    return {
        **row,
        "key": json.loads(row["key"]) if row["key"] else {},
        "missing": row["missing"].split(",") if row.get("missing") else [],
        "values": None if is_few else values,
        "few_points": int(values[0]) if is_few and values else None,
    }
