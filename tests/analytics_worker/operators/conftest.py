from collections.abc import Iterator

import duckdb
import pytest


@pytest.fixture(scope="session")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection
