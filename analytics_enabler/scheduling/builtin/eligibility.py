"""The nodes that a task or a job may use, regardless of their free capacity."""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from analytics_enabler.scheduling.model.jobs import Job, Placement, Task, data_latency_ms
from analytics_enabler.scheduling.model.snapshot import Fog, Node

NodeByTask = dict[str, str]
"""Task -> node, for the placed tasks of a job."""

_SAME_LATENCY_MS = 1.0
"""The difference (ms) up to which two latencies count as equal."""


def ineligibility(task: Task, node: Node, fog: Fog) -> str | None:
    """Return why a node may not run a task, regardless of capacity; None: the node is eligible."""
    if task.pinned is not None and node.site != task.pinned:
        if not task.remotely_readable:
            return f"the task's data is at {task.pinned}"
        own = _own_nodes(task, fog)
        if own and node.name != task.remote_reader:
            return f"the task's data is at {task.pinned}, where {own[0]} can run it"
    return _misfit(task, node)


def eligible_nodes(task: Task, fog: Fog) -> list[str]:
    """Return the names of the nodes that may run a task if their capacity suffices."""
    own = _own_nodes(task, fog)
    if own or (task.pinned is not None and not task.remotely_readable):
        return own + _remote_readers(task, fog)
    confined = bool(task.sites) and fog.has_confined_nodes
    if not (task.labels or task.operators or task.clock_mhz or task.avoided or confined):
        return list(fog.by_name)
    return [node.name for node in fog.by_name.values() if _misfit(task, node) is None]


def nearest_nodes(task: Task, names: Sequence[str], fog: Fog) -> list[str]:
    """Return those eligible nodes that are nearest to the data of a task.

    All are returned if the task reads no data, or if its nodes are at the site of the data.
    """
    if task.pinned is None or any(fog.site_of(name) == task.pinned for name in names):
        return list(names)
    latencies = {name: data_latency_ms(task, name, fog) for name in names}
    limit = min(latencies.values(), default=0.0) + _SAME_LATENCY_MS
    return [name for name in names if latencies[name] <= limit]


def _own_nodes(task: Task, fog: Fog) -> list[str]:
    """Return the names of the nodes that fit a task, at the site of its data."""
    here = () if task.pinned is None else fog.by_site.get(task.pinned, ())
    return [node.name for node in here if _misfit(task, node) is None]


def _remote_readers(task: Task, fog: Fog) -> list[str]:
    """Return the node that reads a task's data now, if it is at another site and fits the task."""
    reader = None if task.remote_reader is None else fog.by_name.get(task.remote_reader)
    if reader is None or reader.site == task.pinned or not task.remotely_readable:
        return []
    return [] if _misfit(task, reader) else [reader.name]


def _misfit(task: Task, node: Node) -> str | None:
    """Return why a node does not fit a task, wherever its data is; None: the node fits."""
    for label, value in sorted(task.labels.items()):
        if node.attributes.get(label) != value:
            return f"the node is not labelled {label}={value}"
    for operator in task.operators:
        if operator not in node.operators:
            return f"the operator {operator} is not installed there"
    if node.own_site_only and any(site != node.site for site in task.sites):
        return f"the node may not use other sites than {node.site}"
    if node.name in task.avoided:
        return "the task leaves the node, which is a hot spot"
    if node.clock_mhz < task.clock_mhz:
        return f"{task.clock_mhz:g} MHz needed, it has {node.clock_mhz:g}"
    return None


def is_only_confined(task: Task, node: Node) -> bool:
    """Return whether a node does not fit a task only because it is confined to its own site."""
    if not node.own_site_only or _misfit(task, node) is None:
        return False
    return _misfit(task, msgspec.structs.replace(node, own_site_only=False)) is None


def reads_no_data(job: Job, nodes: NodeByTask) -> bool:
    """Return whether a job reads no data, because none of its pinned tasks is placed.

    A job without pinned tasks always reads data.
    """
    pinned = [task.id for task in job.tasks if task.pinned is not None]
    return bool(pinned) and not any(task in nodes for task in pinned)


def by_priority(jobs: Iterable[Job], current: Placement) -> list[Job]:
    """Return jobs in the order in which they are placed: running jobs first, then other jobs.

    Jobs that are both running, or both not running, are ordered by id.
    """
    running = {job for job, _ in current.by_task}
    return sorted(jobs, key=lambda job: (job.id not in running, job.id))


def candidate_nodes(jobs: Iterable[Job], fog: Fog, current: Placement) -> dict[str, frozenset[str]]:
    """Return job id -> the names of the nodes that the job may use.

    Jobs with dedicated nodes choose their nodes first, in the order of ``by_priority``. No other
    job may use dedicated nodes. A job with a maximum number of nodes chooses first the nodes on
    which the job runs, then one node at each site with data of the job, then further nodes by name.
    """
    prioritized = by_priority(jobs, current)
    dedicated = [job for job in prioritized if job.confined is not None and job.confined.dedicated]
    chosen: dict[str, frozenset[str]] = {}
    undedicated = set(fog.by_name)
    for job in dedicated:
        chosen[job.id] = _choose(job, labelled_nodes(job, fog) & undedicated, fog, current)
        undedicated -= chosen[job.id]
    for job in prioritized:
        if job.id not in chosen:
            chosen[job.id] = _choose(job, labelled_nodes(job, fog) & undedicated, fog, current)
    return chosen


def labelled_nodes(job: Job, fog: Fog) -> frozenset[str]:
    """Return the names of the nodes that satisfy the constraint of a job.

    Without a constraint, all names are returned. Nodes dedicated to other jobs are included.
    """
    constraint = job.confined
    return frozenset(
        node.name
        for node in fog.nodes
        if constraint is None or node.attributes.get(constraint.label) == constraint.value
    )


def no_candidate_reason(job: Job, fog: Fog) -> str:
    """Return the reason why a job without candidate nodes cannot run."""
    label = "" if job.confined is None else f" with {job.confined.label}={job.confined.value}"
    if labelled_nodes(job, fog):
        return f"every node{label} is dedicated to another insight"
    return f"no node{label}"


def restrict(fog: Fog, names: Collection[str]) -> Fog:
    """Return a fog that has only the nodes with these names, and all else of ``fog``."""
    return fog.with_nodes(node for node in fog.nodes if node.name in names)


def _choose(job: Job, names: Collection[str], fog: Fog, current: Placement) -> frozenset[str]:
    count = len(names) if job.confined is None else job.confined.count or len(names)
    if count >= len(names):
        return frozenset(names)
    running = {assignment.node for assignment in current.of([job]).assignments}
    data_sites = {task.pinned for task in job.tasks}
    chosen = [name for name in sorted(names) if name in running][:count]
    while len(chosen) < count:
        covered = {fog.site_of(name) for name in chosen}
        # False sorts first: a site with data that no chosen node covers.
        rank = {
            name: fog.site_of(name) in covered or fog.site_of(name) not in data_sites
            for name in names
            if name not in chosen
        }
        chosen.append(min(rank, key=lambda name: (rank[name], name)))
    return frozenset(chosen)
