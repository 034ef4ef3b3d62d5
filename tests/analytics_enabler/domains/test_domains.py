"""Several enablers in one fog: domains, standby, takeover and splits."""

import time
from contextlib import closing

import pytest

from analytics.client.enabler import EnablerClient
from analytics.insight_models import DeploymentStatus
from analytics.plan.fragments import Merge, Partial, Whole
from analytics.plan.orders import Lease, order_of
from analytics_enabler.domains.role import GRACE_S
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.errors import (
    ConflictError,
    InvalidQueryError,
    NotFoundError,
    PreconditionFailedError,
    ReusedKeyError,
    UnavailableError,
)
from mistbow.streams.events import events_of
from mistbow.streams.schemas import DEPLOYMENTS, domain_stream
from tests.analytics_enabler.domains.conftest import DomainFog, DomainSite
from tests.analytics_enabler.domains.support import (
    AT_B,
    AT_BOTH,
    LOW,
    MEAN,
    PEAK,
    domains,
    ids,
    insights,
    submitted,
    wait_for_deployments,
)
from tests.analytics_enabler.spark_worker import TEST_TIMEOUT_S, eventually
from tests.analytics_enabler.support import without_digest
from tests.oracle.stored_points import compact_key, expected_values, stored_points
from tests.support.sender import Sender
from tests.support.traffic import Traffic

pytestmark = pytest.mark.timeout(TEST_TIMEOUT_S)


def merges(*sites: DomainSite) -> list[Merge]:
    """Return the merges that the workers of sites run."""
    found = [each for site in sites for each in site.worker.fragments_of(Merge)]
    return [each for each in found if isinstance(each, Merge)]


def generations(deployment: DeploymentStatus) -> list[str]:
    """Return the numbers of all generations of a deployment with one insight, in order."""
    uids = [each.uid for each in deployment.insights] + [each.uid for each in deployment.ended]
    return sorted(without_digest(uid).rpartition("/")[2] for uid in uids)


def all_run(fog: DomainFog, number: int) -> bool:
    """Return whether this number of fragments runs, and no other fragment starts."""
    statuses = [*fog.a.worker.statuses.values(), *fog.b.worker.statuses.values()]
    states = [each.state for each in statuses]
    assert states == ["running"] * number
    return True


def was_restarted(fog: DomainFog) -> bool:
    """Return whether a worker has started a partial of a site more than once, or stopped it."""
    for site in (fog.a, fog.b):
        started = [each.id for each in site.worker.started if isinstance(each, Partial)]
        if sorted(started) != sorted(each.id for each in site.worker.fragments_of(Partial)):
            return True
    return False


def copied(site: DomainSite) -> set[str]:
    """Return the ids of the deployments that are stored at a site."""
    client = AgentClient(site.url)
    try:
        events = events_of(client.read(domain_stream(DEPLOYMENTS, "all")).table)
        return {deployment for _, deployment, _ in events}
    except NotFoundError:
        return set()
    finally:
        client.close()


def await_oracle(site: DomainSite, enabler: EnablerClient, deployment: str, until: int) -> None:
    """Wait until an enabler shows the oracle's results of ``AT_B``, at all ticks up to a time (ms).

    Only this site has points.
    """
    (insight,) = enabler.show(deployment).insights
    text = AT_B.replace(" WHEN site == 'b'", "")  # the oracle does not know the site

    def equal() -> bool:
        with closing(AgentClient(site.url)) as agent:
            right = expected_values(text, stored_points(agent, "cpu"), insight.since, until)
        rows = enabler.results(deployment, limit=10_000, end=until).results
        found = {(each.insight, compact_key(each.key), each.ts): each.value for each in rows}
        assert found.keys() == right.keys()
        assert found == pytest.approx(right, rel=1e-9)
        return bool(found)

    eventually(equal, timeout=60, what="the results are the oracle's")


def test_second_enabler_of_a_domain_stands_by_and_stops_nothing(fog: DomainFog) -> None:
    first = fog.a.start_enabler()
    mean = first.submit(MEAN).deployment_id
    eventually(lambda: all_run(fog, 3), timeout=90, what="all fragments run")
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
    assert not was_restarted(fog)
    with pytest.raises(NotFoundError):
        second.show("d-unknown")


