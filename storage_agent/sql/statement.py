"""What a query may be: one SELECT, over tables and a few functions that give rows."""

from collections.abc import Iterator
from typing import Any

import duckdb
import msgspec

_ALLOWED = frozenset({"generate_series", "json_each", "json_tree", "range", "unnest"})
"""Functions that give rows and look at nothing but what they are given."""


class RefusedError(Exception):
    """The text is not a query that may run here."""


def the_only(connection: duckdb.DuckDBPyConnection, text: str) -> duckdb.Statement:
    """Return the one SELECT that a text is; raises ``RefusedError`` and ``duckdb.Error``."""
    statements = connection.extract_statements(text)
    if len(statements) != 1:
        raise RefusedError(f"the text has {len(statements)} statements; one is taken")
    [statement] = statements
    if statement.type != duckdb.StatementType.SELECT:
        raise RefusedError(
            f"the statement is {statement.type.name}; only SELECT, VALUES, DESCRIBE and SUMMARIZE "
            "are taken"
        )
    return statement


def tables(connection: duckdb.DuckDBPyConnection, text: str) -> set[str]:
    """Return the names in the place of tables, as they are written, common expressions included.

    Raises ``RefusedError`` for a function that gives rows and is not allowed, and where all tables
    are asked for.
    """
    [[parsed]] = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchall()
    tree = msgspec.json.decode(parsed)
    if tree.get("error"):
        raise RefusedError(str(tree.get("error_message")))
    found: set[str] = set()
    for node in _nodes(tree):
        if node.get("type") == "BASE_TABLE":
            found.add(node["table_name"])
        elif node.get("show_type") == "SHOW_SPECIAL":
            # DuckDB would list what this query names.
            raise RefusedError(
                "SHOW tells of no tables here: there are latest, historical and metadata, "
                "and a table for each stream that GET /streams tells of; DESCRIBE NAME shows one"
            )
        elif node.get("type") == "SHOW_REF" and node.get("table_name"):
            found.add(node["table_name"].strip('"'))
        elif node.get("type") == "TABLE_FUNCTION":
            name = node["function"]["function_name"]
            if name.lower() not in _ALLOWED:
                raise RefusedError(
                    f"the function {name} is not for queries here; these give rows: "
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
