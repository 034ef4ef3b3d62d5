"""Derives the desired fragments of each worker from the planned tasks and their placement."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from analytics.plan.fragments import Fragment
from analytics.plan.orders import PartialOwner
from analytics_enabler.execution.orphans import OrphanedTasks
from analytics_enabler.execution.worker_reconcilers import DesiredFragments
from analytics_enabler.fragments import Tasks, result_task
from analytics_enabler.groups import Group, slug


class TaskStatus(Protocol):
    """Where tasks are placed, and whether they run there."""

    def node(self, group: Group, task: str) -> str | None:
        """Return the node on which a task is placed; None: it is not placed."""
        ...

    def is_active(self, group: Group, task: str) -> bool:
        """Return whether the desired version of a task runs on its node."""
        ...


def desired_fragments(
    tasks: Mapping[Group, Tasks],
    status: TaskStatus,
    shares: Callable[[Group], Mapping[str, float]],
    orphans: OrphanedTasks,
    workers: Iterable[str],
    sites: Iterable[str],
) -> dict[str, DesiredFragments]:
    """Return a dict: worker -> the fragments that it should run.

    ``tasks``: the planned tasks. ``shares``: returns, for a group, task -> the share of its points
    whose quality is checked. ``sites``: all sites.
    """
    desired: dict[str, dict[str, Fragment]] = defaultdict(dict)
    retained: set[PartialOwner] = set()
    moving: set[str] = set()
    checked: dict[str, dict[str, float]] = defaultdict(dict)
    orphaned: dict[str | None, set[str]] = defaultdict(set)
    slugs = [slug(site) for site in sites]
    for group, by_task in tasks.items():
        for task, fragment in by_task.items():
            node = status.node(group, task)
            if node is not None:
                desired[node][fragment.id] = fragment
                share = shares(group).get(task, 0.0)
                if share > 0:
                    checked[node][fragment.id] = share
                if not status.is_active(group, task):
                    moving.add(fragment.id)
            if orphans.has(group, task):
                # The merge waits less for the panes of an orphaned partial.
                for reader in {node, status.node(group, result_task(by_task))}:
                    orphaned[reader].add(fragment.id)
        if not status.is_active(group, result_task(by_task)):
            retained |= {(group.id, site) for site in slugs}
    return {
        name: DesiredFragments(
            desired[name],
            frozenset(retained),
            moving=frozenset(moving - desired[name].keys()),
            checked=checked[name],
            orphaned=frozenset(orphaned[name]),
        )
        for name in workers
    }
