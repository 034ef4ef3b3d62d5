"""The fragments that each worker should run, from the planned tasks and their placement."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from analytics.plan.fragments import Fragment
from analytics.plan.orders import PartialOwner, surplus
from analytics.plan.status import FragmentStatus
from analytics_enabler.execution.orphans import OrphanedTasks
from analytics_enabler.fragments import Tasks, result_task
from analytics_enabler.groups import Group, slug


@dataclass(frozen=True, slots=True)
class DesiredFragments:
    """The fragments that a worker should run; ``fragments``: fragment id -> fragment.

    Other running fragments are stopped, with two exceptions. ``retained``: the owners of partial
    fragments that continue in any version, since former merges read former versions. ``moving``:
    the ids of the fragments that other workers should run, but do not run yet. This worker neither
    stops nor restarts a moving fragment, until the other worker takes over. ``checked``: fragment
    id -> the share of its points whose quality is checked. ``orphaned``: the ids of fragments whose
    last worker is dead, and that no worker writes yet. ``orphan_round``: if it has increased, the
    worker receives ``orphaned`` again.
    """

    fragments: Mapping[str, Fragment] = field(default_factory=dict)
    retained: frozenset[PartialOwner] = frozenset()
    moving: frozenset[str] = frozenset()
    checked: Mapping[str, float] = field(default_factory=dict)
    orphaned: frozenset[str] = frozenset()
    orphan_round: int = 0

    def missing(self, observed: Mapping[str, FragmentStatus]) -> list[Fragment]:
        """Return the desired fragments that the worker lacks: missing, outdated or fenced ones."""
        return [
            fragment
            for fragment in self.fragments.values()
            if (status := observed.get(fragment.id)) is None
            or status.fingerprint != fragment.fingerprint
            or status.state == "fenced"
        ]

    def surplus(self, observed: Iterable[str]) -> list[str]:
        """Return the ids of the observed fragments that the worker should stop."""
        return surplus(observed, self.fragments, self.retained, self.moving)


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
            orphan_round=orphans.round if orphaned[name] else 0,
        )
        for name in workers
    }
