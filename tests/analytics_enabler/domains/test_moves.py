"""Moves of deployments to a larger domain: lost answers, refusals, restarts and deletions."""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from analytics.client.enabler import EnablerClient
from analytics_enabler.decision_log import DecisionKind
from analytics_enabler.deployments.model import Deployment, DeploymentSaved, event_from_json
from analytics_enabler.deployments.move import MoveRefusal
from analytics_enabler.domains.directory import KnownEnabler
from analytics_enabler.domains.escalation import Escalation
from analytics_enabler.domains.proxy import DomainProxy
from ignite_server.ports import free_ports
from mistbow.client.agent import AgentClient
from mistbow.errors import NotFoundError, UnavailableError
from mistbow.streams.events import events_of
from mistbow.streams.schemas import DEPLOYMENTS, domain_stream
from tests.analytics_enabler.domains.conftest import DomainFog, DomainSite
from tests.analytics_enabler.domains.support import (
    AT_B,
    MEAN,
    domains,
    ids,
    insights,
    submitted,
    wait_for_deployments,
)
from tests.analytics_enabler.spark_worker import TEST_TIMEOUT_S, eventually
from tests.support.services import Service

pytestmark = pytest.mark.timeout(TEST_TIMEOUT_S)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let enablers of this process move deployments after a second."""
    monkeypatch.setattr("analytics_enabler.domains.escalation.PATIENCE_MS", 1000)
    monkeypatch.setattr("analytics_enabler.domains.escalation._INTERVAL_S", 0.5)


class Adoptions:
    """Stands before ``DomainProxy.adopt``, and stops it on demand; counts the calls.

    ``stop_at``: ``before`` or ``after`` the other enabler has the deployment.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._adopt = DomainProxy.adopt
        self.stop_at: str | None = None
        self.stopped = threading.Event()
        self.count = 0
        adoptions = self

        async def adopt(self: DomainProxy, to: KnownEnabler, deployment: Deployment) -> None:
            await adoptions.run(self, to, deployment)

        monkeypatch.setattr(DomainProxy, "adopt", adopt)

    async def run(self, proxy: DomainProxy, to: KnownEnabler, deployment: Deployment) -> None:
        """Adopt a deployment, or wait before or after that until the enabler ends."""
        self.count += 1
        stop_at = self.stop_at
        if stop_at == "before":
            self.stopped.set()
            await asyncio.Event().wait()
        await self._adopt(proxy, to, deployment)
        if stop_at == "after":
            self.stopped.set()
            await asyncio.Event().wait()


@pytest.fixture
def adoptions(hasty: None, monkeypatch: pytest.MonkeyPatch) -> Adoptions:
    return Adoptions(monkeypatch)


def moves(site: DomainSite, domain: str) -> dict[str, list[bool]]:
    """Return the states in the stream of a domain at a site: key -> whether a move was pending."""
    client = AgentClient(site.url)
    try:
        rows = client.read(domain_stream(DEPLOYMENTS, domain))
    except NotFoundError:
        return {}
    finally:
        client.close()
    found: defaultdict[str, list[bool]] = defaultdict(list)
    for _, key, text in events_of(rows.table):
        event = event_from_json(text)
        move = event.deployment.pending_move if isinstance(event, DeploymentSaved) else None
        found[key].append(move is not None)
    return found


def move_is_stored(site: DomainSite, domain: str) -> bool:
    """Return whether a move is pending by the stream of a domain at a site."""
    return any(states[-1] for states in moves(site, domain).values())


def move_was_stored(site: DomainSite, domain: str) -> bool:
    """Return whether a move is or was pending: a quick one may end between two looks."""
    return any(any(states) for states in moves(site, domain).values())


def belongs_to(deployment: str, domain: str, *enablers: EnablerClient) -> None:
    """Wait until all enablers list a deployment once, in a domain."""

    def once() -> bool:
        try:
            found = [[e.domain for e in each.list() if e.deployment_id == deployment]
                     for each in enablers]  # fmt: skip
        except UnavailableError:  # a standby takes over
            return False
        assert found == [[domain]] * len(enablers)
        return True

    eventually(once, what=f"{deployment} belongs to {domain}")


def kinds(enabler: EnablerClient, deployment: str) -> list[str]:
    """Return the kinds of the decisions about a deployment."""
    return [each.kind for each in enabler.show(deployment).decisions]


def two_enablers(fog: DomainFog) -> tuple[EnablerClient, EnablerClient]:
    """Start the enablers of the domains ``all`` and ``north``, which know each other."""
    everywhere = fog.a.start_enabler()
    fog.wait_for(fog.b, {("a", "all"): True})
    region = fog.b.start_enabler("north", "b")
    fog.wait_for(fog.b, {("a", "all"): True, ("b", "north"): True})
    return everywhere, region


