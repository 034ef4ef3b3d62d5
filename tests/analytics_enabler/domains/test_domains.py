"""Several enablers in one fog: domains, standby, takeover and splits."""

import time

import pytest

from analytics.client.enabler import EnablerClient
from analytics.plan.fragments import Merge, Whole
from mistbow.errors import ConflictError, InvalidQueryError, NotFoundError, UnavailableError
from tests.analytics_enabler.domains.conftest import DomainFog, DomainSite
from tests.support.conditions import eventually

MEAN = "mean = COMPUTE AVG(cpu, 10 s) BY region EVERY 5 s"
PEAK = "peak = COMPUTE MAX(cpu, 10 s) BY region EVERY 5 s"
LOW = "low = COMPUTE MIN(cpu, 10 s) BY region EVERY 5 s"
AT_B = "here = COMPUTE AVG(cpu, 10 s) WHEN site == 'b' EVERY 5 s"
AT_BOTH = "both = COMPUTE AVG(cpu, 10 s) WHEN site IN ('a', 'b') EVERY 5 s"


def merges(*sites: DomainSite) -> list[Merge]:
    """Return the merges that the workers of sites run."""
    found = [each for site in sites for each in site.worker.fragments_of(Merge)]
    return [each for each in found if isinstance(each, Merge)]


def insights(site: DomainSite) -> set[str]:
    """Return the names of the insights whose results a site's worker computes."""
    return {uid.split("/")[1] for uid in site.worker.insights}


def ids(enabler: EnablerClient) -> set[str]:
    """Return the ids of all deployments that an enabler lists; empty while it cannot answer."""
    try:
        return {each.deployment_id for each in enabler.list()}
    except UnavailableError:
        return set()


def submitted(enabler: EnablerClient, text: str, domain: str) -> str:
    """Submit a text until it belongs to a domain; return the id of the deployment.

    An enabler reads the fabric every half second.
    """

    def belongs() -> str | None:
        deployment = enabler.submit(text).deployment_id
        if enabler.show(deployment).domain == domain:
            return deployment
        enabler.delete(deployment)
        return None

    return eventually(belongs) or ""


def wait_for_deployments(enabler: EnablerClient, *expected: str) -> None:
    def listed() -> bool:
        assert ids(enabler) == set(expected)
        return True

    eventually(listed, timeout=30, what=f"{expected} are listed")


def test_second_enabler_of_a_domain_stands_by_and_stops_nothing(fog: DomainFog) -> None:
    first = fog.a.start_enabler()
    mean = first.submit(MEAN).deployment_id
    eventually(lambda: merges(fog.a, fog.b) and fog.b.worker.fragments)
    fog.wait_for(fog.b, {("a", "all"): True})
    second = fog.b.start_enabler()
    fog.wait_for(fog.b, {("a", "all"): True, ("b", "all"): False})
    # A standby passes every request on.
    assert ids(second) == {mean}
    assert second.show(mean).domain == "all"
    peak = second.submit(PEAK).deployment_id
    assert ids(first) == {mean, peak}
    second.delete(peak)
    assert ids(first) == {mean}
    assert fog.a.worker.stopped == fog.b.worker.stopped == []
    with pytest.raises(NotFoundError):
        second.show("d-unknown")


def test_standby_takes_over_when_a_site_is_gone_and_the_former_one_stands_by(
    fog: DomainFog,
) -> None:
    first = fog.a.start_enabler()
    mean = first.submit(MEAN).deployment_id
    fog.wait_for(fog.b, {("a", "all"): True})
    second = fog.b.start_enabler()
    fog.wait_for(fog.b, {("a", "all"): True, ("b", "all"): False})
    eventually(lambda: merges(fog.a, fog.b))
    former = fog.enablers(fog.b)["a", "all"]
    # Accepted at most a second before the copy.
    peak = first.submit(PEAK).deployment_id

    fog.a.stop()
    killed = time.monotonic()
    fog.wait_for(fog.b, {("b", "all"): True})
    assert time.monotonic() - killed <= 10
    eventually(lambda: "mean" in insights(fog.b))
    eventually(lambda: mean in ids(second))
    assert fog.enablers(fog.b)["b", "all"].generation > former.generation
    eventually(lambda: {each.target.site for each in merges(fog.b)} == {"b"})
    low = second.submit(LOW).deployment_id

    fog.a.start(fog.b)
    back = fog.a.start_enabler()
    fog.wait_for(fog.b, {("a", "all"): False, ("b", "all"): True})
    wait_for_deployments(second, mean, peak, low)
    wait_for_deployments(back, mean, peak, low)
    eventually(lambda: insights(fog.a) | insights(fog.b) == {"mean", "peak", "low"})
    eventually(lambda: {each.target.site for each in merges(fog.a, fog.b)} == {"b"})


def test_deployments_of_both_sides_of_a_split_survive(fog: DomainFog) -> None:
    at_a = fog.a.start_enabler()
    mean = at_a.submit(MEAN).deployment_id
    fog.wait_for(fog.b, {("a", "all"): True})
    at_b = fog.b.start_enabler()
    fog.wait_for(fog.b, {("a", "all"): True, ("b", "all"): False})
    fog.cut()
    fog.wait_for(fog.b, {("b", "all"): True})
    peak = at_a.submit(PEAK).deployment_id
    low = at_b.submit(LOW).deployment_id
    # The worker at a must be dead before its merge moves.
    eventually(lambda: insights(fog.b) == {"mean", "low"}, timeout=60)
    assert ids(at_a) == {mean, peak}

    fog.heal()
    fog.wait_for(fog.a, {("a", "all"): False, ("b", "all"): True})
    for enabler in (at_a, at_b):
        wait_for_deployments(enabler, mean, peak, low)
    # Nothing runs twice.
    eventually(
        lambda: len(merges(fog.a, fog.b)) == 1 and len(merges(fog.a, fog.b)[0].plan.insights) == 3
    )


