"""Benchmark of the delay of the suite's results, and of their correctness against the oracle."""

import math
import threading
import time

from analytics.insight_models import Result
from benchmarks.report import Figure, Report
from mistbow.clock import system_clock
from tests.end_to_end.test_insights import METRIC, QUERIES
from tests.oracle.stored_points import compact_key, expected_values, stored_points
from tests.support.sender import Sender
from tests.support.suite import Suite
from tests.support.traffic import Traffic

_SECONDS = 120
_RATE = 1000
_LATENESS_MS = 1000
_SETTLE_S = 30
_TRAFFIC = Traffic(metrics=(METRIC,), entities=("bus1", "bus2", "bus3"), rate=_RATE, late_every=997)


def run(suite: Suite) -> Report:
    """Send points for two minutes, including late points; compare the results with the oracle."""
    late_before = suite.agent.info("raw").late
    delays: list[float] = []
    with Sender(suite.url("agent"), _TRAFFIC):
        submitted = time.monotonic()
        accepted = suite.enabler.submit(QUERIES, name="bench")
        first = _follow(suite, accepted.deployment_id, delays)
        first.wait(60)
        first_s = time.monotonic() - submitted
        time.sleep(_SECONDS)
    end = system_clock()
    time.sleep(_SETTLE_S)
    deployment = suite.enabler.show(accepted.deployment_id)
    since = max(insight.since for insight in deployment.insights)
    expected = expected_values(QUERIES, stored_points(suite.agent, METRIC), since, end)
    results = suite.enabler.results(accepted.deployment_id, limit=100_000, end=end).results
    found = {(r.insight, compact_key(r.key), r.ts): r for r in results}
    wrong = sum(
        identity not in found or not _equal(found[identity], value)
        for identity, value in expected.items()
    ) + len(found.keys() - expected.keys())
    delays.sort()
    return Report(
        "Live insights",
        f"{_SECONDS} s, {_RATE} points/s of one metric, 7 insights, over the whole suite with its "
        "own insights. Delay: from when a result is due (window end plus lateness) to its being "
        "read by server-sent events, first revisions only, ticks after the first result.",
        [
            Figure("from submission to the first result", "s", [first_s]),
            Figure("delay, p50", "ms", [delays[len(delays) // 2]]),
            Figure("delay, p95", "ms", [delays[int(len(delays) * 0.95)]], at_most=2000),
            Figure("delay, maximum", "ms", [delays[-1]]),
            Figure("results that the oracle expects", "rows", [len(expected)]),
            Figure("missing, wrong or unexpected results", "rows", [wrong], at_most=0),
            Figure("late points", "points", [suite.agent.info("raw").late - late_before]),
            Figure("results that were corrected", "rows", [sum(r.revision > 0 for r in results)]),
        ],
    )


def _follow(suite: Suite, deployment_id: str, delays: list[float]) -> threading.Event:
    first = threading.Event()

    def follow() -> None:
        started = 0
        for result in suite.enabler.follow(deployment_id):
            now = system_clock()
            started = started or now
            first.set()
            if result.revision == 0 and result.ts > started:
                delays.append(now - result.ts - _LATENESS_MS)

    threading.Thread(target=follow, daemon=True).start()
    return first


def _equal(result: Result, value: float) -> bool:
    return result.value is not None and math.isclose(result.value, value, rel_tol=1e-9)
