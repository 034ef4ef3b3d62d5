"""Warnings about sites whose points are read from another site, or not at all."""

from collections.abc import Iterator, Mapping

from analytics.plan.fragments import Merge
from analytics_enabler.execution.point_access import PointAccess
from analytics_enabler.fragments import Tasks, data_site
from analytics_enabler.groups import Group
from analytics_enabler.scheduling.driver.driver import nodes_by_job
from analytics_enabler.scheduling.sandbox.guard import Outcome
from grammar import Diagnostic
from mistbow.fabric import Fabric

_REMOTE_HINT = "A worker at the site would send panes over the network instead of points."
_UNREAD_HINT = "Start `mistbow worker` at the site, or a worker elsewhere that can run the insight."


def placement_warnings(
    tasks: Mapping[Group, Tasks], outcome: Outcome, fabric: Fabric
) -> list[Diagnostic]:
    """Return the warnings about the placement of groups, in the order of sites.

    ``tasks``: group -> its tasks. ``outcome``: the decision about these groups.
    """
    access, nodes = PointAccess(fabric), nodes_by_job(outcome.decision.placement)
    reachable = {site.name for site in fabric.sites if site.reachable}
    found: dict[tuple[str, str], Diagnostic] = {}
    for group, each in tasks.items():
        placed = nodes.get(group.id, {})
        for read in access.remote_reads(each, placed):
            found[read.site, read.words] = _warning(read.words, _REMOTE_HINT)
        for site, reason in _unread(group, each, placed, outcome):
            reason = reason if site in reachable else "the site is unreachable"
            message = f"no worker reads the points of the site {site}: {reason}"
            found[site, message] = _warning(message, _UNREAD_HINT)
    return [found[key] for key in sorted(found)]


def _unread(
    group: Group, tasks: Tasks, nodes: Mapping[str, str], outcome: Outcome
) -> Iterator[tuple[str, str]]:
    """Yield (site, reason) for each site whose points no worker would read."""
    for task, fragment in tasks.items():
        site = data_site(fragment)
        if isinstance(fragment, Merge) or site is None or task in nodes:
            continue
        reasons = [
            f"{'' if refusal.node is None else f'{refusal.node}: '}{refusal.reason}"
            for refusal in outcome.decision.refusals
            if (refusal.job, refusal.task) == (group.id, task)
        ]
        yield site, "; ".join(reasons) or "the scheduler gave no reason"


def _warning(message: str, hint: str) -> Diagnostic:
    return Diagnostic(1, 1, 1, message, hint, "warning")
