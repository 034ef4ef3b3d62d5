"""The rules that find the problems of a domain, of its sites and of its insights.

The texts contain no figures that change often, because each change is sent to all followers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from analytics.fog_models import FogFragment, FogLink, FogNode
from analytics.health_models import Problem, ProblemKind, Severity
from analytics.insight_models import DeploymentStatus
from mistbow.client.operation_model import SiteStatus, problem_and_remedy
from mistbow.expiry import announced_expiry_text
from mistbow.fabric import Site
from mistbow.first_names import first_names
from mistbow.runtime.tasks import end_of_task

FULL_SHARE = 0.1
"""The share of a worker's cores or memory below which it counts as full."""

LOSSY = 0.05
"""The minimum share of lost heartbeats of a lossy link."""

LAG_MS = 5000
"""The maximum lag (ms) of a fragment that is not lagging."""

Service = Literal["agent", "worker", "enabler"]
"""The kinds of services whose identities and certificates expire."""

_MAX_NAMED = 3
_ADD_CAPACITY = "add a worker, or pause insights of low salience"
_STATES: Mapping[str, tuple[Severity, ProblemKind, str]] = {
    "failed": (
        "error",
        "insight_failed",
        "Read the log of its worker, which retries. If the text is the cause, amend the insight.",
    ),
    "placing": (
        "error",
        "insight_unplaced",
        "Start a worker, or pause insights of low salience. The enabler places the insight "
        "as soon as a worker can run it.",
    ),
    "shed": (
        "warning",
        "insight_shed",
        f"Its worker is overloaded: {_ADD_CAPACITY}. The insight resumes when there is capacity.",
    ),
    "lagging": (
        "warning",
        "insight_lagging",
        f"If this lasts, {_ADD_CAPACITY}.",
    ),
    "degraded": (
        "warning",
        "insight_degraded",
        "Check the named sites. Results continue without these sites, and are corrected when they "
        "return.",
    ),
}
_INCOMPLETE: tuple[Severity, ProblemKind, str] = (
    "warning",
    "insight_incomplete",
    "Solve the named problem. Results are then completed.",
)


@dataclass(frozen=True, slots=True)
class SiteParts:
    """The parts of a site: its workers, its outgoing links, and the fragments that run there.

    ``status``: the status of its agent; None: the agent has not reported one.
    """

    nodes: Sequence[FogNode] = ()
    links: Sequence[FogLink] = ()
    fragments: Sequence[FogFragment] = ()
    status: SiteStatus | None = None


def site_problems(site: Site, parts: SiteParts, now: int) -> Iterator[Problem]:
    """Yield the problems of a site: of its agent, its workers, its links, and its fragments.

    ``now``: the time in ms.
    """
    if not site.reachable:
        yield _silent(site)
        if site.identity_expires is not None and site.identity_expires <= now:
            # The expiry is the reason of the silence.
            yield from _of_identity(site, "agent", site.name, site.identity_expires, now)
        return
    if parts.status is not None:
        yield from _of_agent(parts.status)
    yield from _of_expiries(site, now)
    for worker in site.workers:
        if worker.suspected:
            yield _problem(
                "warning", "worker_suspected", worker.name, site.name,
                f"the worker {worker.name} sends no announcements",
                "If it does not return, read its log. Its fragments then move to other workers.",
            )  # fmt: skip
        if worker.limit is not None:
            yield _problem(
                "warning", "worker_limited", worker.name, site.name,
                f"the worker {worker.name} was killed for lack of memory, and runs at most "
                f"{worker.limit.fragments} fragments now",
                "Give the worker more memory, or add a worker.",
            )  # fmt: skip
    for node in parts.nodes:
        yield from _of_capacity(node)
    lossy = sorted(link.target for link in parts.links if link.loss >= LOSSY)
    if lossy:
        yield _problem(
            "warning", "lossy_links", site.name, site.name,
            f"packets from {site.name} to {_names(lossy)} are lost",
            "Check the network between these sites.",
        )  # fmt: skip
    if any(each.lag_ms is not None and each.lag_ms > LAG_MS for each in parts.fragments):
        yield _problem(
            "warning", "fragments_lagging", site.name, site.name,
            f"fragments at {site.name} lag: their workers are slow or overloaded",
            f"If this lasts, {_ADD_CAPACITY}.",
        )  # fmt: skip


