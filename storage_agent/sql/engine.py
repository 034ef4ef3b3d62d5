"""The computation of a query by DuckDB, in the query process."""

from typing import Any

import duckdb
import msgspec
import pyarrow as pa

from storage_agent.sql import answers, statement
from storage_agent.sql.messages import (
    AnswerFollows,
    DescribeTable,
    QueryFailed,
    SqlQuery,
    TableDescription,
)
from storage_agent.sql.remote_table import CallAgent, RemoteTable

_SETTINGS = (
    "SET temp_directory = ''",
    "SET threads = 1",
    "SET errors_as_json = true",
    # Names in a query must not refer to variables of this program.
    "SET python_enable_replacements = false",
    "SET python_scan_all_frames = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
"""The statements that restrict a database, in this order: the last one locks all settings."""


def connect(memory_mb: int) -> duckdb.DuckDBPyConnection:
    """Return a connection to a new database in memory, without access to files or the network.

    Queries cannot change the settings of the database. ``memory_mb``: the memory limit in MiB.
    """
    connection = duckdb.connect(":memory:", config={"memory_limit": f"{memory_mb}MiB"})
    for setting in _SETTINGS:
        connection.execute(setting)
    return connection


def compute(
    query: SqlQuery, memory_mb: int, call: CallAgent
) -> tuple[AnswerFollows | QueryFailed, bytes]:
    """Return the answer to a query, or the failure of the query: a message and its payload.

    ``memory_mb``: DuckDB's memory limit in MiB. ``call``: sends a message to the agent, which
    describes tables and reads their rows.
    """
    try:
        with connect(memory_mb) as connection:
            return AnswerFollows(), _compute(connection, query, call)
    except answers.AnswerTooLargeError as error:
        return QueryFailed(error.unit), b""
    except (MemoryError, pa.ArrowMemoryError, duckdb.OutOfMemoryException):
        return QueryFailed("memory"), b""
    except (statement.UnsupportedStatementError, answers.RepeatedColumnError) as error:
        return QueryFailed("query", str(error)), b""
    except duckdb.Error as error:
        return _failure(query.text, error), b""
    except OverflowError as error:  # of an interval, or of a time
        message = (
            f"a value is beyond the range of Python; cast it, as in CAST(x AS VARCHAR): {error}"
        )
        return QueryFailed("query", message), b""
    except (pa.ArrowException, ValueError, RecursionError) as error:
        return QueryFailed("query", f"{type(error).__name__}: {error}"), b""


def _compute(connection: duckdb.DuckDBPyConnection, query: SqlQuery, call: CallAgent) -> bytes:
    select = statement.parse_select(connection, query.text)
    own = statement.engine_tables(connection)
    for name in statement.table_names(connection, query.text):
        described, schema = call(DescribeTable(name.lower()))
        if isinstance(described, TableDescription):
            table = RemoteTable(
                name.lower(),
                pa.ipc.read_schema(pa.py_buffer(schema)),
                described.column_values,
                call,
            )
            connection.register(name, table)
        else:
            statement.check_unknown_table(name, own)
    if query.format == "arrow":
        return answers.encode_arrow(
            connection.sql(query.text, params=query.parameters or None), query
        )
    encode = answers.encode_lines if query.format == "lines" else answers.encode_json
    return encode(connection.execute(select, query.parameters or None), query)


def _failure(text: str, error: duckdb.Error) -> QueryFailed:
    """Convert an error of DuckDB to a failure of a query; ``text``: the text of the query.

    The failure contains the line and column of the error, if DuckDB states the position.
    """
    kind, _, content = str(error).partition(": ")
    try:
        decoded: dict[str, Any] = msgspec.json.decode(content)
        lines = str(decoded["exception_message"]).splitlines()
        message = f"{kind}: {'; '.join(filter(None, map(str.strip, lines)))}"
    except (msgspec.DecodeError, KeyError, TypeError):
        return QueryFailed("query", str(error))
    if not str(decoded.get("position", "")).isdigit():
        return QueryFailed("query", message)
    before = text.encode()[: int(decoded["position"])].decode(errors="ignore")
    line = before.count("\n") + 1
    return QueryFailed("query", message, line, len(before) - (before.rfind("\n") + 1) + 1)
