"""Values for the tests of operators, and the results of DuckDB for these values."""

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

from analytics_worker.operators.points import Floats

CLOSE = 1e-9
"""The relative error that an operator may have against DuckDB."""

CALM = settings(deadline=None)
"""Settings of Hypothesis without a deadline, because the machine may be busy with other work."""

EVEN = st.integers(-64_000, 64_000).map(lambda number: number / 64)
"""Multiples of 1/64: many are equal, and their differences and sums are exact, also in DuckDB."""


def arrays(least: int = 1, most: int = 40) -> st.SearchStrategy[Floats]:
    return st.lists(EVEN, min_size=least, max_size=most).map(np.array)


def ask(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    parameters: dict[str, object] | None = None,
    **columns: Any,
) -> list[tuple[Any, ...]]:
    """Run an SQL query over the table ``given``; return its rows.

    ``columns``: name -> values of a column of ``given``.
    """
    connection.register("given", pa.table(columns))
    return connection.execute(query, parameters).fetchall()
