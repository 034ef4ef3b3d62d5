"""Simple placements with which the simulator compares schedulers; queries cannot use them."""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from analytics_enabler.scheduling.builtin.capacity import FreeCapacity, refusals
from analytics_enabler.scheduling.builtin.eligibility import (
    NodeByTask,
    by_priority,
    eligible_nodes,
    reads_no_data,
)
from analytics_enabler.scheduling.builtin.fair import as_placement, retain_running
from analytics_enabler.scheduling.interface import Decision, Scheduler
from analytics_enabler.scheduling.model.jobs import (
    Job,
    Placement,
    Setting,
    Task,
    data_latency_ms,
)
from analytics_enabler.scheduling.model.snapshot import Fog


class _Baseline(ABC):
    """Places each task once, on one of the nodes with enough capacity; running tasks stay."""

    def prepare(self, settings: Mapping[str, Setting]) -> None:
        """Ignore the settings: a baseline has none."""
        del settings

    def schedule(self, jobs: tuple[Job, ...], fog: Fog, current: Placement) -> Decision:
        """Place the jobs one after the other; see ``Scheduler.schedule``."""
        free = FreeCapacity(fog)
        prioritized = by_priority(jobs, current)
        nodes = {job.id: retain_running(job, fog, current, free) for job in prioritized}
        for job in prioritized:
            self._place_missing(job, fog, nodes[job.id], free)
        placement = as_placement(nodes)
        return Decision(placement, tuple(refusals(prioritized, fog, placement)))

    def _place_missing(self, job: Job, fog: Fog, nodes: NodeByTask, free: FreeCapacity) -> None:
        is_complete = True
        for task in job.in_order:
            if task.id in nodes:
                continue
            names = eligible_nodes(task, fog)
            fitting = [name for name in names if free.shortage(task, name) is None]
            if fitting:
                nodes[task.id] = self._choose(job, task, fitting, nodes, fog)
                free.allocate(task, nodes[task.id])
            else:
                is_complete &= task.pinned is not None
        if not is_complete or reads_no_data(job, nodes):
            for task in job.tasks:
                if task.id in nodes:
                    free.release(task, nodes.pop(task.id))

    @abstractmethod
    def _choose(
        self, job: Job, task: Task, fitting: Sequence[str], nodes: NodeByTask, fog: Fog
    ) -> str:
        """Return one of the ``fitting`` nodes; ``nodes``: the nodes of the tasks before."""


class Random(_Baseline):
    """Places each task on any node with enough capacity; the same task always draws the same."""

    def _choose(
        self, job: Job, task: Task, fitting: Sequence[str], nodes: NodeByTask, fog: Fog
    ) -> str:
        del nodes, fog
        generator = np.random.default_rng(zlib.crc32(f"{job.id}/{task.id}".encode()))
        return fitting[int(generator.integers(len(fitting)))]


class Greedy(_Baseline):
    """Places each task on the node nearest to its inputs, without regard to later tasks."""

    def _choose(
        self, job: Job, task: Task, fitting: Sequence[str], nodes: NodeByTask, fog: Fog
    ) -> str:
        inputs = [nodes[source] for source in job.inputs[task.id] if source in nodes]

        def distance(node: str) -> float:
            latencies = [fog.latency_ms(source, node) for source in inputs]
            return sum(latencies) + data_latency_ms(task, node, fog)

        return min(fitting, key=lambda node: (distance(node), node))


BASELINES: Mapping[str, type[Scheduler]] = {"random": Random, "greedy": Greedy}
