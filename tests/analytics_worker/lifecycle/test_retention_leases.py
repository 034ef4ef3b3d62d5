"""The retention leases for the sources of a fragment."""

from contextlib import closing

import msgspec
import pytest
from structlog.testing import capture_logs

from analytics.plan.fragments import StreamLocation, Whole
from analytics.plan.nodes import Plan
from analytics_enabler.optimizer import optimize
from analytics_worker.lifecycle.retention_leases import RetentionLeases, retention_needs
from mistbow.client.agent import AgentClient
from storage_agent.http.streams import RetentionLeaseBody
from tests.analytics_enabler.support import definitions

RAW, STATES = StreamLocation("n1", "raw"), StreamLocation("n1", "states/all.fair")
SPARE, MINUTE, DAY = 600_000, 60_000, 86_400_000


def _whole(text: str) -> Whole:
    insights = tuple(each.deployed("a", 0) for each in definitions(f"a = COMPUTE {text}"))
    plan = optimize(Plan(insights=insights)).plan
    target = StreamLocation("n1", "results/all.fair")
    return Whole(id="all.fair", source=RAW, target=target, plan=plan)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("AVG(x, 1 h) EVERY 1 m", {RAW: 60 * MINUTE + SPARE}),
        ("RUNNING_MAX(x) EVERY 1 m", {RAW: MINUTE + SPARE, STATES: 128 * MINUTE + SPARE}),
        # The state of an idle key is stored in snapshots only, hence two of them.
        ("RUNNING_MAX(x) EVERY 1 d", {RAW: DAY + SPARE, STATES: 60 * DAY + SPARE}),
        ("RUNNING_MAX(x) EVERY 300 d", {RAW: 300 * DAY + SPARE, STATES: 600 * DAY + SPARE}),
    ],
)
def test_retention_covers_windows_and_two_snapshots_of_states(
    text: str, wanted: dict[StreamLocation, int]
) -> None:
    assert dict(retention_needs(_whole(text))) == wanted


def test_agent_accepts_lease_for_the_longest_window_and_offset() -> None:
    ((_, retain_ms),) = retention_needs(_whole("AVG(x, 366 d, 366 d) EVERY 366 d"))
    body = {"holder": "all.fair", "keep_ms": retain_ms, "for_ms": 1}
    assert msgspec.convert(body, RetentionLeaseBody).keep_ms == retain_ms > 2 * 366 * DAY


def test_failure_of_a_lease_is_logged_once() -> None:
    agent = AgentClient("http://127.0.0.1:1", attempts=1)
    with closing(agent), capture_logs() as logs:
        leases = RetentionLeases(agent, lambda: [_whole("AVG(x) EVERY 1 m")])
        for _ in range(3):
            leases.renew()
    assert [(each["event"], each["stream"]) for each in logs] == [("retention_lease_failed", "raw")]
