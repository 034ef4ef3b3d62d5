"""The driver of the schedulers: requests and stores a decision when the input changes."""

import asyncio
from collections.abc import Collection, Mapping, Sequence

import msgspec

from analytics_enabler.scheduling.driver.changes import (
    FIGURES,
    changed_parts,
    has_unplaced,
    lacks_memory,
)
from analytics_enabler.scheduling.driver.hysteresis import LastingLoss, stabilize
from analytics_enabler.scheduling.driver.reasons import reasons_of_moves
from analytics_enabler.scheduling.driver.retries import FailedRequests
from analytics_enabler.scheduling.interface import Decision
from analytics_enabler.scheduling.model.jobs import Assignment, Job, Placement, Refusal
from analytics_enabler.scheduling.model.snapshot import Fog
from analytics_enabler.scheduling.sandbox.guard import Outcome, decide
from mistbow.clock import Clock, monotonic_clock
from mistbow.telemetry import get_logger

log = get_logger(__name__)

REFRESH_MS = 60_000
"""The age (ms) at which a decision is renewed even if the jobs and the fog are unchanged.

Changes of reliability, and small changes of the fog's figures, cause no decision.
"""

FIGURES_MS = 10_000
"""The time (ms) after a decision in which changed figures alone cause no new decision.

A decision delays later ones, and on a busy machine some figure changes each second.
"""

MIN_STAY_MS = 60_000
"""The time (ms) for which a moved job is not moved again, unless it must be.

The tasks of a lost worker do not move back at once either: the worker may be lost again.
"""

NodesByJob = Mapping[str, Mapping[str, str]]
"""Job id -> task -> node, for placed tasks."""

SchedulerSettings = Mapping[str, Mapping[str, str]]
"""Scheduler -> setting -> value."""

_NO_SETTINGS: SchedulerSettings = {}


