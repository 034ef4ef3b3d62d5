"""Settled results: a client waits by the API alone, and the results then equal the oracle's."""

import os
import random
import threading

import pytest

from analytics.client.enabler import EnablerClient
from analytics.insight_models import Result
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from tests.analytics_enabler.live_site import LiveSite
from tests.oracle.stored_points import compact_key, expected_values, stored_points

pytestmark = pytest.mark.timeout(900)

METRIC = "settled.delay"
QUERIES = f"""
average = COMPUTE AVG({METRIC}, 3 SECONDS) BY entityID EVERY 1 SECOND;
total = COMPUTE SUM({METRIC}, 10 SECONDS) EVERY 2 SECONDS;
number = COMPUTE COUNT({METRIC}, 20 SECONDS) EVERY 5 SECONDS
"""
ROUNDS = int(os.environ.get("MISTBOW_ROUNDS", "5"))


class Traffic:
    """Points of the present time, sent by a thread; ``lock`` is held from their time to the answer.

    While a caller holds the lock, no point up to the present time can arrive any more.
    """

    def __init__(self, agent: AgentClient) -> None:
        self.lock = threading.Lock()
        self._agent = agent
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def __enter__(self) -> "Traffic":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(60)

    def _send(self) -> None:
        while not self._stopped.wait(0.1):
            with self.lock:
                now = system_clock()
                self._agent.put([Point(METRIC, each, now, float(now % 100)) for each in "abc"])


def put_late_points(site: LiveSite, chance: random.Random, since: int, until: int) -> None:
    """Store points with times in ``(since, until]`` (ms), which are late for most windows."""
    times = [chance.randint(since + 1, until) for _ in range(20)]
    site.agent.put([Point(METRIC, chance.choice("abc"), ts, float(ts % 1000)) for ts in times])


def settled_results(enabler: EnablerClient, id: str, until: int) -> list[Result]:
    """Wait by the API alone until results are settled; a busy machine may need several waits."""
    for _ in range(8):
        answer = enabler.results(id, end=until, limit=100_000, settled_until=until, wait_s=60)
        if answer.settled:
            return answer.results
    raise AssertionError(f"not settled: {answer.unsettled}")


def test_settled_results_equal_the_oracle_at_once_with_late_points_in_flight(
    live_site: LiveSite, live_enabler: EnablerClient
) -> None:
    chance = random.Random(7)  # noqa: S311 - the same each time, by design
    id, revisions = live_enabler.submit(QUERIES).deployment_id, 0
    before = since = max(one.since for one in live_enabler.show(id).insights)
    with Traffic(live_site.agent) as traffic:
        for _ in range(ROUNDS):
            with traffic.lock:
                until = max(system_clock(), before + 1)
            put_late_points(live_site, chance, before, until)
            results = settled_results(live_enabler, id, until)
            points = stored_points(live_site.agent, METRIC)
            expected = expected_values(QUERIES, points, since, until)
            found = {(r.insight, compact_key(r.key), r.ts): r.value for r in results}
            assert found.keys() == expected.keys()
            assert found == pytest.approx(expected, rel=1e-9)
            revisions = max([revisions, *(result.revision for result in results)])
            before = until
    assert revisions > 0, "late points have corrected results"
    assert {insight for insight, _, _ in found} == {"average", "total", "number"}


def test_unsettled_results_have_the_reason(
    live_site: LiveSite, live_enabler: EnablerClient
) -> None:
    live_site.agent.put([Point(METRIC, "a", system_clock(), 1.0)])
    id = live_enabler.submit(f"x = COMPUTE SUM({METRIC}, 1 SECONDS) EVERY 1 SECONDS").deployment_id
    answer = live_enabler.results(id, settled_until=system_clock() + 3_600_000)
    assert answer.settled is False
    (reason,) = answer.unsettled
    assert reason.startswith("x: it")
    assert live_enabler.results(id).settled is None
