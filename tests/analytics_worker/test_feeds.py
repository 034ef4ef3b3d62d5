"""Insights over a stream whose rows are not points, on real Spark and a real storage agent."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from analytics.plan.fragments import StreamLocation, Whole
from analytics.plan.nodes import Plan
from analytics_enabler.optimizer import optimize
from analytics_enabler.semantics import check, parse_text
from analytics_worker.lifecycle.retention_leases import metrics_of
from mistbow.client.agent import AgentClient
from mistbow.streams.results import current_results
from mistbow.streams.schemas import RESULT_ROWS
from tests.analytics_worker.runner_context import running
from tests.support.conditions import eventually

BEGIN = 1_700_000_000_000
STREAM, TARGET = "app/weather", "results/weather"
SCHEMA = pa.schema(
    [("at", pa.timestamp("ms")), ("station", pa.string()), ("temp", pa.float64()),
     ("rain", pa.int32())]
)  # fmt: skip
TEXT = """
w: STREAM FROM stream(name="app/weather", time="at");
mean = COMPUTE AVG(temp FROM (w), 2 s) BY station EVERY 1 s;
hot = COMPUTE station WHEN temp FROM (w) > 30 EVERY 1 s;
wet = COMPUTE SUM(rain FROM (w) WHEN station == "a") EVERY 2 s
"""


def rows(*values: tuple[int, str, float | None, int]) -> pa.RecordBatch:
    columns = zip(*[(BEGIN + ms, station, temp, rain) for ms, station, temp, rain in values],
                  strict=True)  # fmt: skip
    arrays = [pa.array(c, field.type) for c, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def fragment(agent: AgentClient) -> Whole:
    schemas = {
        named: agent.read(named[1], 0, 0).table.schema for named in parse_text(TEXT).feed_streams
    }
    checked = check(TEXT, frozenset(), schemas=schemas)
    assert checked.ok, checked.problems
    insights = tuple(one.deployed(one.name, 0) for one in checked.definitions)
    feed = checked.definitions[0].feed
    assert feed is not None
    return Whole(
        id="weather",
        source=StreamLocation("n1", STREAM, feed),
        target=StreamLocation("n1", TARGET),
        plan=optimize(Plan(insights=insights)).plan,
    )


@pytest.mark.timeout(300)
def test_rows_of_a_stream_are_points(spark: SparkSession, agent: AgentClient) -> None:
    agent.create_stream(STREAM, SCHEMA)
    agent.create_stream(TARGET, RESULT_ROWS)
    agent.append(STREAM, rows((100, "a", 10.0, 1), (600, "b", 31.0, 2), (1500, "a", 20.0, 4)))
    whole = fragment(agent)
    assert metrics_of(whole) == ()

    def values() -> dict[tuple[str, str, int], float | str]:
        found = current_results(agent.read(TARGET).table).to_pylist()
        return {
            (row["insight"], row["key"], row["ts"] - BEGIN): row["value"] or row["text"]
            for row in found
            if row["ts"] <= BEGIN + 4000
        }

    first = {("mean", '{"station":"a"}', 1000): 10.0, ("mean", '{"station":"b"}', 1000): 31.0,
             ("hot", "{}", 1000): "b"}  # fmt: skip
    with running(spark, agent, whole) as runner:
        # No writer states a frontier: a row of a later time completes all times before it.
        eventually(lambda: values() == first, timeout=150, what="the first tick")
        agent.append(STREAM, rows((2100, "b", None, 8), (2200, "a", 40.0, 16)))
        second = first | {
            ("mean", '{"station":"a"}', 2000): 15.0, ("mean", '{"station":"b"}', 2000): 31.0,
            ("wet", "{}", 2000): 5.0,
        }  # fmt: skip
        eventually(lambda: values() == second, timeout=60, what="the second tick")
        # This writer states a frontier.
        agent.append(STREAM, rows((2300, "b", 2.0, 32)), frontier=BEGIN + 4000)
        last = second | {
            ("mean", '{"station":"a"}', 3000): 30.0, ("mean", '{"station":"b"}', 3000): 2.0,
            ("mean", '{"station":"a"}', 4000): 40.0, ("mean", '{"station":"b"}', 4000): 2.0,
            ("wet", "{}", 4000): 16.0,
        }  # fmt: skip
        eventually(lambda: values() == last, timeout=60, what="the last ticks")
        assert runner.status().rows_dropped == 0