class PlacementDriver:
    """Requests placements of jobs; ``outcome`` contains the decision in force.

    ``reasons``: (job, task) -> what the newest decision improves by moving the task, after
    ``explain``.
    """

    def __init__(
        self, clock: Clock = monotonic_clock, settings: SchedulerSettings = _NO_SETTINGS
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._fog = Fog(())
        self._losses = LastingLoss()
        self._decided: tuple[tuple[Job, ...], Fog] | None = None
        self._decided_at = 0
        self._failed = FailedRequests()
        self._moved_at: dict[str, int] = {}
        """Job id -> when (ms) a task of the job was last moved."""
        self.outcome = Outcome(Decision(Placement()), {})
        self.reasons: Mapping[tuple[str, str], str] = {}
        self._unexplained: tuple[Sequence[Job], Fog, Placement, Placement] | None = None
        """The jobs, the fog, and the placements before and after moves without reasons so far."""

    async def place(
        self,
        jobs: Sequence[Job],
        fog: Fog,
        current: NodesByJob,
        drained: Collection[str] = (),
    ) -> NodesByJob:
        """Return the placement of the jobs: job id -> task -> node.

        A new decision is requested if the jobs or the fog have changed since the last decision,
        ``REFRESH_MS`` after the last decision, or when a failed request is due again. Small changes
        of the fog's figures are ignored, as are losses that do not last. If only ``FIGURES`` have
        changed, the new decision waits until ``FIGURES_MS`` after the last one, unless a task runs
        nowhere or waits on a drained node, or a node lacks memory. ``fog``: without the ``drained``
        nodes. ``current``: the nodes that run the tasks now.
        """
        now = self._clock()
        self._losses.observe(fog, now)
        self._fog = fog = stabilize(self._losses.lasting(fog, now), self._fog)
        fog_state = _comparable(fog)
        jobs = self._with_stays(jobs, now)
        causes = self._causes(jobs, fog_state, current, drained, now)
        if not causes:
            return nodes_by_job(self.outcome.decision.placement)
        log.debug("placement_requested", causes=causes)
        before = placement_of(current)
        suspended = self._failed.suspended(jobs, fog, before, now)
        self.outcome = await self._decide(jobs, fog, current, suspended)
        problems = self.outcome.problems
        self._failed.record(problems, suspended, jobs, fog, before, self._clock())
        placement = nodes_by_job(self.outcome.decision.placement)
        moved = _moved_jobs(current, placement)
        for job in moved:
            self._moved_at[job] = now
        self._decided_at = now
        self._decided = self._with_stays(jobs, now), fog_state
        after = self.outcome.decision.placement
        self.reasons, self._unexplained = {}, (jobs, fog, before, after) if moved else None
        return placement

    def _causes(
        self,
        jobs: tuple[Job, ...],
        fog: Fog,
        current: NodesByJob,
        drained: Collection[str],
        now: int,
    ) -> list[str]:
        """Return why a new decision is due; empty: the decision in force remains."""
        if self._decided is None:
            return ["start"]
        age = now - self._decided_at
        due = ["age"] if age >= REFRESH_MS else []
        due += ["retry"] if self._failed.is_due(now) else []
        changed = changed_parts(self._decided, (jobs, fog))
        placement = self.outcome.decision.placement
        can_wait = (
            age < FIGURES_MS
            and changed <= FIGURES
            and not has_unplaced(jobs, placement, current, drained)
            and not lacks_memory(jobs, fog, placement)
        )
        return [*due, *sorted(changed)] if due or not can_wait else []

    async def explain(self) -> None:
        """Determine ``reasons`` once; no move waits for this, or fails without the reasons."""
        unexplained, self._unexplained = self._unexplained, None
        if unexplained is None:
            return
        try:
            self.reasons = await asyncio.to_thread(reasons_of_moves, *unexplained)
        except Exception:
            log.exception("move_reasons_failed")

    async def preview(self, jobs: Sequence[Job], fog: Fog, current: NodesByJob) -> Outcome:
        """Return the decision that would be made about the jobs, without putting it in force.

        ``fog``: without losses that do not last (``without_brief_losses``).
        """
        jobs = self._with_stays(jobs, self._clock())
        return await self._decide(jobs, fog, current, self._failed.problems)

    async def _decide(
        self, jobs: Sequence[Job], fog: Fog, current: NodesByJob, suspended: Mapping[str, str]
    ) -> Outcome:
        return await asyncio.to_thread(
            decide,
            _with_readers(jobs, current),
            fog,
            placement_of(current),
            self._settings,
            suspended=suspended,
        )

    def without_brief_losses(self, fog: Fog) -> Fog:
        """Return a fog without the losses of links that do not last, which no decision uses."""
        return self._losses.lasting(fog, self._clock())

    def _with_stays(self, jobs: Sequence[Job], now: int) -> tuple[Job, ...]:
        """Return the jobs, marked if they were moved less than ``MIN_STAY_MS`` ago."""
        self._moved_at = {job: at for job, at in self._moved_at.items() if now - at < MIN_STAY_MS}
        return tuple(
            msgspec.structs.replace(job, stays=True) if job.id in self._moved_at else job
            for job in jobs
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


def checked_by_job(placement: Placement) -> dict[str, dict[str, float]]:
    """Return job id -> task -> the share of its points whose quality is checked, if above 0."""
    checked: dict[str, dict[str, float]] = {}
    for (job, task), assignments in placement.by_task.items():
        if assignments[0].checked > 0:
            checked.setdefault(job, {})[task] = round(assignments[0].checked, 3)
    return checked


def placement_of(nodes: NodesByJob) -> Placement:
    """Return the placement of tasks on these nodes, without checks."""
    return Placement(
        tuple(
            Assignment(job=job, task=task, node=node)
            for job, tasks in sorted(nodes.items())
            for task, node in sorted(tasks.items())
        )
    )


def _with_readers(jobs: Sequence[Job], current: NodesByJob) -> tuple[Job, ...]:
    """Return the jobs; tasks of jobs that stay may continue at their present reader."""
    return tuple(
        msgspec.structs.replace(
            job,
            tasks=tuple(
                msgspec.structs.replace(task, remote_reader=current.get(job.id, {}).get(task.id))
                if task.pinned is not None
                else task
                for task in job.tasks
            ),
        )
        if job.stays
        else job
        for job in jobs
    )


def _comparable(fog: Fog) -> Fog:
    """Return a fog that differs if a change of the fog requires a new decision."""
    nodes = [msgspec.structs.replace(node, reliability=1.0) for node in fog.nodes]
    return msgspec.structs.replace(fog, nodes=tuple(nodes))


def _moved_jobs(current: NodesByJob, placement: NodesByJob) -> set[str]:
    """Return the ids of the jobs with a task that moves."""
    return {
        job
        for job, tasks in placement.items()
        for task, node in tasks.items()
        if current.get(job, {}).get(task, node) != node
    }
