"""The oracle: the results of a text of the insight language over points, computed by DuckDB.

The oracle follows ``docs/language.md`` only: it translates the syntax tree to SQL, without the
planner, the optimizer and the operators of the suite. Exceptions are FORECAST and PEWMA, for which
the oracle calls the suite's code over all points at once. Over samples, the oracle supports COUNT;
it supports other functions only if the sample contains all points.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from grammar import ast, parse
from tests.oracle.expansion import insights_of, with_texts
from tests.oracle.functions import derived_of, forecast_of_lists, geohash_of, pewma_of_list
from tests.oracle.insight import Query
from tests.oracle.readings import Reading
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
"""The schema of the points of the oracle.

A point counts only at ticks after its ``horizon``, which is the frontier that the stream had before
the point arrived: the windows that end at earlier ticks were closed by then.
"""

_NAMES = ("node_id", "fog_node_id", "entity", "entityID", "entityType", "group", "site", "region",
          "rack", "zone", "spare")  # fmt: skip
"""Names of attributes that points always have, or other names of these attributes."""

Identity = tuple[str, str, int]
"""The identity of a result: insight, key as JSON, tick (ms)."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The expected result at a tick.

    ``size`` is an upper bound of the intermediate values, which determines the tolerance.
    ``values`` is the result of functions with several values, such as TOP_K; ``low`` and ``high``
    are bounds.
    """

    value: float | str
    size: float
    values: tuple[float, ...] | None = None
    low: float | None = None
    high: float | None = None


@contextmanager
def opened(points: pa.Table) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection to a database with the table ``points`` (schema ``POINTS``)."""
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
        connection.create_function(
            "derived", derived_of, ["VARCHAR", "VARCHAR"], "VARCHAR", null_handling="special"
        )
        connection.create_function("pewma", pewma_of_list, ["DOUBLE[]", "DOUBLE"], "DOUBLE")
        connection.register("given", points)
        # NaN, infinities and staleness markers are no points for insights.
        connection.execute("create table points as select * from given where isfinite(value)")
        yield connection


def answers(
    text: str, connection: duckdb.DuckDBPyConnection, since: int, until: int
) -> dict[Identity, Answer]:
    """Return the expected results of a text: identity -> result.

    The text is deployed at ``since``; the results are those up to the tick ``until`` (both in ms).
    """
    script = parse(text)
    insights = insights_of(script)
    streams = {
        each.name: each for each in script.statements if isinstance(each, ast.StreamDefinition)
    }
    found: dict[Identity, Answer] = {}
    known = connection.execute("select distinct metric from points").fetchall()
    metrics = frozenset(name for (name,) in known)
    stored = connection.execute("select distinct attributes from points").fetchall()
    labels = {name for (attributes,) in stored for name in json.loads(attributes)}
    names = frozenset({*metrics, *labels, *_NAMES})
    insights = {name: with_texts(each, names) for name, each in insights.items()}
    for name, insight in insights.items():
        nth = insight.every.count if isinstance(insight.every, ast.PointCount) else 1
        ticks = ticks_of(insight, since, until)
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
