"""Which nodes a job may have at all: those that its query names, less those of others alone."""

from collections.abc import Collection, Iterable, Mapping

from mistbow.fog.jobs import Job, Placement
from mistbow.fog.snapshot import Fog
from mistbow.schedulers.room import in_turn


def nodes_for(jobs: Iterable[Job], fog: Fog, current: Placement) -> dict[str, frozenset[str]]:
    """Return, by job, the nodes that it may have.

    Jobs with dedicated nodes choose first, those that run before others; then nobody else has
    these. Of more nodes than a job may have it takes those that run it, then such as are at
    different sites with its data, then the first by name.
    """
    turns = in_turn(jobs, current)
    dedicated = [job for job in turns if job.confined is not None and job.confined.dedicated]
    chosen: dict[str, frozenset[str]] = {}
    free = set(fog.by_name)
    for job in dedicated:
        chosen[job.id] = _some(job, labelled(job, fog) & free, fog, current)
        free -= chosen[job.id]
    for job in turns:
        if job.id not in chosen:
            chosen[job.id] = _some(job, labelled(job, fog) & free, fog, current)
    return chosen


def labelled(job: Job, fog: Fog) -> frozenset[str]:
    """Return the nodes with the label that a job asks for; without one, all."""
    asked = job.confined
    return frozenset(
        node.name
        for node in fog.nodes
        if asked is None or node.attributes.get(asked.label) == asked.value
    )


def none_left(job: Job, fog: Fog) -> str:
    """Say why there is no node that a job may have."""
    asked = "" if job.confined is None else f" with {job.confined.label}={job.confined.value}"
    if labelled(job, fog):
        return f"every node{asked} is dedicated to another insight"
    return f"no node{asked}"


def only(fog: Fog, names: Collection[str]) -> Fog:
    """Return a fog with these of its nodes."""
    return Fog(tuple(node for node in fog.nodes if node.name in names), fog.links)


def _some(job: Job, names: Collection[str], fog: Fog, current: Placement) -> frozenset[str]:
    count = len(names) if job.confined is None else job.confined.count or len(names)
    if count >= len(names):
        return frozenset(names)
    running = {at.node for at in current.of([job]).assignments}
    of_data = {task.pinned for task in job.tasks}
    picked = [name for name in sorted(names) if name in running][:count]
    while len(picked) < count:
        covered = {fog.site_of(name) for name in picked}
        rank: Mapping[str, bool] = {
            name: fog.site_of(name) in covered or fog.site_of(name) not in of_data
            for name in names
            if name not in picked
        }
        picked.append(min(rank, key=lambda name: (rank[name], name)))
    return frozenset(picked)
