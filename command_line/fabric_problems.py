"""The problems of a fabric, and their remedies."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from analytics.insight_models import DeploymentStatus, InsightStatus
from mistbow.client.operation_model import Cluster, SiteStatus, problem_and_remedy
from mistbow.expiry import announced_expiry_text
from mistbow.fabric import Fabric, Site, SiteLink, Worker

MAX_LAG_MS = 30_000
_MAX_LOSS = 0.05
_STOPPED = ("failed", "placing", "shed")


class Problem(msgspec.Struct, frozen=True):
    """A problem of a fabric: its subject, its description, and its remedy."""

    where: str
    what: str
    action: str


@dataclass(frozen=True, slots=True)
class FabricReport:
    """The state of a fabric at one moment.

    ``statuses``, ``clusters``: by site, of the sites that answered. ``silent``: site -> the error
    of a site that did not answer. ``deployments``: None: no enabler answered, because of
    ``enabler_error``.
    """

    fabric: Fabric
    statuses: Mapping[str, SiteStatus]
    clusters: Mapping[str, Cluster]
    silent: Mapping[str, str]
    deployments: Sequence[DeploymentStatus] | None
    enabler_error: str = ""


def find_problems(report: FabricReport, now: int) -> list[Problem]:
    """Return the problems of a fabric: of sites, workers, links, and insights; ``now``: in ms."""
    problems: list[Problem] = []
    for site in report.fabric.sites:
        problems += _of_site(site, report)
        problems += _of_expiries(site, now)
        for worker in site.workers:
            problems += _of_worker(site, worker)
    problems += [each for link in report.fabric.links for each in _of_link(link)]
    if not any(site.enablers for site in report.fabric.sites):
        action = (
            "Start an enabler (mistbow enabler). Until then, fragments continue, but do not move."
        )
        problems.append(Problem("fabric", "no enabler announces itself", action))
    if report.deployments is None:
        action = "Check --enabler-url, and the log of the enabler."
        problems.append(Problem("enabler", report.enabler_error, action))
    for deployment in report.deployments or ():
        for insight in deployment.insights:
            problems += _of_insight(deployment, insight)
    return problems


def _of_site(site: Site, report: FabricReport) -> Iterator[Problem]:
    where = f"site {site.name}"
    if not site.reachable:
        yield Problem(
            where,
            "it is suspected: it has not answered for a few seconds"
            if site.suspected
            else "it is unreachable",
            "Check its machine and its link. Replicas answer reads. If the site no longer exists: "
            f"DELETE /fabric/sites/{site.name} at an agent that reaches all sites.",
        )
        return
    if site.name in report.silent:
        yield Problem(where, report.silent[site.name], f"Read the log of the agent {site.url}.")
    if (status := report.statuses.get(site.name)) is not None:
        for text in status.waiting_for:
            yield Problem(where, f"its agent waits for {text}", "Read the logs of its storage.")
        for text in status.warnings:
            what, remedy = problem_and_remedy(text)
            yield Problem(where, what, remedy or "Read the log of its agent.")
    if (cluster := report.clusters.get(site.name)) is not None:
        yield from _of_cluster(site.name, cluster)


def _of_expiries(site: Site, now: int) -> Iterator[Problem]:
    services = {f"site {site.name}": site.identity_expires}
    services |= {
        f"worker {each.name} at {site.name}": each.identity_expires for each in site.workers
    }
    services |= {
        f"enabler of {each.domain} at {site.name}": each.identity_expires for each in site.enablers
    }
    # Also of services that are gone, because others refuse them.
    for each in site.expired_identities:
        of = "enabler of" if each.kind == "enabler" else each.kind
        services[f"{of} {each.service} at {site.name}"] = each.expired
    for where, end in services.items():
        if (expiry := announced_expiry_text(end, now)) is not None:
            action = "Issue it again, and copy it to the service: mistbow identity issue."
            effect = "; other services refuse it" if end is not None and end <= now else ""
            yield Problem(where, f"its identity {expiry}{effect}", action)
    for worker in site.workers:
        if (expiry := announced_expiry_text(worker.certificate_expires, now)) is not None:
            action = "Issue it again, and copy it to the worker: mistbow ca issue."
            where = f"worker {worker.name} at {site.name}"
            yield Problem(where, f"its certificate {expiry}", action)


def _of_cluster(site: str, cluster: Cluster) -> Iterator[Problem]:
    where = f"site {site}"
    for node in cluster.nodes:
        if not node.online:
            yield Problem(where, f"the Ignite node {node.name} is offline", "Restart the node.")
    for stream in cluster.refused:
        yield Problem(
            where,
            f"the stream {stream.stream} lacks rows: it ends at {stream.head}, and {stream.by} "
            f"remembers {stream.remembered}",
            f"mistbow storage repair {stream.stream} --site {site} --from SITE, or --accept-loss.",
        )


def _of_worker(site: Site, worker: Worker) -> Iterator[Problem]:
    where = f"worker {worker.name} at {site.name}"
    if worker.suspected:
        yield Problem(where, "it is suspected: it is silent", "Check its machine and its log.")
    if worker.limit is not None:
        yield Problem(
            where,
            f"the kernel killed it for lack of memory with {worker.limit.ran} fragments; it runs "
            f"at most {worker.limit.fragments} now",
            "Give it more memory, or add a worker.",
        )


def _of_link(link: SiteLink) -> Iterator[Problem]:
    if link.loss is not None and link.loss > _MAX_LOSS:
        yield Problem(
            f"link {link.source} to {link.target}",
            f"{link.loss:.0%} of the last heartbeats were lost",
            "Check the network between the two sites.",
        )


def _of_insight(deployment: DeploymentStatus, insight: InsightStatus) -> Iterator[Problem]:
    where = f"insight {insight.name} of {deployment.deployment_id}"
    state = insight.present_lifecycle.state
    if state in _STOPPED or insight.error:
        action = f"mistbow insights show {deployment.deployment_id}"
        yield Problem(where, insight.error or f"it is {state}", action)
    elif insight.lag_ms is not None and insight.lag_ms > MAX_LAG_MS:
        what = f"its results are {insight.lag_ms / 1000:.0f} s late"
        yield Problem(where, what, "Add a worker, or delete insights of low salience.")
