"""The check of statements: a single SELECT that reads only its tables and its arguments."""

from collections.abc import Collection, Iterator
from typing import Any

import duckdb
import msgspec

_TABLE_FUNCTIONS = frozenset({"generate_series", "json_each", "json_tree", "range", "unnest"})
"""The allowed table functions, which read only their arguments."""

_REFUSED_FUNCTIONS = frozenset(
    {
        "col_description",
        "current_connection_id",
        "current_query",
        "current_query_id",
        "current_schemas",
        "current_setting",
        "current_transaction_id",
        "currval",
        "format_type",
        "get_block_size",
        "getenv",
        "getvariable",
        "in_search_path",
        "index_key",
        "json_serialize_plan",
        "map_to_pg_oid",
        "nextval",
        "obj_description",
        "parse_duckdb_log_message",
        "set_config",
        "setval",
        "shobj_description",
        "sleep_ms",
        "stats",
        "txid_current",
        "version",
        "which_secret",
        "write_log",
    }
)
_REFUSED_PREFIXES = ("__internal", "duckdb_", "has_", "inet_", "pg_", "pragma_", "read_")
_ALLOWED_FUNCTIONS = frozenset({"pg_size_pretty", "pg_typeof"})


class UnsupportedStatementError(Exception):
    """Raised if a text is not an allowed statement."""


def is_refused(function: str) -> bool:
    """Return whether queries may not call a scalar function, an aggregate or a macro.

    Refused are functions that read settings, the catalogue or the state of DuckDB, that wait, or
    that DuckDB has only for its own plans.

    >>> is_refused("current_setting"), is_refused("PG_Sleep"), is_refused("avg")
    (True, True, False)
    """
    name = function.lower()
    if name in _ALLOWED_FUNCTIONS:
        return False
    return name in _REFUSED_FUNCTIONS or name.startswith(_REFUSED_PREFIXES)


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
    if statement.type == duckdb.StatementType.MULTI:
        raise UnsupportedStatementError(
            "PIVOT without the values of the column is several statements, but exactly one is "
            "allowed: write PIVOT … ON column IN (value, value)"
        )
    if statement.type != duckdb.StatementType.SELECT:
        raise UnsupportedStatementError(
            f"the statement is {statement.type.name}; only SELECT, VALUES, DESCRIBE and SUMMARIZE "
            "are allowed"
        )
    return statement


def engine_tables(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """Return the names of DuckDB's own tables and views, in lower case."""
    found = connection.execute(
        "SELECT view_name FROM duckdb_views() UNION SELECT table_name FROM duckdb_tables()"
    )
    return {name.lower() for [name] in found.fetchall()}


def check_unknown_table(name: str, engine_tables: Collection[str]) -> None:
    """Raise ``UnsupportedStatementError`` if a name that the agent lacks is a table of DuckDB."""
    if name.lower() in engine_tables:
        raise UnsupportedStatementError(
            f"the table {name} is not allowed: queries cannot read the settings and the catalogue "
            "of DuckDB; the tables are latest, historical, metadata, and the streams"
        )


def table_names(connection: duckdb.DuckDBPyConnection, text: str) -> set[str]:
    """Return the table names in a query as the query spells them.

    The names of common table expressions are included.

    Raises ``UnsupportedStatementError`` for functions that are not allowed, for names with a
    schema, and for SHOW.
    """
    [[parsed]] = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchall()
    tree = msgspec.json.decode(parsed)
    if tree.get("error"):
        raise UnsupportedStatementError(str(tree.get("error_message")))
    found: set[str] = set()
    for node in _nodes(tree):
        if node.get("type") == "BASE_TABLE":
            _check_has_no_schema(node)
            found.add(node["table_name"])
        elif node.get("show_type") == "SHOW_SPECIAL":
            # DuckDB would list only the tables that this query names.
            raise UnsupportedStatementError(
                "SHOW is not supported: the tables are latest, historical, metadata, and one for "
                "each stream of GET /streams; DESCRIBE NAME shows the columns of a table"
            )
        elif node.get("type") == "SHOW_REF" and node.get("table_name"):
            _check_has_no_schema(node)
            found.add(node["table_name"].strip('"'))
        elif node.get("type") == "TABLE_FUNCTION":
            name = node["function"]["function_name"]
            if name.lower() not in _TABLE_FUNCTIONS:
                raise UnsupportedStatementError(
                    f"the table function {name} is not allowed; the allowed functions are: "
                    + ", ".join(sorted(_TABLE_FUNCTIONS))
                )
        elif is_refused(str(node.get("function_name", ""))):
            raise UnsupportedStatementError(
                f"the function {node['function_name']} is not allowed: queries cannot read the "
                "settings and the state of DuckDB, and cannot wait"
            )
    return found


def _check_has_no_schema(table: dict[str, Any]) -> None:
    path = table.get("qualified_name", {}).get("path", ())
    if table.get("schema_name") or table.get("catalog_name") or len(path) > 1:
        name = ".".join(path) or table["table_name"]
        raise UnsupportedStatementError(
            f"the table {name} has a schema: write the name of a table without a schema, and the "
            'name of a stream that has dots in quotes ("a.b")'
        )


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    waiting = [tree]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