@pytest.mark.soak
def test_standby_does_not_take_over_because_its_own_agent_was_away(fog: DomainFog) -> None:
    fog.a.start_enabler()
    fog.wait_for(fog.b, {("a", "all"): True})
    with fog.b.enabler():
        fog.wait_for(fog.b, {("a", "all"): True, ("b", "all"): False})
        before = fog.enablers(fog.b)["b", "all"]
        fog.b.running.close()
        time.sleep(GRACE_S + 1)  # the duration of the absence is what is tested
        # The agent does not reach the other site at once.
        fog.cut()
        fog.b.start_agent(fog.a)
        fog.wait_for(fog.b, {("b", "all"): False})
        fog.heal()
        fog.wait_for(fog.b, {("a", "all"): True, ("b", "all"): False})
        assert fog.enablers(fog.b)["b", "all"].generation <= before.generation


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

    lost = time.monotonic()
    fog.cut()  # so that the enabler withdraws nothing
    fog.a.stop()
    fog.wait_for(fog.b, {("b", "all"): True})
    assert time.monotonic() - lost <= 10
    eventually(lambda: "mean" in insights(fog.b))
    eventually(lambda: mean in ids(second))
    assert fog.enablers(fog.b)["b", "all"].generation > former.generation
    # The decisions of the lost site are there, and the one to take over.
    kinds = [each.kind for each in second.decisions(mean)]
    assert kinds[:2] == ["deployment_submitted", "fragment_placed"]
    took_over = [each for each in second.decisions() if each.kind == "enabler_took_over"]
    assert [each.subject for each in took_over] == ["all"]
    assert "at the site b has taken over" in took_over[0].what
    eventually(lambda: {each.target.site for each in merges(fog.b)} == {"b"})
    low = second.submit(LOW).deployment_id

    fog.heal()
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
    eventually(lambda: copied(fog.b) == {mean}, what="the standby has copied the deployment")
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
    eventually(lambda: [len(each.plan.insights) for each in merges(fog.a, fog.b)] == [3])


@pytest.mark.soak
def test_amendments_and_deletions_of_both_sides_of_a_split_survive(fog: DomainFog) -> None:
    at_a = fog.a.start_enabler()
    texts = {name: f"{name} = COMPUTE AVG(cpu, 2 s) EVERY 1 s" for name in ("amended", "paused")}
    amended, paused = (at_a.submit(text).deployment_id for text in texts.values())
    gone, revived, both_gone = (at_a.submit(MEAN).deployment_id for _ in range(3))
    fog.wait_for(fog.b, {("a", "all"): True})
    at_b = fog.b.start_enabler()
    fog.wait_for(fog.b, {("a", "all"): True, ("b", "all"): False})
    eventually(
        lambda: copied(fog.b) == {amended, paused, gone, revived, both_gone},
        what="the standby has copied all deployments",
    )
    fog.cut()
    fog.wait_for(fog.b, {("b", "all"): True})

    at_a.amend(amended, texts["amended"].replace("AVG", "MAX"))
    at_a.pause(paused)
    at_b.delete(revived)
    at_b.delete(both_gone)
    # Everything below is later than everything above.
    at_b.amend(amended, texts["amended"].replace("AVG", "MIN"))
    at_b.amend(paused, texts["paused"].replace("AVG", "MIN"))
    at_a.amend(revived, PEAK)
    at_a.delete(gone)
    at_a.delete(both_gone)

    fog.heal()
    fog.wait_for(fog.a, {("a", "all"): False, ("b", "all"): True})
    for enabler in (at_b, at_a):
        wait_for_deployments(enabler, amended, paused, revived)
        # The earlier amendment has its results up to the later one.
        eventually(lambda e=enabler: generations(e.show(amended)) == ["1", "2", "2"])  # type: ignore[misc]
        eventually(lambda e=enabler: e.show(paused).status == "paused")  # type: ignore[misc]
        assert "MIN" in enabler.show(amended).queries
        assert "MIN" in enabler.show(paused).queries
        assert enabler.show(revived).queries == PEAK


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
    eventually(lambda: all_run(fog, 4), timeout=90, what="all fragments run")
    started = len(fog.a.worker.started), len(fog.b.worker.started)
    for enabler in (everywhere, region, standby):
        eventually(lambda e=enabler: domains(e, here, both) == ["north", "all"])  # type: ignore[misc]
        wait_for_deployments(enabler, here, both)
        assert enabler.results(here).results == []
    eventually(lambda: insights(fog.b) | insights(fog.a) == {"here", "both"})
    wholes = [each.id for each in fog.b.worker.fragments_of(Whole)]
    assert {fog.b.worker.statuses[each].domain for each in wholes} == {"north"}
    assert (len(fog.a.worker.started), len(fog.b.worker.started)) == started
    assert everywhere.explain(AT_B).groups[0].fragments[0].worker == "at-b"
    followed = region.events(insights=[both])
    problem = next(each for each in followed if each.name == "problem")
    assert "belongs to the domain all: follow its results at http" in problem.data["message"]
    with pytest.raises(ConflictError, match="outside the domain north"):
        region.amend(here, AT_BOTH)
    with pytest.raises(PreconditionFailedError):
        everywhere.amend(here, AT_B, name="new", version="of-nobody")
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
def test_region_that_is_cut_off_plans_its_own_insights(fog: DomainFog, seconds: int) -> None:
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
    with Sender(fog.b.url, Traffic(metrics=("cpu",), rate=10)):
        eventually(
            lambda: region.results(here).results, timeout=90, what="the region answers it alone"
        )
        assert ids(region) == {here}
        with pytest.raises(UnavailableError, match="outside the domain north"):
            region.submit(PEAK)
        with pytest.raises(UnavailableError, match="do not answer: all"):
            region.show(mean)
        time.sleep(seconds)  # the duration of the cut is what is tested
        until = system_clock()
        eventually(
            lambda: max(each.ts for each in region.results(here).results) >= until,
            what="the region answers it until the end of the cut",
        )

        fog.heal()
        wait_for_deployments(everywhere, mean, here)
        wait_for_deployments(region, mean, here)
    for enabler in (region, everywhere):
        await_oracle(fog.b, enabler, here, until)
    started = [each.id for each in fog.b.worker.started if each.id.startswith("site-b")]
    assert len(started) == 1
    assert started[0] in fog.b.worker.fragments