def test_deployment_belongs_to_the_smallest_domain_with_all_sources(fog: DomainFog) -> None:
    everywhere = fog.a.start_enabler()
    fog.wait_for(fog.b, {("a", "all"): True})
    region = fog.b.start_enabler("north", "b")
    standby = fog.b.start_enabler()
    for site in (fog.a, fog.b):
        fog.wait_for(site, {("a", "all"): True, ("b", "all"): False, ("b", "north"): True})
    here = submitted(everywhere, AT_B, "north")
    both = submitted(region, AT_BOTH, "all")
    eventually(lambda: insights(fog.b) | insights(fog.a) == {"here", "both"})
    fog.a.worker.stopped.clear()
    fog.b.worker.stopped.clear()
    for enabler in (everywhere, region, standby):
        assert enabler.show(here).domain == "north"
        assert enabler.show(both).domain == "all"
        assert ids(enabler) == {here, both}
        assert enabler.results(here).results == []
    eventually(lambda: insights(fog.b) | insights(fog.a) == {"here", "both"})
    assert {fog.b.worker.domains[each.id] for each in fog.b.worker.fragments_of(Whole)} == {"north"}
    assert fog.a.worker.stopped == fog.b.worker.stopped == []
    assert everywhere.explain(AT_B).groups[0].fragments[0].worker == "at-b"
    with pytest.raises(ConflictError, match="outside the domain north"):
        region.amend(here, AT_BOTH)
    with pytest.raises(InvalidQueryError):
        region.submit("x = COMPUTE")
    everywhere.delete(here)
    region.delete(both)
    eventually(lambda: not insights(fog.b) | insights(fog.a))


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(0, id="short"),
        pytest.param(300, marks=[pytest.mark.soak, pytest.mark.timeout(600)], id="long"),
    ],
)
def test_region_that_is_cut_off_rules_itself(fog: DomainFog, seconds: int) -> None:
    everywhere = fog.a.start_enabler()
    fog.wait_for(fog.b, {("a", "all"): True})
    region = fog.b.start_enabler("north", "b")
    fog.wait_for(fog.a, {("a", "all"): True, ("b", "north"): True})
    mean = everywhere.submit(MEAN).deployment_id
    eventually(lambda: merges(fog.a, fog.b))
    fog.cut()
    fog.wait_for(fog.b, {("b", "north"): True})
    fog.wait_for(fog.a, {("a", "all"): True})
    here = region.submit(AT_B).deployment_id
    eventually(lambda: "here" in insights(fog.b))
    assert ids(region) == {here}
    with pytest.raises(UnavailableError, match="outside the domain north"):
        region.submit(PEAK)
    with pytest.raises(UnavailableError, match="do not answer: all"):
        region.show(mean)
    time.sleep(seconds)  # the duration of the cut is what is tested

    fog.heal()
    wait_for_deployments(everywhere, mean, here)
    wait_for_deployments(region, mean, here)
    assert not [each for each in fog.b.worker.stopped if each.startswith("site-b")]


def test_deployment_that_no_worker_can_run_passes_to_the_larger_domain(
    fog: DomainFog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analytics_enabler.domains.escalation.PATIENCE_MS", 1000)
    monkeypatch.setattr("analytics_enabler.domains.escalation._INTERVAL_S", 0.5)
    everywhere = fog.a.start_enabler()
    fog.wait_for(fog.b, {("a", "all"): True})
    region = fog.b.start_enabler("north", "b")
    fog.wait_for(fog.b, {("a", "all"): True, ("b", "north"): True})
    here = submitted(region, AT_B, "north")
    former = region.show(here).insights[0]
    eventually(lambda: "here" in insights(fog.b))
    fog.b.stop_worker()
    eventually(lambda: everywhere.show(here).domain == "all")
    for enabler in (everywhere, region):
        wait_for_deployments(enabler, here)
        assert enabler.show(here).insights[0].since == former.since


def test_lone_region_refuses_what_it_cannot_read(fog: DomainFog) -> None:
    region = fog.b.start_enabler("north", "b")
    with pytest.raises(ConflictError, match="no domain has all sites"):
        region.submit(MEAN)
    assert region.show(region.submit(AT_B).deployment_id).domain == "north"


def test_standby_takes_over_from_an_enabler_that_ends(fog: DomainFog) -> None:
    """An enabler that ends withdraws its announcement, and the workers still know its lease."""
    with fog.b.enabler():
        fog.wait_for(fog.a, {("b", "all"): True})  # so the stream at b is older than the one at a
    with fog.a.enabler() as first:
        mean = first.submit(MEAN).deployment_id
        fog.wait_for(fog.b, {("a", "all"): True})
        second = fog.b.start_enabler()
        fog.wait_for(fog.b, {("a", "all"): True, ("b", "all"): False})
        eventually(lambda: mean in ids(second))
        former = fog.enablers(fog.b)["a", "all"]
    fog.wait_for(fog.b, {("b", "all"): True})
    assert fog.enablers(fog.b)["b", "all"].generation > former.generation
    low = second.submit(LOW).deployment_id
    wait_for_deployments(second, mean, low)
    eventually(lambda: insights(fog.a) | insights(fog.b) == {"mean", "low"})
