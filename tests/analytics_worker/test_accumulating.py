"""Accumulated insights on real Spark over a real storage agent: restarts and late points."""

import math
import time

import numpy as np
import pytest
from pyspark.sql import SparkSession

from mistbow.client.agent import AgentClient
from mistbow.operators.accumulated import START
from mistbow.operators.points import Floats
from mistbow.plan.expressions import Arithmetic, Function, Measure, Parameters, Source
from mistbow.plan.fragments import Place, Whole
from mistbow.plan.nodes import Counted, Insight, Pane, Plan, Window
from mistbow.streams.results import standing
from mistbow.streams.schemas import RAW, RESULT_ROWS
from tests.analytics_worker.running import running
from tests.support.traffic import Traffic
from tests.support.waiting import eventually

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
        source=Place("n1", RAW),
        target=Place("n1", TARGET),
        plan=Plan(insights=(*insights, counted), windows=(window, nth), panes=(pane,)),
    )


def said(function: str, values: Floats, parameters: Parameters = ()) -> Floats:
    return START[function](*parameters).advance(values)[1]


def right(agent: AgentClient, since: int, until: int) -> dict[tuple[str, str, int], float]:
    """Return (insight, key, time) → value, from all points in a batch."""
    expected = {}
    for node in agent.get(["cpu"], latest=False):
        for series in node.data:
            held = sorted((each.ts, each.value) for each in series.values)
            mine = [(ts, value) for ts, value in held if since < ts <= until]
            key = f'{{"entityID":"{series.entity}"}}'
            counts = {ts: float(number) for number, (ts, _) in enumerate(mine, 1)}
            for before, (ts, count) in zip([0.0, *counts.values()], counts.items(), strict=False):
                if count // NTH > before // NTH:
                    expected["nth", key, ts] = count
            values = np.array([value for _, value in mine])
            mean = said("RUNNING_MEAN", values)
            of: dict[str, Floats] = {
                name: said(name, values, each) for name, each in FUNCTIONS.items()
            }
            of["away"] = said("EWMA", values, (0.3,)) - mean
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
            rows = standing(agent.read(TARGET).table).to_pylist()
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
        revised = standing(agent.read(TARGET).table)["revision"].to_pylist()
        assert max(revised) > 0
