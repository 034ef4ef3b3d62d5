"""The limit of estimated demands, so that the tasks that run on a node always fit there."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from analytics_enabler.scheduling.model.jobs import Job, Task
from analytics_enabler.scheduling.model.snapshot import Fog


def fit_running(
    jobs: Sequence[Job], fog: Fog, current: Mapping[str, Mapping[str, str]]
) -> list[Job]:
    """Return the jobs with cores that fit; ``current``: job -> task -> the node that runs it.

    The tasks of an overloaded node share its free cores in proportion to their demands, so that no
    new task is placed there, but a rising demand stops no task. Tasks that leave the node do not
    count. A high demand does not make a task unplaceable either: it is limited to the free cores of
    the largest node (of a pinned task: the largest node at its site).
    """
    most = max((node.cores_free for node in fog.nodes), default=0.0)
    most_at: dict[str | None, float] = {
        site: max(node.cores_free for node in nodes) for site, nodes in fog.by_site.items()
    }
    used: dict[str, float] = defaultdict(float)
    for job in jobs:
        for task in job.tasks:
            node = current.get(job.id, {}).get(task.id)
            if node is not None and node not in task.avoided:
                used[node] += task.cores
    shares = {
        node.name: min(node.cores_free / used[node.name], 1.0)
        for node in fog.nodes
        if used[node.name] > 0
    }

    def fitting(job: Job, task: Task) -> Task:
        node = current.get(job.id, {}).get(task.id, "")
        share = 1.0 if node in task.avoided else shares.get(node, 1.0)
        cores = task.cores * share if share < 1 else task.cores
        limit = most_at.get(task.pinned, most)
        return task if cores <= limit and share == 1 else _with_cores(task, min(cores, limit))

    return [
        msgspec.structs.replace(job, tasks=tuple(fitting(job, task) for task in job.tasks))
        for job in jobs
    ]


def _with_cores(task: Task, cores: float) -> Task:
    # Rounded down: the sum of the shares must not exceed the capacity.
    return msgspec.structs.replace(task, cores=int(cores * 1e6) / 1e6)