@contextmanager
def stopped_move(
    fog: DomainFog, adoptions: Adoptions, step: str
) -> Iterator[tuple[EnablerClient, EnablerClient, str]]:
    """Stop the move of a deployment at a step; stop the enabler of ``north`` after the ``with``.

    Yields the enablers of the domains ``all`` and ``north``, and the id of the deployment.
    ``step``: ``before`` or ``after`` the domain ``all`` has the deployment.
    """
    everywhere = fog.a.start_enabler()
    fog.wait_for(fog.b, {("a", "all"): True})
    adoptions.stop_at = step
    with fog.b.enabler("north", "b") as region:
        fog.wait_for(fog.b, {("a", "all"): True, ("b", "north"): True})
        here = submitted(region, AT_B, "north")
        eventually(lambda: "here" in insights(fog.b))
        fog.b.worker.stop()
        eventually(adoptions.stopped.is_set, what="the move has reached the step")
        yield everywhere, region, here


def test_deployment_that_no_worker_can_run_passes_to_the_larger_domain(
    fog: DomainFog, hasty: None
) -> None:
    everywhere, region = two_enablers(fog)
    here = submitted(region, AT_B, "north")
    former = region.show(here).insights[0]
    eventually(lambda: "here" in insights(fog.b))
    fog.b.worker.stop()
    eventually(lambda: (here, "all") in [(d.deployment_id, d.domain) for d in everywhere.list()])
    for enabler in (everywhere, region):
        wait_for_deployments(enabler, here)
        assert enabler.show(here).insights[0].since == former.since


