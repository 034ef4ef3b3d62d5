"""Computing one query with DuckDB, in a process that does nothing else."""

from typing import Any

import duckdb
import msgspec
import pyarrow as pa

from storage_agent.sql import answers, statement
from storage_agent.sql.remote_table import Ask, RemoteTable
from storage_agent.sql.wire import Answer, Describe, Failed, Known, Query

_LOCKED = (
    "SET temp_directory = ''",
    "SET threads = 1",
    "SET errors_as_json = true",
    # No name in a query is ever taken for a variable of this program.
    "SET python_enable_replacements = false",
    "SET python_scan_all_frames = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
"""In this order: what comes later forbids what comes before."""


def connect(memory_mb: int) -> duckdb.DuckDBPyConnection:
    """Return an empty database in memory that reaches nothing outside and cannot be unlocked."""
    connection = duckdb.connect(":memory:", config={"memory_limit": f"{memory_mb}MiB"})
    for setting in _LOCKED:
        connection.execute(setting)
    return connection


def answer(query: Query, memory_mb: int, ask: Ask) -> tuple[Answer | Failed, bytes]:
    """Compute a query over tables that are asked for by ``ask``."""
    try:
        with connect(memory_mb) as connection:
            return Answer(), _compute(connection, query, ask)
    except answers.TooMuchError as error:
        return Failed("rows" if error.what == "rows" else "bytes"), b""
    except (MemoryError, pa.ArrowMemoryError, duckdb.OutOfMemoryException):
        return Failed("memory"), b""
    except statement.RefusedError as error:
        return Failed("query", str(error)), b""
    except duckdb.Error as error:
        return _failure(query.text, error), b""
    except (pa.ArrowException, ValueError, RecursionError) as error:
        return Failed("query", f"{type(error).__name__}: {error}"), b""


def _compute(connection: duckdb.DuckDBPyConnection, query: Query, ask: Ask) -> bytes:
    only = statement.the_only(connection, query.text)
    for name in statement.tables(connection, query.text):
        described, schema = ask(Describe(name.lower()))
        if isinstance(described, Known):
            table = RemoteTable(
                name.lower(), pa.ipc.read_schema(pa.py_buffer(schema)), described.words, ask
            )
            connection.register(name, table)
    if query.format == "arrow":
        return answers.as_arrow(connection.sql(query.text, params=query.parameters or None), query)
    return answers.as_json(connection.execute(only, query.parameters or None), query)


def _failure(text: str, error: duckdb.Error) -> Failed:
    """Return what DuckDB says of a query, and where in it."""
    kind, _, told = str(error).partition(": ")
    try:
        said: dict[str, Any] = msgspec.json.decode(told)
        message = f"{kind}: {said['exception_message']}"
    except (msgspec.DecodeError, KeyError, TypeError):
        return Failed("query", str(error))
    if not str(said.get("position", "")).isdigit():
        return Failed("query", message)
    before = text.encode()[: int(said["position"])].decode(errors="ignore")
    line = before.count("\n") + 1
    return Failed("query", message, line, len(before) - (before.rfind("\n") + 1) + 1)