@pytest.mark.soak
def test_enabler_outranks_a_lease_that_nobody_has_any_more(fog: DomainFog) -> None:
    """The enabler with this lease has left for good, and the clock of its site was ahead."""
    enabler = fog.a.start_enabler()
    fog.wait_for(fog.a, {("a", "all"): True})
    former = Lease(fog.enablers(fog.a)["a", "all"].generation + 10**6, 1)
    for site in (fog.a, fog.b):
        site.worker.obey("all", order_of(former, [], frozenset()))
    enabler.submit(MEAN)
    eventually(lambda: all_run(fog, 3), timeout=60, what="the workers obey the enabler")
    eventually(lambda: fog.enablers(fog.a)["a", "all"].generation > former.generation)


@pytest.mark.soak
def test_repeated_submission_finds_its_deployment_in_another_domain(fog: DomainFog) -> None:
    everywhere = fog.a.start_enabler()
    # The enabler of the region is away.
    first = everywhere.submit(AT_B, idempotency_key="once").deployment_id
    fog.wait_for(fog.b, {("a", "all"): True})
    region = fog.b.start_enabler("north", "b")
    for site in (fog.a, fog.b):
        fog.wait_for(site, {("a", "all"): True, ("b", "north"): True})
    # An enabler reads the fabric every half second.
    other = submitted(everywhere, AT_B, "north")
    eventually(lambda: domains(region, first) == ["all"])
    for enabler in (region, everywhere):
        assert enabler.submit(AT_B, idempotency_key="once").deployment_id == first
        assert sorted(each.deployment_id for each in region.list()) == sorted([first, other])
    assert domains(region, first) == ["all"]
    with pytest.raises(ReusedKeyError):
        region.submit(MEAN, idempotency_key="once")


def test_lone_region_refuses_what_it_cannot_read(fog: DomainFog) -> None:
    region = fog.b.start_enabler("north", "b")
    with pytest.raises(ConflictError, match="no domain has all sites"):
        region.submit(MEAN)
    assert region.show(region.submit(AT_B).deployment_id).domain == "north"


def test_standby_takes_over_from_an_enabler_that_ends(fog: DomainFog) -> None:
    """An enabler that ends withdraws its announcement, while the workers still hold its lease."""
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
