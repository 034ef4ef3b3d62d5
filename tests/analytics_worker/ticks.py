"""Expected results, computed by SQL over all points at once."""

from collections.abc import Mapping

import duckdb
import pyarrow as pa


def at_ticks(
    queries: Mapping[str, tuple[str, int]], points: pa.Table, since: int, until: int
) -> dict[tuple[str, str, int], float]:
    """Compute the expected results by SQL; return (insight, key, tick) -> value.

    The ticks are those after ``since`` up to ``until`` (ms). ``queries``: insight -> (SQL, interval
    of the ticks in ms). The SQL reads the tables ``ticks`` (column t) and ``points``, and returns
    rows of key, t and value.
    """
    results = {}
    with duckdb.connect() as database:
        database.register("points", points)
        for insight, (query, every) in queries.items():
            first = since // every * every + every
            ticks = f"with ticks as (select * from range({first}, {until + 1}, {every}) x(t)) "  # noqa: S608
            for key, tick, value in database.execute(ticks + query).fetchall():
                results[insight, key, tick] = value
    return results
