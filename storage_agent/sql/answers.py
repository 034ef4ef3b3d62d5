"""Results of DuckDB as the bytes of an answer, no more of them than is asked for."""

import io
import math
from typing import Any

import duckdb
import msgspec
import pyarrow as pa

from storage_agent.sql.wire import Query

_EXACT = 2**53
"""Integers beyond this are not exact as numbers of JSON in most languages."""

_ROWS_AT_ONCE = 1_000


class TooMuchError(Exception):
    """The answer has more rows or bytes (``what``) than it may have."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


def as_json(result: duckdb.DuckDBPyConnection, query: Query) -> bytes:
    """Return ``{"columns": [{name, type}], "rows": [[…]]}``; raises ``TooMuchError``."""
    columns = [{"name": name, "type": str(kind)} for name, kind, *_ in result.description or ()]
    out = _Bounded(query.most_bytes)
    out.write(b'{"columns":' + msgspec.json.encode(columns) + b',"rows":[')
    rows = 0
    while part := result.fetchmany(_ROWS_AT_ONCE):
        _check_rows(rows + len(part), query)
        values = [[plain(value) for value in row] for row in part]
        out.write(b"," * bool(rows) + msgspec.json.encode(values, enc_hook=str)[1:-1])
        rows += len(part)
    out.write(b"]}")
    return out.getvalue()


def as_arrow(result: duckdb.DuckDBPyRelation, query: Query) -> bytes:
    """Return an Arrow IPC stream; raises ``TooMuchError``."""
    out = _Bounded(query.most_bytes)
    rows = 0
    reader = result.to_arrow_reader(_ROWS_AT_ONCE)
    with reader, pa.ipc.new_stream(out, reader.schema) as writer:
        for batch in reader:
            rows += batch.num_rows
            _check_rows(rows, query)
            writer.write_batch(batch)
    return out.getvalue()


def plain(value: Any) -> Any:
    """Return a value so that JSON keeps it: as text what no number of JSON is."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, int):
        return value if -_EXACT <= value <= _EXACT else str(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {_word(name): plain(item) for name, item in value.items()}
    return value


def _word(name: Any) -> str:
    if isinstance(name, str):
        return name
    return msgspec.json.encode(plain(name), enc_hook=str).decode().strip('"')


def _check_rows(rows: int, query: Query) -> None:
    if rows > query.most_rows:
        raise TooMuchError("rows")


class _Bounded(io.BytesIO):
    """Bytes up to a bound; Arrow's writer needs a file."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self._most:
            raise TooMuchError("bytes")
        return super().write(data)
