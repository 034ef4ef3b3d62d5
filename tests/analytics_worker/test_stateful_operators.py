"""Accumulated insights on real Spark over a real storage agent: restarts and late points."""

import math
import time

import numpy as np
import pytest
from pyspark.sql import SparkSession

from analytics.plan.expressions import Arithmetic, Measure, Source
from analytics.plan.fragments import StreamLocation, Whole
from analytics.plan.functions import Function, Parameters
from analytics.plan.nodes import Counted, Insight, Pane, Plan, Window
from analytics_worker.operators.accumulators import START
from analytics_worker.operators.points import Floats
from mistbow.client.agent import AgentClient
from mistbow.streams.results import current_results
from mistbow.streams.schemas import RAW, RESULT_ROWS
from tests.analytics_worker.runner_context import running
from tests.support.conditions import eventually
from tests.support.traffic import Traffic

TARGET = "results/accumulated"
EVERY_MS = 1000
NTH = 7
FUNCTIONS: dict[Function, Parameters] = {
    "RUNNING_COUNT": (),
    "RUNNING_MEAN": (),
    "PEWMA": (0.4,),
    "DIFF": (),
}


def fragment(since: int) -> Whole:
    pane = Pane(
        id="p", source=Source("cpu"), by=("entityID",), width_ms=EVERY_MS, contents=("points",)
    )
    window = Window(
        id="w", pane="p", size_ms=EVERY_MS, every_ms=EVERY_MS, contents=("points",), start=since
    )
    measures = {function: Measure(function, "w", each) for function, each in FUNCTIONS.items()}
    away = Arithmetic("-", Measure("EWMA", "w", (0.3,)), measures["RUNNING_MEAN"])
    insights = tuple(
        Insight(uid=uid, expression=expression, by=("entityID",), every_ms=EVERY_MS, since=since)
        for uid, expression in (measures | {"away": away}).items()
    )
    nth = Window(
        id="n",
        pane="p",
        size_ms=EVERY_MS,
        every_ms=EVERY_MS,
        contents=("points",),
        each_point=True,
        start=since,
    )
    counted = Insight(
        uid="nth",
        expression=Measure("RUNNING_COUNT", "n"),
        by=("entityID",),
        every_ms=EVERY_MS,
        since=since,
        each_point=True,
        counted=Counted(NTH, (Measure("RUNNING_COUNT", "n"),)),
    )
    return Whole(
        id="accumulated",
        source=StreamLocation("n1", RAW),
        target=StreamLocation("n1", TARGET),
        plan=Plan(insights=(*insights, counted), windows=(window, nth), panes=(pane,)),
    )


def outputs_of(function: str, values: Floats, parameters: Parameters = ()) -> Floats:
    return START[function](*parameters).advance(values)[1]


def right(agent: AgentClient, since: int, until: int) -> dict[tuple[str, str, int], float]:
    """Return the expected values, computed in one batch: (insight, key, time) -> value."""
    expected = {}
    for node in agent.get(["cpu"], latest=False):
        for series in node.data:
            own_points = sorted((each.ts, each.value) for each in series.values)
            mine = [(ts, value) for ts, value in own_points if since < ts <= until]
            key = f'{{"entityID":"{series.entity}"}}'
            counts = {ts: float(number) for number, (ts, _) in enumerate(mine, 1)}
            for before, (ts, count) in zip([0.0, *counts.values()], counts.items(), strict=False):
                if count // NTH > before // NTH:
                    expected["nth", key, ts] = count
            values = np.array([value for _, value in mine])
            mean = outputs_of("RUNNING_MEAN", values)
            of: dict[str, Floats] = {
                name: outputs_of(name, values, each) for name, each in FUNCTIONS.items()
            }
            of["away"] = outputs_of("EWMA", values, (0.3,)) - mean
            for name, outputs in of.items():
                for (ts, _), value in zip(mine, outputs.tolist(), strict=True):
                    expected[name, key, -(-ts // EVERY_MS) * EVERY_MS] = value
    return {identity: value for identity, value in expected.items() if math.isfinite(value)}


@pytest.mark.timeout(240)
def test_results_equal_a_batch_through_restart_and_late_points(
    spark: SparkSession, agent: AgentClient
) -> None:
    agent.create_stream(TARGET, RESULT_ROWS)
    since = agent.info(RAW).frontier
    traffic = Traffic(metrics=("cpu",))
    with running(spark, agent, fragment(since)) as runner:
        for batch in traffic.batches(8):
            agent.put(batch)
        eventually(lambda: runner.status().rows_written, timeout=60, what="results")
    with running(spark, agent, fragment(since)) as runner:
        for batch in traffic.batches(8):
            agent.put(batch)
        end = time.time_ns() // 1_000_000 // EVERY_MS * EVERY_MS
        assert agent.info(RAW).late
        eventually(lambda: runner.status().frontier > end, timeout=60, what="the last window")

        def equal() -> bool:
            rows = current_results(agent.read(TARGET).table).to_pylist()
            found = {
                (row["insight"], row["key"], row["ts"]): row["value"]
                for row in rows
                if row["ts"] <= end
            }
            expected = right(agent, since, end)
            assert found.keys() == expected.keys()
            return found == pytest.approx(expected, rel=1e-9, abs=1e-9)

        eventually(equal, timeout=60, what="all results are as those of a batch")
        assert runner.status().rows_dropped == 0
        revised = current_results(agent.read(TARGET).table)["revision"].to_pylist()
        assert max(revised) > 0
