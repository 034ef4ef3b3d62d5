"""Results of DuckDB as the bytes of an answer, no more of them than is asked for."""

import io
from typing import Any

import duckdb
import pyarrow as pa

from storage_agent.sql.wire import Query
from storage_agent.streams.json_values import encode, plain

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
    out.write(b'{"columns":' + encode(columns) + b',"rows":[')
    rows = 0
    while part := result.fetchmany(_ROWS_AT_ONCE):
        _check_rows(rows + len(part), query)
        values = [[plain(value) for value in row] for row in part]
        out.write(b"," * bool(rows) + encode(values)[1:-1])
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
