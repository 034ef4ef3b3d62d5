"""The rules of health: the problems of sites and insights, and their remedies."""

from typing import Any

import pytest
from msgspec.structs import replace

from analytics.fog_models import FogFragment, FogLink, FogNode
from analytics.insight_models import DeploymentStatus
from analytics_enabler.live.problems import (
    SiteParts,
    enabler_problems,
    insight_problems,
    onset_key,
    site_problems,
)
from mistbow.client.operation_model import SiteStatus
from mistbow.fabric import Enabler, ExpiredIdentity, FragmentLimit, Site, Worker
from tests.command_line.test_top import FRAGMENT, NODE, deployment

WORKER = Worker(
    name="w1", url="http://w1", cores=4, memory_mb=4096, cores_free=1, memory_free_mb=1024
)
NOW = 1_790_000_000_000
SOON = NOW + 20 * 86_400_000
PAST = NOW - 86_400_000
FAR = NOW + 40 * 86_400_000
LIMIT = FragmentLimit(fragments=2, killed_at=1, ran=3, until=9)


def site(**fields: Any) -> Site:
    return Site(name="edge", node="edge", url="http://edge", **fields)


def parts(status: SiteStatus | None = None, **changed: Any) -> SiteParts:
    node = FogNode.model_validate({**NODE, **changed})
    return SiteParts(nodes=[node], status=status)


def link(target: str, loss: float) -> FogLink:
    return FogLink(source="edge", target=target, latency_ms=1, bandwidth_mbps=None, loss=loss)


def status(**fields: Any) -> SiteStatus:
    return SiteStatus(site="edge", node="edge", **fields)


def test_site_without_problems_has_none() -> None:
    fragment = FogFragment.model_validate(FRAGMENT)
    well = SiteParts([FogNode.model_validate(NODE)], [link("b", 0.01)], [fragment], status())
    worker = replace(WORKER, identity_expires=FAR, certificate_expires=FAR)
    assert list(site_problems(site(workers=(worker,), identity_expires=FAR), well, NOW)) == []


@pytest.mark.parametrize(
    ("at", "having", "kind", "severity", "word"),
    [
        (site(reachable=False), SiteParts(), "site_silent", "error", "edge"),
        (
            site(reachable=False, suspected=True), SiteParts(), "site_suspected", "warning", "edge",
        ),
        (site(), parts(status(waiting_for=("Ignite",))), "agent_waiting", "error", "Ignite"),
        (
            site(), parts(status(warnings=("the disk has 9 MB left: free some",))),
            "agent_warning", "warning", "9 MB",
        ),
        (site(), parts(cores_free=0.3), "no_free_cores", "warning", "w1"),
        (site(), parts(memory_free_mb=300), "no_free_memory", "warning", "w1"),
        (site(), SiteParts(links=[link("b", 0.05)]), "lossy_links", "warning", "to b"),
        (
            site(),
            SiteParts(fragments=[FogFragment.model_validate({**FRAGMENT, "lag_ms": 6000})]),
            "fragments_lagging", "warning", "edge",
        ),
        (
            site(workers=(replace(WORKER, suspected=True),)), SiteParts(),
            "worker_suspected", "warning", "w1",
        ),
        (
            site(workers=(replace(WORKER, limit=LIMIT),)), SiteParts(),
            "worker_limited", "warning", "2 fragments",
        ),
        (
            site(identity_expires=SOON), SiteParts(), "identity_expires", "warning",
            "the storage agent of edge expires on 2026-10-11",
        ),
        (
            site(workers=(replace(WORKER, identity_expires=SOON),)), SiteParts(),
            "identity_expires", "warning", "the worker w1 expires",
        ),
        (
            site(enablers=(Enabler(domain="n", url="http://e", identity_expires=SOON),)),
            SiteParts(), "identity_expires", "warning", "the enabler of n at edge",
        ),
        (
            site(workers=(replace(WORKER, certificate_expires=SOON),)), SiteParts(),
            "certificate_expires", "warning", "the certificate of the worker w1",
        ),
    ],
)  # fmt: skip
def test_problem_of_a_site_is_found(
    at: Site, having: SiteParts, kind: str, severity: str, word: str
) -> None:
    [problem] = site_problems(at, having, NOW)
    assert (problem.kind, problem.severity, problem.site) == (kind, severity, "edge")
    assert word in problem.what
    assert problem.action.endswith(".")


def test_silent_site_has_no_other_problem() -> None:
    having = parts(status(waiting_for=("Ignite",)), cores_free=0)
    [problem] = site_problems(site(reachable=False), having, NOW)
    assert problem.kind == "site_silent"


