"""The oracle: insights computed again in one batch by DuckDB over what ``/get`` returns."""

from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from mistbow.client.agent import AgentClient

Identity = tuple[str, str, int]
"""(insight, entity or "", tick)"""


@dataclass(frozen=True)
class Question:
    """An insight in the oracle's own words: SQL over ``points`` in ``(t - size_ms, t]``."""

    sql: str
    size_ms: int
    every_ms: int
    by_entity: bool = False
    where: str = "true"
    having: str = "true"

    def answer(self, points: pa.Table, since: int, until: int) -> dict[tuple[str, int], float]:
        """Return (entity, tick) → value for all ticks after ``since`` up to ``until``."""
        entity = "entity" if self.by_entity else "''"
        first = since // self.every_ms * self.every_ms + self.every_ms
        query = f"""
            with ticks as (select t from range({first}, {until + 1}, {self.every_ms}) as x(t))
            select {entity} as who, t, {self.sql} as value
            from ticks, points
            where ts > t - {self.size_ms} and ts <= t and {self.where}
            group by who, t
            having {self.having}
        """  # noqa: S608 - written in the test
        with duckdb.connect() as connection:
            connection.register("points", points)
            rows = connection.execute(query).fetchall()
        return {(who, tick): value for who, tick, value in rows if value is not None}


def stored_points(agent: AgentClient, metric: str) -> pa.Table:
    """Return every point of a metric: entity, ts, value."""
    rows = [
        {"entity": series.entity, "ts": value.ts, "value": value.value}
        for node in agent.get(metric=metric, latest=False)
        for series in node.data
        for value in series.values
    ]
    schema = pa.schema([("entity", pa.string()), ("ts", pa.int64()), ("value", pa.float64())])
    return pa.Table.from_pylist(rows, schema)


def answers(
    questions: Mapping[str, Question], points: pa.Table, since: int, until: int
) -> dict[Identity, float]:
    """Return what each insight should have said."""
    return {
        (insight, who, tick): value
        for insight, question in questions.items()
        for (who, tick), value in question.answer(points, since, until).items()
    }
