"""The functions and tables of DuckDB: which of them queries can use.

``python -m tests.storage_agent.sql.test_statement`` writes the list of allowed functions after a
new version of DuckDB; look at each function that the version adds, and refuse it if it reads more
than its arguments.
"""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from storage_agent.sql.engine import connect
from storage_agent.sql.statement import (
    UnsupportedStatementError,
    check_unknown_table,
    engine_tables,
    is_refused,
    parse_select,
    table_names,
)

REVIEWED = Path(__file__).with_name("allowed_functions.txt")
READING = {"generate_series", "json_each", "json_tree", "range", "unnest"}
TABLE_TYPES = {"pragma", "table", "table_macro"}


def functions(connection: duckdb.DuckDBPyConnection, *, of_tables: bool) -> set[str]:
    found = connection.execute("SELECT function_name, function_type FROM duckdb_functions()")
    return {name for name, kind in found.fetchall() if (kind in TABLE_TYPES) == of_tables}


def allowed_functions(connection: duckdb.DuckDBPyConnection) -> list[str]:
    named = (name for name in functions(connection, of_tables=False) if name.isidentifier())
    return sorted(n for n in named if not is_refused(n) and "collate_" not in n)


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with connect(256) as connection:
        yield connection


def test_queries_call_no_table_function_beyond_the_allowed_ones(database):
    found = functions(database, of_tables=True)
    assert found >= {*READING, "duckdb_settings", "pragma_version", "read_csv", "which_secret"}
    for name in found - READING:
        for text in (f'FROM "{name}"()', f"FROM system.main.\"{name}\"('x')"):
            with pytest.raises(UnsupportedStatementError, match="is not allowed"):
                table_names(database, text)


def test_functions_that_queries_can_call_are_reviewed(database):
    assert allowed_functions(database) == REVIEWED.read_text().split()


def test_functions_that_read_the_state_of_duckdb_are_refused(database):
    refused = {name for name in functions(database, of_tables=False) if is_refused(name)}
    assert {"current_setting", "getvariable", "pg_sleep", "version", "write_log"} <= refused
    for name in refused | {"getenv"}:
        for text in (
            f'SELECT "{name}"(1)',
            f"SELECT system.main.{name}('x')",
            f"SELECT list_transform([1], x -> {name.upper()}(x))",
            f"SELECT 1 WHERE 'x'.{name}() IS NULL",
            f"DESCRIBE SELECT {name}()",
        ):
            with pytest.raises(UnsupportedStatementError, match="is not allowed"):
                table_names(database, text)


def test_own_tables_of_duckdb_are_refused(database):
    views = database.execute("SELECT schema_name, view_name FROM duckdb_views()").fetchall()
    assert ("pg_catalog", "pg_settings") in views
    own = engine_tables(database)
    for schema, view in views:
        for path in (f"{schema}.{view}", f'system.{schema}."{view}"', f"temp.{schema}.{view}"):
            for text in (f"FROM {path}", f"DESCRIBE {path}", f"SELECT (FROM {path})"):
                with pytest.raises(UnsupportedStatementError, match="without a schema"):
                    table_names(database, text)
        [name] = table_names(database, f"FROM {view.upper()}")
        with pytest.raises(UnsupportedStatementError, match="catalogue"):
            check_unknown_table(name, own)


def test_names_of_streams_and_of_subqueries_are_no_tables_of_duckdb(database):
    text = 'WITH pg_sums AS (FROM raw) SELECT avg(x) FROM pg_sums, "results/all.fair"'
    names = table_names(database, text)
    assert names == {"pg_sums", "raw", "results/all.fair"}
    for name in names:
        check_unknown_table(name, engine_tables(database))


def test_pivot_needs_the_values_of_its_column(database: duckdb.DuckDBPyConnection) -> None:
    parse_select(database, "PIVOT latest ON metric IN ('a', 'b') USING sum(value)")
    with pytest.raises(UnsupportedStatementError, match=r"write PIVOT … ON column IN \(value"):
        parse_select(database, "PIVOT latest ON metric USING sum(value)")


if __name__ == "__main__":
    with connect(256) as writing:
        REVIEWED.write_text("\n".join(allowed_functions(writing)) + "\n")
