"""A decision of the schedulers that is not in force, with its input."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from analytics_enabler.scheduling.driver.driver import (
    NodesByJob,
    checked_by_job,
    nodes_by_job,
    placement_of,
)
from analytics_enabler.scheduling.driver.reasons import reasons_of_moves
from analytics_enabler.scheduling.model.jobs import (
    Job,
    Task,
    critical_path_ms,
    data_latency_ms,
)
from analytics_enabler.scheduling.model.snapshot import Fog
from analytics_enabler.scheduling.sandbox.guard import Outcome


@dataclass(frozen=True, slots=True)
class PlacementPreview:
    """A decision that is not in force.

    ``jobs``: id -> job, for all jobs that the decision is about. ``current``: the placement in
    force. ``load_reasons``: (job, task) -> why the task leaves a hot spot, or may return.
    """

    outcome: Outcome
    jobs: Mapping[str, Job]
    fog: Fog
    current: NodesByJob
    load_reasons: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def nodes(self) -> NodesByJob:
        """The nodes of the placed tasks: job id -> task -> node."""
        return nodes_by_job(self.outcome.decision.placement)

    @property
    def checked(self) -> Mapping[str, Mapping[str, float]]:
        """The shares of checked points: job id -> task -> share, if above 0."""
        return checked_by_job(self.outcome.decision.placement)

    @property
    def reasons(self) -> Mapping[tuple[str, str], str]:
        """(job, task) -> what the decision improves by moving the running task."""
        before, after = placement_of(self.current), self.outcome.decision.placement
        gains = reasons_of_moves(list(self.jobs.values()), self.fog, before, after)
        return {**gains, **self.load_reasons}

    def task(self, job: str, name: str) -> Task:
        """Return the task ``name`` of a job."""
        return next(task for task in self.jobs[job].tasks if task.id == name)

    def latency_ms(self, job: str) -> float | None:
        """Return the critical path of a job in ms; None: unknown, or nothing is placed."""
        if job not in self.nodes:
            return None
        return _finite(critical_path_ms(self.jobs[job], self.outcome.decision.placement, self.fog))

    def data_latency_ms(self, job: str, name: str, node: str | None) -> float | None:
        """Return the latency in ms from the points of a task to a node.

        None: the latency is unknown, or the task reads no points.
        """
        task = self.task(job, name)
        if node is None or task.pinned is None:
            return None
        return _finite(data_latency_ms(task, node, self.fog))


def _finite(latency_ms: float) -> float | None:
    return latency_ms if math.isfinite(latency_ms) else None
