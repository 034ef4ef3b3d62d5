"""Benchmark of values at points: delays and cores, for several functions and windows."""

import tempfile
import time
from pathlib import Path

from analytics.client.worker import WorkerClient
from analytics.plan.fragments import StreamLocation, Whole
from analytics.plan.nodes import Plan
from analytics_enabler.optimizer.pipeline import optimize
from analytics_enabler.semantics.check import check
from benchmarks.insights.delays import ResultDelays
from benchmarks.insights.live import WORKER, measure
from benchmarks.insights.services import storage, worker
from benchmarks.insights.workload import ENTITIES, SITE, send_points
from benchmarks.report import Figure, Report
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from mistbow.streams.schemas import RAW
from tests.support.conditions import eventually

_RATE = 1000
_SECONDS = 30
_METRIC = "metric.0"
_MINUTES, _HOUR = 600_000, 3_600_000
_INSIGHTS = (
    ("10 s", f"AVG({_METRIC}, 10 s) BY entityID", 10_000),
    ("10 minutes", f"AVG({_METRIC}, 10 MINUTES) BY entityID", _MINUTES),
    ("1 hour", f"AVG({_METRIC}, 1 HOUR) BY entityID", _HOUR),
    ("median of 10 minutes", f"MEDIAN({_METRIC}, 10 MINUTES) BY entityID", _MINUTES),
    ("median of 1 hour", f"MEDIAN({_METRIC}, 1 HOUR) BY entityID", _HOUR),
    ("running mean", f"RUNNING_MEAN({_METRIC}) BY entityID", 0),
    ("every 10 points", f"SUM({_METRIC}) BY entityID EVERY 10 POINTS", 0),
)
"""The name and the text of each insight, and the length (ms) of its window; 0: without a window."""

_HISTORY_RATE = 50
_AT_ONCE = 10_000
_REQUIRED_MS = 1000
_RECENT_S = 2.0
_CAUGHT_UP_MS = 2000


def run() -> Report:
    """Measure an insight at a time; this takes about 8 minutes."""
    return Report(
        "Insights without EVERY",
        f"`COMPUTE AVG({_METRIC}, WINDOW) BY entityID`, then `MEDIAN({_METRIC}, WINDOW)`, "
        f"`RUNNING_MEAN({_METRIC})`, and `SUM({_METRIC}) … EVERY 10 POINTS`: one insight at a "
        f"time, on one worker, {_SECONDS} s each. {_RATE:,} points/s of {ENTITIES} entities are "
        "sent by `/put`; the window is full: at the beginning, points of its whole length "
        f"({_HISTORY_RATE}/s) are stored already, and the worker has caught up with its start. Ten "
        "points of an entity share their time, and so their result. Delay: from when a result is "
        "due (the time of its point, plus a lateness of 1 s) to its being read from the stream of "
        "results. Cores: CPU time by time; the worker's includes Spark's JVM and Python processes.",
        [figure for name, text, size_ms in _INSIGHTS for figure in figures(name, text, size_ms)],
    )


def figures(name: str, text: str, size_ms: int) -> list[Figure]:
    """Return the figures of one insight; ``size_ms``: the length of its window."""
    with (
        tempfile.TemporaryDirectory(prefix="mistbow-continuous-") as folder,
        storage(Path(folder)) as site,
        worker(Path(folder), site.url) as running,
    ):
        agent, client = AgentClient(site.url), WorkerClient(running.url)
        _send_history(agent, size_ms)
        with send_points(agent, 1, _RATE):
            fragment = _fragment(text)
            client.run(fragment)
            delays = ResultDelays(agent, fragment.target.stream)
            eventually(
                lambda: client.show(fragment.id).state == "running",
                timeout=120,
                what="the fragment runs",
            )
            eventually(lambda: _has_caught_up(delays), timeout=120, what="it has caught up")
            found = measure(delays, site, running.pid, _SECONDS)
        client.stop(fragment.id)
    return [
        Figure(f"{name}: delay, p50", "ms", [found.percentile(50)]),
        Figure(f"{name}: delay, p95", "ms", [found.percentile(95)], at_most=_REQUIRED_MS),
        Figure(f"{name}: worker", "cores", [found.cores(*WORKER)], at_most=1.5),
        Figure(f"{name}: agent", "cores", [found.cores("agent")]),
        Figure(f"{name}: Ignite", "cores", [found.cores("ignite")]),
        Figure(f"{name}: worker's memory at most", "MB", [found.memory(*WORKER)]),
        Figure(f"{name}: results", "1/s", [len(found.delays) / found.seconds]),
    ]


def _has_caught_up(delays: ResultDelays) -> bool:
    """Return whether the points that arrived during the start are processed."""
    recent = delays.since(time.monotonic() - _RECENT_S)
    return len(recent) > 0 and int(recent.max()) < _CAUGHT_UP_MS


def _send_history(agent: AgentClient, size_ms: int) -> None:
    now, step = system_clock(), 1000 // _HISTORY_RATE
    times = range(now - size_ms, now, step)
    for start in range(0, len(times), _AT_ONCE):
        agent.put(
            [
                Point(metric=_METRIC, entity=f"e{ts // step % ENTITIES}", ts=ts, value=ts % 97 / 7)
                for ts in times[start : start + _AT_ONCE]
            ]
        )


def _fragment(text: str) -> Whole:
    """Return the fragment that the enabler would send to a worker."""
    definitions = check(f"live = COMPUTE {text}").definitions
    deployed = tuple(one.deployed("bench", system_clock()) for one in definitions)
    return Whole(
        id="continuous",
        source=StreamLocation(SITE, RAW),
        target=StreamLocation(SITE, "results/continuous"),
        plan=optimize(Plan(insights=deployed)).plan,
    )
