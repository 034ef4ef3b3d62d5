"""All figures of many insights in one run."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.insights import live, plain, replay
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
    "`window` aggregation each in one session. Replay: points that are stored and merged already, "
    "told of at their pace. Micro-batch: Spark's `durationMs`."
)


def run(
    seconds: float = SECONDS,
    counts: Sequence[int] = COUNTS,
    plain_queries: int = plain.MOST,
    replayed_s: int = REPLAYED_S,
) -> Report:
    """Measure all; takes about 25 minutes as it is."""
    found: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="mistbow-insights-") as name:
        home = Path(name)
        for insights in counts:
            measured = live.merged(home / f"merged-{insights}", insights, seconds)
            found += live.figures(f"{insights} insights", insights, measured)
            found += live.profile(f"{insights} insights", measured)
            if insights == plain_queries:
                apart = plain.measured(home / "plain", insights, seconds)
                found += live.figures(f"{insights} insights as a query each", 0, apart)
                found += plain.ratios(insights, measured, apart)
        if replayed_s:
            found += replay.figures(home / "replay", replayed_s)
    return Report("Insights", _HOW, found)