def _silent(site: Site) -> Problem:
    if site.suspected:
        return _problem(
            "warning", "site_suspected", site.name, site.name,
            f"the site {site.name} has not answered for a few seconds",
            "If this lasts, check its machine and its network.",
        )  # fmt: skip
    return _problem(
        "error", "site_silent", site.name, site.name, f"the site {site.name} does not answer",
        "Check its machine, its storage agent, and its network. Its workers continue, and results "
        "are corrected when it returns.",
    )  # fmt: skip


def _of_agent(status: SiteStatus) -> Iterator[Problem]:
    for text in status.waiting_for:
        yield _problem(
            "error", "agent_waiting", status.site, status.site,
            f"the storage agent of {status.site} waits for {text}",
            "Read the logs of the storage agent and of Ignite.",
        )  # fmt: skip
    for text in status.warnings:
        what, remedy = problem_and_remedy(text)
        yield _problem(
            "warning", "agent_warning", status.site, status.site,
            f"the storage agent of {status.site} warns: {what}",
            remedy or "Read its log.",
        )  # fmt: skip


def _of_expiries(site: Site, now: int) -> Iterator[Problem]:
    """Yield the identities of a site's services, and the certificates of its workers, that expire
    soon; the certificate of its agent is a warning of the agent.
    """
    # The expired identities follow, including those of services that are gone.
    identities: list[tuple[Service, str, int | None]] = [
        *(("worker", each.name, each.identity_expires) for each in site.workers),
        *(("enabler", each.domain, each.identity_expires) for each in site.enablers),
    ]
    present = [each for each in identities if each[2] is None or each[2] > now]
    for service, name, end in (("agent", site.name, site.identity_expires), *present):
        yield from _of_identity(site, service, name, end, now)
    yield from _of_expired(site, now)
    for worker in site.workers:
        if (expiry := announced_expiry_text(worker.certificate_expires, now)) is not None:
            yield _problem(
                "warning", "certificate_expires", worker.name, site.name,
                f"the certificate of the worker {worker.name} {expiry}",
                "Issue it again (mistbow ca issue), and copy it to the worker.", "worker",
            )  # fmt: skip


def _of_expired(site: Site, now: int) -> Iterator[Problem]:
    """Yield the expired identities of a site's workers and enablers."""
    ends = {(each.kind, each.service): each.expired for each in site.expired_identities}
    for (service, name), end in ends.items():
        yield from _of_identity(site, service, name, end, now)


def _of_identity(
    site: Site, service: Service, name: str, end: int | None, now: int
) -> Iterator[Problem]:
    """Yield the problem of an identity that has expired, at ``end`` (ms), or that expires soon."""
    owner = {
        "agent": f"the storage agent of {site.name}",
        "worker": f"the worker {name}",
        "enabler": f"the enabler of {name} at {site.name}",
    }[service]
    is_past = end is not None and end <= now
    if (expiry := announced_expiry_text(end, now)) is not None:
        effect = "; other services refuse it" if is_past else ""
        problem = _problem(
            "error" if is_past else "warning", "identity_expires", name, site.name,
            f"the identity of {owner} {expiry}{effect}",
            "Issue it again (mistbow identity issue), and copy it to the service.", service,
        )  # fmt: skip
        yield problem.model_copy(update={"since": end}) if is_past else problem


def _of_capacity(node: FogNode) -> Iterator[Problem]:
    if node.cores > 0 and node.cores_free / node.cores < FULL_SHARE:
        yield _problem(
            "warning", "no_free_cores", node.name, node.site,
            f"the worker {node.name} has no free cores",
            f"If insights lag, {_ADD_CAPACITY}.",
        )  # fmt: skip
    if node.memory_mb > 0 and node.memory_free_mb / node.memory_mb < FULL_SHARE:
        yield _problem(
            "warning", "no_free_memory", node.name, node.site,
            f"the worker {node.name} has no free memory",
            "If insights wait for a worker, add a worker with more memory.",
        )  # fmt: skip


