"""The first steps of a user: store a metric, deploy insights over it, read the results."""

import time
from collections import Counter

import pytest

from mistbow.clock import system_clock
from mistbow.errors import UnavailableError
from tests.oracle.stored_points import compact_key, expected_values, stored_points
from tests.support.conditions import eventually
from tests.support.sender import Sender
from tests.support.suite import Suite
from tests.support.traffic import Traffic

pytestmark = pytest.mark.timeout(400)

METRIC = "bus.delay"
TRAFFIC = Traffic(metrics=(METRIC,), entities=("bus1", "bus2", "bus3"), late_every=61)
QUERIES = f"""
average = COMPUTE AVG({METRIC}, 3 SECONDS) BY entityID EVERY 1 SECOND;
total = COMPUTE SUM({METRIC}, 10 SECONDS) EVERY 2 SECONDS;
number = COMPUTE COUNT({METRIC}, 10 SECONDS) EVERY 2 SECONDS;
least = COMPUTE MIN({METRIC}, 4 SECONDS) BY entityID EVERY 2 SECONDS;
most = COMPUTE MAX({METRIC} WHEN < 50, 4 SECONDS) EVERY 2 SECONDS;
ratio = COMPUTE 100 * SUM({METRIC}, 10 SECONDS) / COUNT({METRIC}, 10 SECONDS) WHEN > 1500
        EVERY 2 SECONDS;
odd = COMPUTE AVG({METRIC}, 5 SECONDS) WHEN group == "odd" EVERY 5 SECONDS
"""
INSIGHTS = {"average", "total", "number", "least", "most", "ratio", "odd"}


def found(suite: Suite, deployment: str, until: int) -> dict[tuple[str, str, int], float | None]:
    results = suite.enabler.results(deployment, limit=100_000, end=until).results
    assert len({(r.insight, compact_key(r.key), r.ts) for r in results}) == len(results), "doubled"
    return {(r.insight, compact_key(r.key), r.ts): r.value for r in results}


def await_oracle(suite: Suite, deployment: str, until: int) -> None:
    """Wait until all results up to a time (ms) are stored and equal those of the oracle."""
    since = max(one.since for one in suite.enabler.show(deployment).insights)

    def equal() -> bool:
        right = expected_values(QUERIES, stored_points(suite.agent, METRIC), since, until)
        results = found(suite, deployment, until)
        assert {name for name, _, _ in right} == INSIGHTS
        assert results.keys() == right.keys(), (
            f"too many: {sorted(results.keys() - right.keys())[:5]}, "
            f"missing: {sorted(right.keys() - results.keys())[:5]}"
        )
        assert results == pytest.approx(right, rel=1e-9)
        return True

    eventually(equal, timeout=90, what="the results equal the oracle's")


def test_results_equal_the_oracle_late_points_included(suite: Suite) -> None:
    with Sender(suite.url("agent"), TRAFFIC) as sender:
        accepted = suite.enabler.submit(QUERIES, name="bus")
        began = system_clock()
        eventually(lambda: system_clock() > began + 20_000, what="20 s of traffic")
    await_oracle(suite, accepted.deployment_id, system_clock())

    late = suite.agent.info("raw").late
    assert late > 3, "the traffic has late points"
    results = suite.enabler.results(accepted.deployment_id, limit=100_000).results
    assert max(result.revision for result in results) > 0, "late points have corrected results"
    assert len(sender.acknowledged) == stored_points(suite.agent, METRIC).num_rows
    suite.enabler.delete(accepted.deployment_id)


def test_insights_that_share_an_aggregate_run_as_one(suite: Suite) -> None:
    queries = (
        "one = COMPUTE AVG(shared.metric, 10 SECONDS) EVERY 5 SECONDS;"
        "two = COMPUTE AVG(shared.metric, 10 SECONDS) + 100 EVERY 5 SECONDS"
    )
    explained = suite.enabler.explain(queries)
    assert {shared.insight for shared in explained.shared} >= {"one", "two"}
    assert "computed once" in suite.enabler.explain_text(queries)

    accepted = suite.enabler.submit(queries)
    eventually(
        lambda: [(s.state, s.queries) for s in suite.worker.list()] == [("running", 1)],
        timeout=60,
        what="one Spark query runs",
    )
    suite.enabler.delete(accepted.deployment_id)


def test_nothing_is_lost_or_doubled_when_services_are_killed(suite: Suite) -> None:
    already = stored_points(suite.agent, METRIC).num_rows
    with Sender(suite.url("agent"), TRAFFIC) as sender:
        accepted = suite.enabler.submit(QUERIES, name="bus through crashes")
        for victim in ("worker", "enabler", "agent", "ignite"):
            sent = len(sender.acknowledged)
            suite.kill(victim)
            eventually(
                lambda sent=sent: len(sender.acknowledged) > sent + 100,
                timeout=90,
                what=f"points flow after {victim} was killed",
            )
        began = time.monotonic()
        eventually(lambda: time.monotonic() > began + 5, what="some more traffic")
    end = system_clock()

    def has_caught_up() -> bool:
        try:
            statuses = suite.worker.list()
        except UnavailableError:  # the worker that was killed is still starting
            return False
        return bool(statuses) and all(status.frontier > end for status in statuses)

    eventually(has_caught_up, timeout=180, what="the worker has caught up")
    await_oracle(suite, accepted.deployment_id, end)

    stored = stored_points(suite.agent, METRIC)
    sent_points = Counter((p.entity, p.ts, p.value) for p in sender.acknowledged)
    held_points = Counter((row["entity"], row["ts"], row["value"]) for row in stored.to_pylist())
    assert not sent_points - held_points, "acknowledged points are missing"
    assert stored.num_rows - already == len(sender.acknowledged), "points are doubled"
    suite.enabler.delete(accepted.deployment_id)
