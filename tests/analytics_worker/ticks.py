"""What results should be, by SQL over all points at once."""

from collections.abc import Mapping

import duckdb
import pyarrow as pa


def at_ticks(
    queries: Mapping[str, tuple[str, int]], points: pa.Table, since: int, until: int
) -> dict[tuple[str, str, int], float]:
    """Return (insight, key, tick) → value at the ticks after ``since`` up to ``until`` (ms).

    Each query reads ``ticks(t)`` and ``points``, and has an interval (ms); it yields key, t, value.
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
