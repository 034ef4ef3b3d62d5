"""The oracle: what a text of the insight language comes to over some points, by DuckDB.

It follows ``docs/language.md`` alone: from the syntax tree to SQL, without our planner, optimizer
or operators (but that FORECAST is the library's, for which SQL has nothing, and that PEWMA is our
operator over all points at once). Of samples it knows those that leave nothing out, and counts.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from grammar import ast, parse
from tests.oracle.expansion import insights_of
from tests.oracle.functions import forecast_of_lists, geohash_of, pewma_of_list
from tests.oracle.insight import Query
from tests.oracle.reading import Reading
from tests.oracle.ticks import every_of, ticks_of

POINTS = pa.schema(
    [
        pa.field("metric", pa.string()),
        pa.field("entity", pa.string()),
        pa.field("attributes", pa.string()),
        pa.field("ts", pa.int64()),
        pa.field("value", pa.float64()),
        pa.field("horizon", pa.int64()),
    ]
)
"""A point counts at ticks after its horizon: before, windows were closed when it came."""

Identity = tuple[str, str, int]
"""(insight, key as JSON, tick)"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said at a tick; ``size`` is how large what was rounded on the way may have been."""

    value: float | str
    size: float
    values: tuple[float, ...] | None = None
    low: float | None = None
    high: float | None = None


@contextmanager
def opened(points: pa.Table) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database of points (``POINTS``)."""
    # Threads help nothing over so few points, and wait for each other.
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.create_function(
            "forecast", forecast_of_lists, ["BIGINT[]", "DOUBLE[]", "INTEGER"], "DOUBLE",
            null_handling="special",
        )  # fmt: skip
        connection.create_function(
            "geohash",
            geohash_of,
            ["DOUBLE", "DOUBLE", "INTEGER"],
            "VARCHAR",
            null_handling="special",
        )
        connection.create_function("pewma", pewma_of_list, ["DOUBLE[]", "DOUBLE"], "DOUBLE")
        connection.register("given", points)
        connection.execute("create table points as select * from given")
        yield connection


def answers(
    text: str, connection: duckdb.DuckDBPyConnection, since: int, until: int
) -> dict[Identity, Answer]:
    """Return what each insight of a text, deployed at a time, says up to a tick (both ms)."""
    script = parse(text)
    insights = insights_of(script)
    streams = {
        each.name: each for each in script.statements if isinstance(each, ast.StreamDefinition)
    }
    found: dict[Identity, Answer] = {}
    known = connection.execute("select distinct metric from points").fetchall()
    metrics = frozenset(name for (name,) in known)
    for name, insight in insights.items():
        nth = insight.every.count if isinstance(insight.every, ast.Points) else 1
        ticks = ticks_of(insight, until)
        reading = Reading(streams, metrics, every_of(insight), ticks, since, nth)
        query, by = Query(insights, reading).of(insight)
        rows = connection.execute(query).fetchall()
        found |= {(name, *where): answer for where, answer in _read(rows, by)}
    return found


def _read(
    rows: list[tuple[Any, ...]], by: tuple[str, ...]
) -> Iterator[tuple[tuple[str, int], Answer]]:
    for t, value, size, values, low, high, *key in rows:
        parts = [None if part is None else json.loads(part) for part in key]
        known = json.dumps(dict(zip(by, parts, strict=True)), sort_keys=True)
        several = None if values is None else tuple(values)
        yield (known, t), Answer(value, size, several, low, high)
