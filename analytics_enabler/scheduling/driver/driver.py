"""The driver of the schedulers: requests and stores a decision when the input changes."""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from analytics_enabler.scheduling.driver.hysteresis import stabilize
from analytics_enabler.scheduling.interface import Decision
from analytics_enabler.scheduling.model.jobs import Assignment, Job, Placement, Refusal
from analytics_enabler.scheduling.model.snapshot import Fog
from analytics_enabler.scheduling.sandbox.guard import Outcome, decide
from mistbow.clock import Clock

REFRESH_MS = 60_000
"""The age (ms) at which a decision is renewed even if the jobs and the fog are unchanged.

Changes of reliability, and small changes of the fog's figures, cause no decision.
"""

NodesByJob = Mapping[str, Mapping[str, str]]
"""Job id -> task -> node, for placed tasks."""

SchedulerSettings = Mapping[str, Mapping[str, str]]
"""Scheduler -> setting -> value."""

_NO_SETTINGS: SchedulerSettings = {}


class PlacementDriver:
    """Requests placements of jobs; ``outcome`` contains the decision in force."""

    def __init__(self, clock: Clock, settings: SchedulerSettings = _NO_SETTINGS) -> None:
        self._clock = clock
        self._settings = settings
        self._fog = Fog(())
        self._decided: tuple[tuple[Job, ...], Fog] | None = None
        self._decided_at = 0
        self._failed: dict[str, tuple[object, str]] = {}
        self.outcome = Outcome(Decision(Placement()), {})

    async def place(self, jobs: Sequence[Job], fog: Fog, current: NodesByJob) -> NodesByJob:
        """Return the placement of the jobs: job id -> task -> node.

        A new decision is requested if the jobs or the fog have changed since the last decision, or
        ``REFRESH_MS`` after the last decision. Small changes of the fog's figures are ignored.
        ``current``: the nodes that run the tasks now.
        """
        self._fog = fog = stabilize(fog, self._fog)
        fog_state = _comparable(fog)
        decided = (tuple(jobs), fog_state)
        now = self._clock()
        if decided == self._decided and now - self._decided_at < REFRESH_MS:
            return nodes_by_job(self.outcome.decision.placement)
        if now - self._decided_at >= REFRESH_MS:
            self._failed.clear()
        # A request that failed with the same input would fail again, and delay the others.
        suspended = {
            name: problem
            for name, (failed, problem) in self._failed.items()
            if failed == (_jobs_of(name, jobs), fog_state)
        }
        self.outcome = await asyncio.to_thread(
            decide, jobs, fog, _placement(current), self._settings, suspended=suspended
        )
        self._failed = {
            name: ((_jobs_of(name, jobs), fog_state), problem)
            for name, problem in self.outcome.problems.items()
        }
        if not suspended:
            self._decided_at = now
        self._decided = decided
        return nodes_by_job(self.outcome.decision.placement)

    async def preview(self, jobs: Sequence[Job], fog: Fog, current: NodesByJob) -> Outcome:
        """Return the decision that would be made about the jobs, without putting it in force."""
        suspended = {name: problem for name, (_, problem) in self._failed.items()}
        return await asyncio.to_thread(
            decide, jobs, fog, _placement(current), self._settings, suspended=suspended
        )

    def refusals(self, job: str) -> list[Refusal]:
        """Return the refusals of the tasks of a job."""
        return [refusal for refusal in self.outcome.decision.refusals if refusal.job == job]


def nodes_by_job(placement: Placement) -> dict[str, dict[str, str]]:
    """Return job id -> task -> node; for a task that several nodes share, only the first node.

    A fragment cannot yet be divided among nodes: the first node runs the complete fragment.
    """
    nodes: dict[str, dict[str, str]] = {}
    for (job, task), assignments in placement.by_task.items():
        nodes.setdefault(job, {})[task] = assignments[0].node
    return nodes


def _placement(nodes: NodesByJob) -> Placement:
    return Placement(
        tuple(
            Assignment(job=job, task=task, node=node)
            for job, tasks in sorted(nodes.items())
            for task, node in sorted(tasks.items())
        )
    )


def _jobs_of(request_name: str, jobs: Sequence[Job]) -> tuple[Job, ...]:
    return tuple(job for job in jobs if job.request_name == request_name)


def _comparable(fog: Fog) -> Fog:
    """Return a fog that differs if a change of the fog requires a new decision."""
    nodes = [msgspec.structs.replace(node, reliability=1.0) for node in fog.nodes]
    return msgspec.structs.replace(fog, nodes=tuple(nodes))
