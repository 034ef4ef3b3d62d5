"""The encoding of DuckDB's results, within a query's limits on rows and bytes."""

import io
from collections import Counter
from typing import Any, Literal

import duckdb
import pyarrow as pa

from storage_agent.sql.messages import SqlQuery
from storage_agent.streams.json_values import encode, plain

_BATCH_ROWS = 1_000


class AnswerTooLargeError(Exception):
    """Raised if an answer has more rows or bytes than allowed; ``unit``: which of the two."""

    def __init__(self, unit: Literal["rows", "bytes"]) -> None:
        super().__init__(unit)
        self.unit = unit


class RepeatedColumnError(Exception):
    """Raised if a row as a JSON object would lose values, since columns have the same name."""


def encode_json(result: duckdb.DuckDBPyConnection, query: SqlQuery) -> bytes:
    """Return a result as JSON: ``{"columns": [{name, type}], "rows": [[…]], "missing"}``.

    Raises ``AnswerTooLargeError`` if the result exceeds a limit of the query.
    """
    columns = [{"name": name, "type": str(kind)} for name, kind, *_ in result.description or ()]
    out = _Bounded(query.max_bytes)
    out.write(b'{"columns":' + encode(columns) + b',"rows":[')
    rows = 0
    while batch := result.fetchmany(_BATCH_ROWS):
        _check_rows(rows + len(batch), query)
        values = [[plain(value) for value in row] for row in batch]
        out.write(b"," * bool(rows) + encode(values)[1:-1])
        rows += len(batch)
    missing = b',"missing":' + encode(_missing(query)) if query.missing else b""
    out.write(b"]" + missing + b"}")
    return out.getvalue()


def encode_lines(result: duckdb.DuckDBPyConnection, query: SqlQuery) -> bytes:
    """Return a result as line-delimited JSON: an object for each row, and the end mark.

    An object has the columns that are not null. Raises ``AnswerTooLargeError`` if the result
    exceeds a limit of the query, and ``RepeatedColumnError`` if columns have the same name.
    """
    names = [name for name, *_ in result.description or ()]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise RepeatedColumnError(
            f"several columns of the answer have the name {repeated[0]!r}, and a line of JSON has "
            "one value for each name; name the columns differently, as in "
            "h.ts AS historical_ts"
        )
    out = _Bounded(query.max_bytes)
    rows = 0
    while batch := result.fetchmany(_BATCH_ROWS):
        rows += len(batch)
        _check_rows(rows, query)
        for row in batch:
            named = zip(names, row, strict=True)
            item = {name: plain(value) for name, value in named if value is not None}
            out.write(encode(item) + b"\n")
    missing = {"missing": _missing(query)} if query.missing else {}
    out.write(encode({"end": {"rows": rows, **missing}}) + b"\n")
    return out.getvalue()


def encode_arrow(result: duckdb.DuckDBPyRelation, query: SqlQuery) -> bytes:
    """Return a result as an Arrow IPC stream; missing nodes are in the metadata of the schema.

    Raises ``AnswerTooLargeError`` if the result exceeds a limit of the query.
    """
    out = _Bounded(query.max_bytes)
    rows = 0
    reader = result.to_arrow_reader(_BATCH_ROWS)
    schema = reader.schema
    if query.missing:
        schema = schema.with_metadata({"missing": encode(query.missing)})
    with reader, pa.ipc.new_stream(out, schema) as writer:
        for batch in reader:
            rows += batch.num_rows
            _check_rows(rows, query)
            writer.write_batch(batch)
    return out.getvalue()


def _missing(query: SqlQuery) -> list[dict[str, str]]:
    return [{"node": node, "reason": reason} for node, reason in query.missing.items()]


def _check_rows(rows: int, query: SqlQuery) -> None:
    if rows > query.max_rows:
        raise AnswerTooLargeError("rows")


class _Bounded(io.BytesIO):
    """A file in memory; a write beyond ``max_bytes`` bytes raises ``AnswerTooLargeError``."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self._max_bytes = max_bytes

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self._max_bytes:
            raise AnswerTooLargeError("bytes")
        return super().write(data)
