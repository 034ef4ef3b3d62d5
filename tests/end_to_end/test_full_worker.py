"""A worker in a small container that receives more insights than it has memory for."""

from collections.abc import Iterator

import pytest

from mistbow.clock import system_clock
from mistbow.fabric import Worker
from tests.oracle.stored_points import compact_key, expected_values, stored_points
from tests.support.conditions import eventually
from tests.support.confined_site import ConfinedSite, confined_site
from tests.support.memory_group import needs_memory_groups
from tests.support.sender import Sender
from tests.support.traffic import Traffic

pytestmark = [needs_memory_groups, pytest.mark.alone, pytest.mark.timeout(900)]

LIMIT_MB = 1300
INSIGHTS = 12
METRIC = "bus.delay"
TRAFFIC = Traffic(metrics=(METRIC,), entities=("bus1", "bus2"), rate=20)
ACCEPTED = ("running", "lagging", "shed")
"""The states of insights that have memory; on a machine with much other work, they are late."""

QUERY = f"COMPUTE AVG({METRIC}, 4 SECONDS) BY entityID EVERY 2 SECONDS"


@pytest.fixture(scope="module")
def fog(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConfinedSite]:
    with confined_site(tmp_path_factory.mktemp("fog"), LIMIT_MB) as site:
        yield site


def test_changed_limit_is_announced_within_two_periods(fog: ConfinedSite) -> None:
    def announced(limit_mb: int) -> Worker:
        """Change the limit, and return the announcement with the new limit."""
        fog.group.limit(limit_mb)
        began = system_clock()
        eventually(lambda: fog.announced().memory_mb == limit_mb, timeout=5)
        assert system_clock() - began < 3000  # two periods of 1 s, and the time to read it
        return fog.announced()

    before = eventually(fog.announced)
    after = announced(LIMIT_MB + 1000)
    assert after.memory_free_mb == pytest.approx(before.memory_free_mb + 950, abs=150)
    assert announced(LIMIT_MB).memory_free_mb == pytest.approx(before.memory_free_mb, abs=150)


@pytest.mark.parametrize(
    ("limit_mb", "at_least"),
    [
        pytest.param(LIMIT_MB, 4, id="short"),
        pytest.param(1900, 6, marks=pytest.mark.soak, id="long"),
    ],
)
def test_insights_that_do_not_fit_are_refused_with_figures_and_none_is_killed(
    fog: ConfinedSite, limit_mb: int, at_least: int
) -> None:
    fog.group.limit(limit_mb)
    # Insights with different signatures share no query.
    queries = ";\n".join(f"q{n} = {QUERY} WITH SIGNATURE 'q{n}'" for n in range(INSIGHTS))
    with Sender(fog.agent.url, TRAFFIC):
        accepted = fog.enabler.submit(queries, name="many").deployment_id

        def all_decided() -> tuple[set[str], dict[str, str]]:
            insights = fog.enabler.show(accepted).insights
            running = {each.name for each in insights if each.state in ACCEPTED}
            refused = {
                each.name: each.error or ""
                for each in insights
                if "of memory needed" in (each.error or "")
            }
            assert len(running) + len(refused) == INSIGHTS, [
                (each.name, each.state, each.error) for each in insights
            ]
            return running, refused

        running, refused = eventually(all_decided, timeout=240, what="insights run or are refused")
        began = system_clock()
        eventually(lambda: system_clock() > began + 30_000, timeout=60)
        # Once the memory of the running ones is measured, more may fit.
        later, refused = eventually(all_decided, timeout=60, what="insights run or are refused")
    assert later >= running
    assert fog.group.oom_kills == 0
    print(f"{limit_mb} MB: {len(running)} insights run, {len(refused)} are refused")
    assert len(running) >= at_least
    assert refused or limit_mb > LIMIT_MB
    for error in refused.values():
        assert "MB of memory needed, " in error
        assert " free" in error
    until = system_clock() - 10_000
    await_oracle(fog, accepted, running, until)
    fog.enabler.delete(accepted)
    eventually(lambda: not fog.worker.list(), timeout=60, what="the worker is free")


def await_oracle(fog: ConfinedSite, deployment: str, names: set[str], until: int) -> None:
    """Wait until the results up to a time (ms) equal those of the oracle, for these insights."""
    since = max(each.since for each in fog.enabler.show(deployment).insights)
    texts = ";\n".join(f"{name} = {QUERY}" for name in sorted(names))

    def equal() -> bool:
        right = expected_values(texts, stored_points(fog.agent, METRIC), since, until)
        found = {
            (each.insight, compact_key(each.key), each.ts): each.value
            for each in fog.enabler.results(deployment, limit=100_000, end=until).results
            if each.ts > since
        }
        assert found == pytest.approx(right, rel=1e-9)
        return True

    # A machine with much other work is late.
    eventually(equal, timeout=240, what="the results equal the oracle's", pause=1.0)
