"""The changes of the jobs and the fog since a decision, and how urgent a new decision is."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from analytics_enabler.scheduling.driver.retries import lasting_job
from analytics_enabler.scheduling.model.jobs import Job, Placement
from analytics_enabler.scheduling.model.snapshot import Fog

FIGURES = frozenset({
    "demands", "stays", "cores", "memory", "batteries", "positions", "latencies", "losses",
    "bandwidths", "qualities",
})  # fmt: skip
"""The parts that change by themselves, also if nobody changes the jobs or the fog."""


def changed_parts(
    before: tuple[Sequence[Job], Fog], after: tuple[Sequence[Job], Fog]
) -> frozenset[str]:
    """Return the names of the parts in which two inputs (jobs, fog) of a decision differ.

    ``FIGURES`` are measured or estimated. ``jobs``, ``nodes`` and ``links`` are the rest, such as
    the set of nodes and their limits.
    """
    if before == after:
        return frozenset()
    former, present = _parts(*before), _parts(*after)
    return frozenset(name for name, part in present.items() if part != former[name])


def _parts(jobs: Sequence[Job], fog: Fog) -> dict[str, object]:
    tasks = [task for job in jobs for task in job.tasks]
    streams = [stream for job in jobs for stream in job.streams]
    return {
        "jobs": [lasting_job(job) for job in jobs],
        "nodes": [
            replace(node, cores_free=0.0, memory_free_mb=0.0, battery=None, position=None)
            for node in fog.nodes
        ],
        "links": [(link.source, link.target) for link in fog.links],
        "demands": (
            [(task.cores, task.memory_mb, task.points_per_s, task.check_core_s) for task in tasks],
            [stream.bytes_per_s for stream in streams],
        ),
        "stays": [job.stays for job in jobs],
        "cores": [node.cores_free for node in fog.nodes],
        "memory": [node.memory_free_mb for node in fog.nodes],
        "batteries": [node.battery for node in fog.nodes],
        "positions": [node.position for node in fog.nodes],
        "latencies": [link.latency_ms for link in fog.links],
        "losses": [link.loss for link in fog.links],
        "bandwidths": [link.bandwidth_mbps for link in fog.links],
        "qualities": fog.sources,
    }


def has_unplaced(
    jobs: Sequence[Job],
    placement: Placement,
    current: Mapping[str, Mapping[str, str]],
    drained: Collection[str] = (),
) -> bool:
    """Return whether a task is not placed, and runs nowhere or on a drained node.

    ``current``: job -> task -> the node that runs it, perhaps at a site that is unreachable now.
    ``drained``: the drained nodes.
    """
    return any(
        (job.id, task.id) not in placement.by_task
        and ((node := current.get(job.id, {}).get(task.id)) is None or node in drained)
        for job in jobs
        for task in job.tasks
    )


def lacks_memory(jobs: Sequence[Job], fog: Fog, placement: Placement) -> bool:
    """Return whether the tasks that are placed on a node need more memory than it has."""
    needed: dict[str, float] = defaultdict(float)
    for job in jobs:
        for task in job.tasks:
            for assignment in placement.by_task.get((job.id, task.id), ()):
                needed[assignment.node] += assignment.share * task.memory_mb
    return any(needed[node.name] > node.memory_free_mb for node in fog.nodes if node.name in needed)
