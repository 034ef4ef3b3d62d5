"""A sampled insight on real Spark over a live storage agent, through a crash and restarts."""

import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from analytics.plan.fragments import StreamLocation, Whole
from analytics.plan.nodes import Plan
from analytics_enabler.optimizer import optimize
from analytics_enabler.semantics import check
from analytics_worker.evaluate.composition import compose
from analytics_worker.lifecycle.runner import FragmentRunner
from analytics_worker.panes.routing import COLUMNS, route
from analytics_worker.spark.previous_periods import SETTLING_MS, previous_chances
from analytics_worker.stateful.state_table import StateTable
from mistbow.client.agent import AgentClient
from mistbow.streams.results import current_results
from mistbow.streams.schemas import RAW, RESULT_ROWS
from tests.analytics_worker.runner_context import running
from tests.support.conditions import eventually
from tests.support.sender import Sender
from tests.support.services import Service
from tests.support.traffic import Traffic
from tests.support.windows import windows_of_routed

QUERY = "q = COMPUTE AVG(x) EVERY 2 s WITH MAX_ERROR 0.1 AND CONFIDENCE 0.95"
EVERY_MS = 2000
TARGET = "results/sampled"
TRAFFIC = Traffic(metrics=("x",), entities=[f"e{number}" for number in range(20)], rate=1000)
ENOUGH = 0.8
"""The minimum share of results whose bounds contain the true mean.

In the long run, the share is 0.95, but the test computes only few results.
"""


def fragment(since: int) -> Whole:
    checked = check(QUERY)
    assert checked.ok, checked.problems
    insights = tuple(one.deployed("q", since) for one in checked.definitions)
    plan = optimize(Plan(insights=insights)).plan
    return Whole(
        id="sampled",
        source=StreamLocation("n1", RAW),
        target=StreamLocation("n1", TARGET),
        plan=plan,
    )


def means(agent: AgentClient) -> dict[int, float]:
    """Return the true mean of each window, computed from all stored points: tick (ms) -> mean."""
    points = agent.read(RAW, match={"metric": ["x"]}).table
    ticks = -(-points["ts"].to_numpy() // EVERY_MS) * EVERY_MS
    values = points["value"].to_numpy()
    return {tick: float(values[ticks == tick].mean()) for tick in np.unique(ticks).tolist()}


def read(agent: AgentClient, one: Whole) -> pa.Table:
    """Return the sampled points of a fragment, as a new process without state selects them."""
    earlier = previous_chances(agent, one.source.site, RAW, None)
    points = agent.read(RAW, match={"metric": ["x"]}, columns=COLUMNS).table
    batches = points.unify_dictionaries().to_batches()
    return pa.concat_tables(route(batch, one.plan.panes, earlier) for batch in batches)


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_bounds_are_met_with_fewer_points_through_a_crash_and_a_restart(
    spark: SparkSession, agent: AgentClient, agent_service: Service
) -> None:
    agent.create_stream(TARGET, RESULT_ROWS)
    since = agent.info(RAW).frontier
    one = fragment(since)

    def until(runner: FragmentRunner, end: int) -> None:
        eventually(lambda: runner.status().frontier > end, timeout=90, what="results go on")

    with Sender(agent_service.url, TRAFFIC):
        with running(spark, agent, one) as runner:
            thin = since + SETTLING_MS + 4 * EVERY_MS
            until(runner, thin + 4 * EVERY_MS)
            agent_service.kill()
            agent_service.start()
            until(runner, time.time_ns() // 1_000_000 + 4 * EVERY_MS)
        with running(spark, agent, one) as runner:
            until(runner, time.time_ns() // 1_000_000 + 2 * EVERY_MS)
    with running(spark, agent, one) as runner:
        end = agent.info(RAW).frontier // EVERY_MS * EVERY_MS
        until(runner, end)

        routed = read(agent, one)
        again = compose(windows_of_routed(routed, one.plan), one.plan, StateTable()).to_pylist()

        def as_in_a_batch() -> list[dict[str, object]]:
            """Check that the corrected results equal those of one batch; return their rows."""
            rows = current_results(agent.read(TARGET).table).to_pylist()
            found = {row["ts"]: row for row in rows if row["ts"] <= end}
            right = {row["ts"]: row for row in again if row["ts"] <= end}
            assert found.keys() == right.keys()
            for name in ("value", "low", "high", "confidence"):
                estimates = {tick: row[name] for tick, row in found.items()}
                assert estimates == pytest.approx({tick: row[name] for tick, row in right.items()})
            return list(found.values())

        rows = eventually(as_in_a_batch, timeout=60, what="results are as those of a batch")
    true = means(agent)
    late = [row for row in rows if row["ts"] > thin]
    within = [row["low"] <= true[row["ts"]] <= row["high"] for row in late]
    assert sum(within) / len(within) >= ENOUGH
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows)
    assert {row["confidence"] for row in rows} == {0.95}
    near = [abs(row["value"] / true[row["ts"]] - 1) <= 0.1 for row in late]
    assert sum(near) / len(near) >= ENOUGH
    routed = routed.filter(pc.greater(routed["ts"], thin))
    there = pc.sum(pc.struct_field(routed["draw"].combine_chunks(), "seen")).as_py()
    assert routed.num_rows - routed["value"].null_count < 0.6 * there
