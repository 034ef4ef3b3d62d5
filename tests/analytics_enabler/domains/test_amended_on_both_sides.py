"""The results of an insight that both sides of a split have amended, against the oracle."""

import pytest

from analytics.client.enabler import EnablerClient
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from tests.analytics_enabler.domains.conftest import DomainFog
from tests.analytics_enabler.spark_worker import TEST_TIMEOUT_S, eventually
from tests.oracle.stored_points import Identity, compact_key, expected_values, stored_points
from tests.support.sender import Sender
from tests.support.traffic import Traffic

pytestmark = [pytest.mark.timeout(TEST_TIMEOUT_S), pytest.mark.soak]

AT_A = " WHEN site == 'a'"


def text(function: str, condition: str = AT_A) -> str:
    return f"here = COMPUTE {function}(cpu, 2 s) BY entityID{condition} EVERY 1 s"


def spans(enabler: EnablerClient, deployment: str) -> list[tuple[str, int, int | None]]:
    """Return (function, since, until) of the generations of an insight, the oldest first."""
    shown = enabler.show(deployment)
    (live,) = shown.insights
    ended = [(each.text or "", each.since, each.until) for each in shown.ended]
    all_spans = sorted([*ended, (live.text, live.since, None)], key=lambda each: each[1])
    return [(text.split()[3].split("(")[0], since, until) for text, since, until in all_spans]


def results(enabler: EnablerClient, deployment: str, until: int) -> dict[Identity, float]:
    found = enabler.results(deployment, limit=100_000, end=until).results
    values = {(r.insight, compact_key(r.key), r.ts): r.value for r in found}
    assert len(values) == len(found)
    return {identity: value for identity, value in values.items() if isinstance(value, float)}


def has_result(enabler: EnablerClient, deployment: str, after: int) -> bool:
    return bool(enabler.results(deployment, start=after).results)


def test_insight_of_one_site_has_the_results_of_each_amendment(fog: DomainFog) -> None:
    at_a = fog.a.start_enabler()
    fog.wait_for(fog.b, {("a", "all"): True})
    at_b = fog.b.start_enabler()
    fog.wait_for(fog.b, {("a", "all"): True, ("b", "all"): False})
    with Sender(fog.a.url, Traffic(metrics=("cpu",), rate=20)):
        here = at_a.submit(text("AVG")).deployment_id
        eventually(lambda: has_result(at_a, here, 0), timeout=90, what="the first result")
        eventually(lambda: at_b.show(here).insights, what="the standby shows it")
        fog.cut()
        fog.wait_for(fog.b, {("b", "all"): True})
        at_a.amend(here, text("MAX"))
        at_b.amend(here, text("MIN"))
        # The worker at a does not know of the later amendment.
        amended = system_clock()
        eventually(lambda: has_result(at_a, here, amended + 3000), timeout=60, what="MAX")
        fog.heal()
        fog.wait_for(fog.a, {("a", "all"): False, ("b", "all"): True})
        healed = system_clock()
        eventually(lambda: has_result(at_b, here, healed + 3000), timeout=60, what="MIN")
    maximum, minimum = spans(at_b, here)[1:]
    assert (maximum[0], minimum[0]) == ("MAX", "MIN")
    assert maximum[1] < maximum[2] == minimum[1] < amended + 3000  # type: ignore[operator]
    agent = AgentClient(fog.a.url)
    points, last = stored_points(agent, "cpu"), healed + 3000
    agent.close()
    expected = {
        identity: value
        for function, since, until in spans(at_b, here)
        for identity, value in expected_values(
            text(function, ""), points, since, last if until is None else until
        ).items()
    }

    def equal() -> bool:
        assert results(at_b, here, last) == pytest.approx(expected)
        return True

    eventually(equal, timeout=60, what="the results equal the oracle's")
