"""The check of statements: only a single SELECT with some of the table functions is allowed."""

from collections.abc import Iterator
from typing import Any

import duckdb
import msgspec

_ALLOWED = frozenset({"generate_series", "json_each", "json_tree", "range", "unnest"})
"""The allowed table functions, which read only their arguments."""


class UnsupportedStatementError(Exception):
    """Raised if a text is not an allowed statement."""


def parse_select(connection: duckdb.DuckDBPyConnection, text: str) -> duckdb.Statement:
    """Return the SELECT statement that a text contains.

    Raises ``UnsupportedStatementError`` if the text is not a single SELECT statement, and
    ``duckdb.Error`` if it cannot be parsed.
    """
    statements = connection.extract_statements(text)
    if len(statements) != 1:
        raise UnsupportedStatementError(
            f"the query has {len(statements)} statements, but exactly one is allowed"
        )
    [statement] = statements
    if statement.type != duckdb.StatementType.SELECT:
        raise UnsupportedStatementError(
            f"the statement is {statement.type.name}; only SELECT, VALUES, DESCRIBE and SUMMARIZE "
            "are allowed"
        )
    return statement


def table_names(connection: duckdb.DuckDBPyConnection, text: str) -> set[str]:
    """Return the table names in a query as the query spells them.

    The names of common table expressions are included.

    Raises ``UnsupportedStatementError`` for table functions that are not allowed, and for SHOW.
    """
    [[parsed]] = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchall()
    tree = msgspec.json.decode(parsed)
    if tree.get("error"):
        raise UnsupportedStatementError(str(tree.get("error_message")))
    found: set[str] = set()
    for node in _nodes(tree):
        if node.get("type") == "BASE_TABLE":
            found.add(node["table_name"])
        elif node.get("show_type") == "SHOW_SPECIAL":
            # DuckDB would list only the tables that this query names.
            raise UnsupportedStatementError(
                "SHOW is not supported: the tables are latest, historical, metadata, and one for "
                "each stream of GET /streams; DESCRIBE NAME shows the columns of a table"
            )
        elif node.get("type") == "SHOW_REF" and node.get("table_name"):
            found.add(node["table_name"].strip('"'))
        elif node.get("type") == "TABLE_FUNCTION":
            name = node["function"]["function_name"]
            if name.lower() not in _ALLOWED:
                raise UnsupportedStatementError(
                    f"the table function {name} is not allowed; the allowed functions are: "
                    + ", ".join(sorted(_ALLOWED))
                )
    return found


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    waiting = [tree]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
