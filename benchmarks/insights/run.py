"""Measures all figures of insights in one run."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.insights import live, replay, spark_queries
from benchmarks.insights.workload import ENTITIES, SHAPES
from benchmarks.report import Figure, Report

COUNTS = (20, 100, 500)
SECONDS = 120
REPLAYED_S = 600
_SHAPES = ", ".join(f"{one.function} {one.size_s} s / {one.every_s} s" for one in SHAPES)
_HOW = (
    f"Each metric has five insights (window / EVERY: {_SHAPES}), by entity, of which there are "
    f"{ENTITIES}. {live.RATE:,} points/s in all are sent by `/put`; an agent, its Ignite and a "
    "worker are processes of their own, on a machine that also runs the sender and the reader. "
    "Delay: from when a result is due (window end plus lateness) to its being read from there. "
    "Cores: CPU time by time, the worker's with Spark's JVM and Python processes; memory is each "
    "process' own share (PSS). As a query each: plain Spark over the same source and sink, one "
    "`window` aggregation each in one session. Replay: points that are stored and compacted, "
    "read at their pace. Micro-batch: Spark's `durationMs`."
)


def run(
    seconds: float = SECONDS,
    counts: Sequence[int] = COUNTS,
    plain_queries: int = spark_queries.MAX_QUERIES,
    replayed_s: int = REPLAYED_S,
) -> Report:
    """Measure all figures; this takes about 25 minutes with the defaults."""
    found: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="mistbow-insights-") as name:
        home = Path(name)
        for insights in counts:
            measurement = live.measure_plan(home / f"merged-{insights}", insights, seconds)
            found += live.figures(f"{insights} insights", insights, measurement)
            found += live.profile(f"{insights} insights", measurement)
            if insights == plain_queries:
                separate = spark_queries.measure_queries(home / "plain", insights, seconds)
                found += live.figures(f"{insights} insights as a query each", 0, separate)
                found += spark_queries.ratios(insights, measurement, separate)
        if replayed_s:
            found += replay.figures(home / "replay", replayed_s)
    return Report("Insights", _HOW, found)
