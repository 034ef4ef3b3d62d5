"""Rows of results of insights."""

from typing import Any

import pyarrow as pa

from mistbow.streams.schemas import RESULT_ROWS
from tests.storage_agent.promql.fleet import END

_NAMES = ("insight", "key", "ts", "value", "revision")


def result_table(*rows: tuple[str, str, int, float | None, int]) -> pa.Table:
    """Return results as a table; each row is (insight, key, time (ms), value, revision)."""
    columns: dict[str, list[Any]] = {name: [None] * len(rows) for name in RESULT_ROWS.names}
    columns["computed_at"] = [END] * len(rows)
    columns.update(zip(_NAMES, map(list, zip(*rows, strict=True)), strict=True))
    return pa.table(columns, RESULT_ROWS)
