"""The export of results as files: CSV and Parquet."""

import csv
import io
import json
from collections.abc import Iterable, Mapping
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

    In CSV, lists are JSON.
    """
    flat = ({**row, "key": json.dumps(row["key"], ensure_ascii=False)} for row in rows)
    if form == "parquet":
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, SCHEMA, compression="zstd") as file:
            while group := list(islice(flat, _GROUP_ROWS)):
                file.write_table(pa.Table.from_pylist(group, schema=SCHEMA))
        return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(SCHEMA.names)
    for row in flat:
        writer.writerow(_cell(row.get(name)) for name in SCHEMA.names)
    return text.getvalue().encode(errors="replace")


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False) if value else ""
    return value
