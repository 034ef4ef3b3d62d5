"""The export of results as files: CSV and Parquet."""

import csv
import io
import json
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

FileFormat = Literal["csv", "parquet"]

MEDIA_TYPES: Mapping[FileFormat, str] = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}

_GROUP_ROWS = 10_000
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""The beginnings of texts that spreadsheets evaluate."""

SCHEMA = pa.schema(
    [
        pa.field("insight", pa.string(), nullable=False),
        # A JSON object: the values of the attributes in BY.
        pa.field("key", pa.string(), nullable=False),
        pa.field("ts", pa.int64(), nullable=False),
        pa.field("value", pa.float64()),
        pa.field("text", pa.string()),
        pa.field("low", pa.float64()),
        pa.field("high", pa.float64()),
        pa.field("confidence", pa.float64()),
        pa.field("values", pa.list_(pa.float64())),
        pa.field("revision", pa.int64(), nullable=False),
        pa.field("computed_at", pa.int64(), nullable=False),
        pa.field("missing", pa.list_(pa.string())),
        pa.field("few_points", pa.int64()),
    ]
)
"""The columns of a file; times are in ms since the epoch."""


def export(rows: Iterable[Mapping[str, Any]], form: FileFormat) -> bytes:
    """Return results, in the form of the API, as a file.

    A CSV file has further columns, so that spreadsheets can read it: ``time``, the ``ts`` in ISO
    8601 (UTC), and a column for each attribute of the keys. An attribute with the name of another
    column has the prefix ``key.``. An apostrophe precedes a name of an attribute, and a text in its
    column or in ``text``, that a spreadsheet would take for a formula. Lists are JSON.
    """
    if form == "parquet":
        flat = ({**row, "key": _json(row["key"])} for row in rows)
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, SCHEMA, compression="zstd") as file:
            while group := list(islice(flat, _GROUP_ROWS)):
                file.write_table(pa.Table.from_pylist(group, schema=SCHEMA))
        return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]
    return _csv(list(rows)).encode(errors="replace")


def _csv(rows: list[Mapping[str, Any]]) -> str:
    attributes = dict.fromkeys(name for row in rows for name in row["key"])
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["insight", "time", *_titles(attributes), *SCHEMA.names[1:]])
    for row in rows:
        key = row["key"]
        fields = {**row, "key": _json(key)}
        writer.writerow(
            [
                row["insight"],
                _iso(row["ts"]),
                *(_cell(key.get(name)) for name in attributes),
                *(_cell(fields.get(name)) for name in SCHEMA.names[1:]),
            ]
        )
    return text.getvalue()


def _titles(attributes: Collection[str]) -> list[str]:
    """Return a title for each attribute, which is the title of no other column, and no formula.

    >>> _titles(["ts", "key.ts", "region", "=1+1"])
    ['key.key.ts', 'key.ts', 'region', "'=1+1"]
    """
    columns, titles = {*SCHEMA.names, "time"}, []
    for name in attributes:
        title = _no_formula(name)
        while title in columns or (title != name and title in attributes):
            title = f"key.{title}"
        titles.append(title)
    return titles


def _no_formula(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _iso(ts: int) -> str:
    """Return a time (ms since the epoch) in ISO 8601.

    >>> _iso(1795734220250)
    '2026-11-26T23:03:40.250Z'
    """
    return f"{datetime.fromtimestamp(ts / 1000, UTC):%Y-%m-%dT%H:%M:%S}.{ts % 1000:03}Z"


def _cell(value: Any) -> Any:
    """Return the cell of a value.

    >>> _cell("=1+1"), _cell("north"), _cell(-1.5), _cell(True), _cell(["a"]), _cell([])
    ("'=1+1", 'north', -1.5, 'true', '["a"]', '')
    """
    if isinstance(value, str):
        return _no_formula(value)
    if isinstance(value, bool):
        return _json(value)
    if isinstance(value, list):
        return _json(value) if value else ""
    return value