def insight_problems(deployments: Iterable[DeploymentStatus]) -> list[Problem]:
    """Return the problems of insights; insights with the same state and cause share a problem."""
    found: dict[tuple[str, str], list[tuple[str, int | None]]] = {}
    for deployment in deployments:
        for insight in deployment.insights:
            state = insight.present_lifecycle.state
            if state == "paused" or (state not in _STATES and insight.error is None):
                continue
            cause = insight.error or ", ".join(each.site for each in insight.missing_sites)
            name = f"{deployment.deployment_id}/{insight.name}"
            found.setdefault((state, cause), []).append((name, insight.present_lifecycle.since))
    return [_of_insights(state, cause, each) for (state, cause), each in found.items()]


def _of_insights(state: str, cause: str, insights: Sequence[tuple[str, int | None]]) -> Problem:
    severity, kind, action = _STATES.get(state, _INCOMPLETE)
    names = _names([name.partition("/")[2] for name, _ in insights])
    verb = "is" if len(insights) == 1 else "are"
    what = f"{names} {verb} {'incomplete' if state not in _STATES else state}"
    since = min((at for _, at in insights if at is not None), default=None)
    return Problem(
        severity=severity,
        kind=kind,
        subject=insights[0][0],
        site=None,
        what=f"{what}: {cause}" if cause else what,
        since=since,
        action=action,
    )


def enabler_problems(
    waiting_for: Iterable[str],
    warnings: Iterable[str],
    certificates: Iterable[str] = (),
    identity: Iterable[str] = (),
    ended_tasks: Iterable[str] = (),
) -> Iterator[Problem]:
    """Yield the problems of the enabler itself.

    ``certificates``: its warnings of certificates. ``identity``: why other services refuse it.
    ``ended_tasks``: the names of its background tasks that have ended.
    """
    for text in waiting_for:
        yield _problem(
            "error", "enabler_waiting", "enabler", None, f"the enabler waits: {text}",
            "Check the named service, and the log of the enabler.",
        )  # fmt: skip
    for text in warnings:
        yield _problem(
            "warning", "enabler_warning", "enabler", None, text,
            "Correct the setting, and restart the enabler.",
        )  # fmt: skip
    for text in certificates:
        what, remedy = problem_and_remedy(text)
        yield _problem(
            "warning", "certificate_expires", "enabler", None, f"the enabler warns: {what}",
            remedy, "enabler",
        )  # fmt: skip
    for text in identity:
        yield _problem(
            "error", "identity_expires", "enabler", None,
            f"other services refuse the enabler: {text.partition(';')[0]}",
            "Issue its identity again (mistbow identity issue), and copy it to the enabler.",
            "enabler",
        )  # fmt: skip
    for name in ended_tasks:
        what, remedy = problem_and_remedy(end_of_task(name))
        yield _problem("error", "enabler_warning", name, None, what, remedy)


def onset_key(problem: Problem) -> tuple[str | None, ...]:
    """Return the key of a problem, which does not depend on the time of its observation."""
    return problem.kind, problem.service, problem.site, problem.subject


def unknown_fabric() -> Problem:
    """Return the problem of an enabler that has not read the sites yet."""
    return _problem(
        "error", "fabric_unknown", "enabler", None, "the enabler has not read the sites yet",
        "If this lasts, check the storage agent of its site.",
    )  # fmt: skip


def _problem(
    severity: Severity,
    kind: ProblemKind,
    subject: str,
    site: str | None,
    what: str,
    action: str,
    service: Service | None = None,
) -> Problem:
    return Problem(
        severity=severity, kind=kind, subject=subject, site=site, service=service, what=what,
        since=None, action=action,
    )  # fmt: skip


def _names(names: Sequence[str]) -> str:
    """Return some names as a phrase.

    >>> _names(["a"]), _names(["a", "b"]), _names(["a", "b", "c", "d", "e"])
    ('a', 'a and b', 'a, b, c and 2 more')
    """
    if len(names) > _MAX_NAMED:
        return first_names(names, _MAX_NAMED)
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