def test_expired_identities_are_errors_since_their_expiry_with_a_remedy() -> None:
    expired = tuple(
        ExpiredIdentity(kind=kind, service=service, expired=PAST)
        for kind, service in (("worker", "w1"), ("worker", "gone"), ("enabler", "n"))
    )
    # The worker w1 still announces itself; the others are gone.
    of_worker = replace(WORKER, identity_expires=PAST)
    at = site(workers=(of_worker,), identity_expires=PAST, expired_identities=expired)
    found = list(site_problems(at, SiteParts(), NOW))
    assert {(each.kind, each.severity, each.since) for each in found} == {
        ("identity_expires", "error", PAST)
    }
    assert [(each.service, each.subject) for each in found] == [
        ("agent", "edge"), ("worker", "w1"), ("worker", "gone"), ("enabler", "n"),
    ]  # fmt: skip
    assert all("expired on 2026-09-2" in each.what for each in found)
    assert all("mistbow identity issue" in each.action for each in found)


def test_expired_identity_of_a_silent_agent_is_a_problem_too() -> None:
    at = site(reachable=False, identity_expires=PAST)
    silent, expired = site_problems(at, SiteParts(), NOW)
    assert (silent.kind, expired.kind, expired.since) == ("site_silent", "identity_expires", PAST)
    [silent] = site_problems(replace(at, identity_expires=SOON), SiteParts(), NOW)
    assert silent.kind == "site_silent"


def test_services_of_one_name_have_problems_of_their_own() -> None:
    worker = replace(WORKER, name="edge", identity_expires=SOON)
    enabler = Enabler(domain="edge", url="http://e", identity_expires=SOON)
    at = site(workers=(worker,), enablers=(enabler,), identity_expires=SOON)
    found = list(site_problems(at, SiteParts(), NOW))
    assert {(each.kind, each.subject) for each in found} == {("identity_expires", "edge")}
    assert len({onset_key(each) for each in found}) == len(found) == 3


def test_refused_enabler_is_an_error() -> None:
    what = "the identity of the enabler e expired on 2026-10-11"
    [found] = enabler_problems((), (), (), [f"{what}; issue it again: mistbow identity issue"])
    assert (found.kind, found.severity) == ("identity_expires", "error")
    assert found.what == f"other services refuse the enabler: {what}"


def test_remedy_of_an_agents_warning_follows_its_colon() -> None:
    having = parts(status(warnings=("the disk has 9 MB left: free some",)))
    [problem] = site_problems(site(), having, NOW)
    assert problem.what.endswith("the disk has 9 MB left")
    assert problem.action == "Free some."


@pytest.mark.parametrize(
    ("deployed", "kind", "what"),
    [
        (deployment("failed", error="it fails"), "insight_failed", "a is failed: it fails"),
        (deployment("placing", error="no worker"), "insight_unplaced", "a is placing: no worker"),
        (
            deployment("degraded", missing_sites=[{"site": "far", "since": None, "why": ""}]),
            "insight_degraded",
            "a is degraded: far",
        ),
        (deployment("running", error="far is away"), "insight_incomplete", "a is incomplete: far "),
    ],
)
def test_problem_of_an_insight_is_found(deployed: Any, kind: str, what: str) -> None:
    [problem] = insight_problems([DeploymentStatus.model_validate(deployed)])
    assert (problem.kind, problem.subject) == (kind, "d-1/a")
    assert problem.what.startswith(what)
    assert problem.since == deployed["insights"][0]["lifecycle"]["since"]


@pytest.mark.parametrize("state", ["running", "paused", "correcting", "adapting", "starting"])
def test_healthy_insight_is_no_problem(state: str) -> None:
    assert insight_problems([DeploymentStatus.model_validate(deployment(state))]) == []


def test_common_cause_of_insights_is_one_problem() -> None:
    deployed = deployment("failed", error="the worker is away")
    deployed["insights"] *= 5
    [problem] = insight_problems([DeploymentStatus.model_validate(deployed)])
    assert problem.what == "a, a, a and 2 more are failed: the worker is away"


def test_wait_of_the_enabler_is_an_error_and_its_warning_is_not() -> None:
    found = enabler_problems(["the deployments"], ["the scheduler nope is not installed"])
    assert [each.severity for each in found] == ["error", "warning"]


def test_certificate_of_the_enabler_is_a_problem_with_its_remedy() -> None:
    text = "the certificate in e.pem expires on 2026-10-11: issue it again"
    [found] = enabler_problems((), (), [text])
    assert (found.kind, found.severity) == ("certificate_expires", "warning")
    assert found.what == "the enabler warns: the certificate in e.pem expires on 2026-10-11"
    assert found.action == "Issue it again."


def test_background_task_of_the_enabler_that_has_ended_is_an_error_with_its_remedy() -> None:
    [found] = enabler_problems((), (), ended_tasks=["live topics"])
    assert (found.severity, found.subject) == ("error", "live topics")
    assert found.what == "the background task 'live topics' has ended"
    assert found.action.startswith("Restart this service")