def test_deployment_whose_move_was_not_answered_belongs_to_one_domain(
    fog: DomainFog, hasty: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    adopted, is_back = threading.Event(), threading.Event()
    adopt = DomainProxy.adopt

    async def adopt_without_answer(
        self: DomainProxy, to: KnownEnabler, deployment: Deployment
    ) -> None:
        await adopt(self, to, deployment)
        if not adopted.is_set():
            adopted.set()
            await asyncio.to_thread(is_back.wait, TEST_TIMEOUT_S)
            raise UnavailableError("the answer was lost")

    monkeypatch.setattr(DomainProxy, "adopt", adopt_without_answer)
    everywhere, region = two_enablers(fog)
    here = submitted(region, AT_B, "north")
    eventually(lambda: "here" in insights(fog.b))
    fog.b.worker.stop()
    eventually(adopted.is_set, what="the larger domain has the deployment")
    fog.b.worker.start(fog.b.url)
    eventually(lambda: [each.node for each in region.show(here).placement] == ["at-b"])
    is_back.set()
    eventually(lambda: domains(region, here) == domains(everywhere, here) == ["all"])
    eventually(lambda: {each.domain for each in fog.b.worker.statuses.values()} == {"all"})


@pytest.mark.parametrize("step", ["before", "after"])
def test_move_continues_after_a_restart_of_the_enabler(
    fog: DomainFog, adoptions: Adoptions, step: str
) -> None:
    with stopped_move(fog, adoptions, step) as (everywhere, region, here):
        former = region.show(here).insights[0]
    assert move_is_stored(fog.b, "north")
    adoptions.stop_at = None
    # A worker that is back does not end the move: the larger domain may have the deployment.
    fog.b.worker.start(fog.b.url)
    region = fog.b.start_enabler("north", "b")
    belongs_to(here, "all", everywhere, region)
    assert everywhere.show(here).insights[0].since == former.since
    assert not move_is_stored(fog.b, "north")


@pytest.mark.soak
def test_move_continues_at_the_standby_that_takes_over(
    fog: DomainFog, adoptions: Adoptions
) -> None:
    everywhere = fog.a.start_enabler()
    fog.wait_for(fog.b, {("a", "all"): True})
    adoptions.stop_at = "after"
    with fog.b.enabler("north", "b") as region:
        fog.wait_for(fog.a, {("a", "all"): True, ("b", "north"): True})
        standby = fog.a.start_enabler("north", "b")
        here = submitted(region, AT_B, "north")
        eventually(lambda: "here" in insights(fog.b))
        fog.b.worker.stop()
        eventually(adoptions.stopped.is_set, what="the move has begun")
        eventually(lambda: move_is_stored(fog.a, "north"), what="the standby has copied the move")
    adoptions.stop_at = None
    belongs_to(here, "all", everywhere, standby)


@pytest.mark.soak
def test_stored_move_continues_after_a_kill(fog: DomainFog) -> None:
    everywhere = fog.a.start_enabler()
    fog.wait_for(fog.b, {("a", "all"): True})
    with region_process(fog.b) as (region, service):
        here = submitted(region, AT_B, "north")
        eventually(lambda: "here" in insights(fog.b))
        fog.b.worker.stop()
        eventually(lambda: move_was_stored(fog.b, "north"), timeout=90, what="the move is stored")
        service.kill()
        service.start()
        belongs_to(here, "all", everywhere, region)


@pytest.mark.soak
def test_deployment_that_is_deleted_during_its_move_is_deleted_in_both_domains(
    fog: DomainFog, adoptions: Adoptions
) -> None:
    with stopped_move(fog, adoptions, "after") as (everywhere, region, here):
        region.delete(here)
    adoptions.stop_at = None
    region = fog.b.start_enabler("north", "b")
    for enabler in (everywhere, region):
        wait_for_deployments(enabler)


@pytest.mark.soak
def test_deployment_that_the_larger_domain_deletes_does_not_come_back(
    fog: DomainFog, adoptions: Adoptions
) -> None:
    with stopped_move(fog, adoptions, "after") as (everywhere, _, here):
        pass
    everywhere.delete(here)
    adoptions.stop_at = None
    region = fog.b.start_enabler("north", "b")
    eventually(lambda: ids(region) == set(), what="the move is complete")
    assert ids(everywhere) == set()


def test_refused_move_is_shown_and_repeated_only_after_a_change(
    fog: DomainFog, adoptions: Adoptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analytics_enabler.deployments.service.MAX_INSIGHTS", 1)
    with fog.a.enabler() as everywhere:
        fog.wait_for(fog.b, {("a", "all"): True})
        mean = everywhere.submit(MEAN).deployment_id
        region = fog.b.start_enabler("north", "b")
        fog.wait_for(fog.b, {("a", "all"): True, ("b", "north"): True})
        here = submitted(region, AT_B, "north")
        eventually(lambda: "here" in insights(fog.b))
        fog.b.worker.stop()
        eventually(lambda: refusal_of(region, here), what="the refusal is shown")
        assert "(409): 2 insights would run; the maximum is 1" in refusal_of(region, here)
        error = region.show(here).error or ""
        assert "the domain all does not take over the deployment" in error
        assert "The move is tried again when the deployment is amended" in error
        moving = [DecisionKind.DEPLOYMENT_MOVING, DecisionKind.DEPLOYMENT_REFUSED]
        assert kinds(region, here)[-2:] == moving
        checks = count_checks(monkeypatch)
        eventually(lambda: checks() >= 4, what="the refused move was looked at again")
        assert adoptions.count == 1
        region.amend(here, AT_B.replace("AVG", "MAX"))
        eventually(lambda: adoptions.count == 2, what="the amended deployment is sent")
        eventually(lambda: kinds(region, here)[-1] == DecisionKind.DEPLOYMENT_REFUSED)
        everywhere.delete(mean)
    # The enabler of the larger domain returns with another lease, and has capacity now.
    again = fog.a.start_enabler()
    belongs_to(here, "all", again, region)
    assert "MAX" in again.show(here).queries
    assert adoptions.count == 3


@pytest.mark.soak
def test_refused_move_ends_when_a_worker_is_back(
    fog: DomainFog, adoptions: Adoptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analytics_enabler.deployments.service.MAX_INSIGHTS", 1)
    everywhere = fog.a.start_enabler()
    fog.wait_for(fog.b, {("a", "all"): True})
    everywhere.submit(MEAN)
    region = fog.b.start_enabler("north", "b")
    fog.wait_for(fog.b, {("a", "all"): True, ("b", "north"): True})
    here = submitted(region, AT_B, "north")
    eventually(lambda: "here" in insights(fog.b))
    fog.b.worker.stop()
    eventually(lambda: refusal_of(region, here), what="the larger domain refuses the deployment")
    fog.b.worker.start(fog.b.url)
    eventually(lambda: region.show(here).move is None, what="the move has ended")
    assert kinds(region, here).count(DecisionKind.DEPLOYMENT_STAYED) == 1
    assert domains(region, here) == ["north"]


def refusal_of(enabler: EnablerClient, deployment: str) -> str:
    """Return why the move of a deployment was refused; empty: it was not."""
    move = enabler.show(deployment).move
    return "" if move is None else move.refusal or ""


def count_checks(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return a function that returns how often enablers have considered a refused move."""
    has_changed, count = Escalation._has_changed, 0

    def counted(
        self: Escalation, deployment: Deployment, refusal: MoveRefusal, to: KnownEnabler
    ) -> bool:
        nonlocal count
        count += 1
        return has_changed(self, deployment, refusal, to)

    monkeypatch.setattr(Escalation, "_has_changed", counted)
    return lambda: count


@contextmanager
def region_process(site: DomainSite) -> Iterator[tuple[EnablerClient, Service]]:
    """Run the enabler of the domain ``north`` of a site as a process within the ``with``."""
    [port] = free_ports(1)
    service = Service(
        "analytics_enabler",
        port,
        {
            "home": site.home / "north", "agent_url": site.url, "enabler_port": port,
            "enabler_url": f"http://127.0.0.1:{port}", "domain": "north", "domain_sites": "b",
            "log_level": "warning",
        },
    )  # fmt: skip
    service.start()
    client = EnablerClient(service.url)
    try:
        yield client, service
    finally:
        client.close()
        service.stop()
