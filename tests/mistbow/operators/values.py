"""Values for the operators' tests, and DuckDB's word on them."""

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

from mistbow.operators.points import Floats

CLOSE = 1e-9
"""The relative error that an operator may have against DuckDB."""

CALM = settings(deadline=None)
"""The machine that runs them may have other things to do."""

EVEN = st.integers(-64_000, 64_000).map(lambda number: number / 64)
"""Numbers that are often equal, and whose differences are exact: DuckDB's own sums are too."""


def arrays(least: int = 1, most: int = 40) -> st.SearchStrategy[Floats]:
    return st.lists(EVEN, min_size=least, max_size=most).map(np.array)


def ask(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    parameters: dict[str, object] | None = None,
    **columns: Any,
) -> list[tuple[Any, ...]]:
    """Return the rows of a query over the table ``given``, which has these columns."""
    connection.register("given", pa.table(columns))
    return connection.execute(query, parameters).fetchall()
