"""Asking schedulers when there is something new, and remembering what they said."""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from mistbow.clock import Clock
from mistbow.fog.jobs import Assignment, Job, Placement, Refusal
from mistbow.fog.snapshot import Fog
from mistbow.schedulers.guard import Outcome, decide
from mistbow.schedulers.interface import Decision

EVERY_MS = 60_000
"""So often schedulers are asked when nothing changes: what is free does, and links do."""

STEP_MS = 5.0
"""Latencies that differ by less are the same: they are never measured twice alike."""

Places = Mapping[str, Mapping[str, str]]
"""For each job, the node of each of its tasks that has one."""

Settings = Mapping[str, Mapping[str, str]]
"""What ``prepare`` gets, by the scheduler's name."""

_NO_SETTINGS: Settings = {}


class Placer:
    """Decides where jobs run; the last decision is kept until there is reason for another."""

    def __init__(self, clock: Clock, settings: Settings = _NO_SETTINGS) -> None:
        self._clock = clock
        self._settings = settings
        self._asked: tuple[object, ...] | None = None
        self._asked_at = 0
        self._failed: dict[str, tuple[object, str]] = {}
        self.outcome = Outcome(Decision(Placement()), {})

    async def place(self, jobs: Sequence[Job], fog: Fog, current: Places) -> Places:
        """Return where jobs are to run, by the last decision while there is nothing new."""
        question = (tuple(jobs), _gist(fog))
        now = self._clock()
        if question == self._asked and now - self._asked_at < EVERY_MS:
            return places_of(self.outcome.decision.placement)
        if now - self._asked_at >= EVERY_MS:
            self._failed.clear()
        # One that failed on the same jobs and fog would take its seconds again, while others wait.
        resting = {
            name: problem
            for name, (failed, problem) in self._failed.items()
            if failed == (_jobs_of(name, jobs), question[1])
        }
        self.outcome = await asyncio.to_thread(
            decide, jobs, fog, _placement(current), self._settings, resting=resting
        )
        self._failed = {
            name: ((_jobs_of(name, jobs), question[1]), problem)
            for name, problem in self.outcome.problems.items()
        }
        if not resting:
            self._asked_at = now
        self._asked = question
        return places_of(self.outcome.decision.placement)

    async def would(self, jobs: Sequence[Job], fog: Fog, current: Places) -> Outcome:
        """Return what would be decided on these jobs, and change nothing."""
        resting = {name: problem for name, (_, problem) in self._failed.items()}
        return await asyncio.to_thread(
            decide, jobs, fog, _placement(current), self._settings, resting=resting
        )

    def refusals(self, job: str) -> list[Refusal]:
        """Return why nodes do not run tasks of a job."""
        return [refusal for refusal in self.outcome.decision.refusals if refusal.job == job]


def places_of(placement: Placement) -> dict[str, dict[str, str]]:
    """Return the node of each task; of a task on several nodes, the first.

    A fragment cannot be shared out yet: the first node runs all of it.
    """
    places: dict[str, dict[str, str]] = {}
    for (job, task), assignments in placement.by_task.items():
        places.setdefault(job, {})[task] = assignments[0].node
    return places


def _placement(places: Places) -> Placement:
    return Placement(
        tuple(
            Assignment(job=job, task=task, node=node)
            for job, tasks in sorted(places.items())
            for task, node in sorted(tasks.items())
        )
    )


def _jobs_of(question: str, jobs: Sequence[Job]) -> tuple[Job, ...]:
    return tuple(job for job in jobs if job.question == question)


def _gist(fog: Fog) -> object:
    """Return what of a fog is worth a new decision when it changes."""
    nodes = [
        msgspec.structs.replace(node, cores_free=0.0, memory_free_mb=0.0) for node in fog.nodes
    ]
    links = [(link.source, link.target, round(link.latency_ms / STEP_MS)) for link in fog.links]
    return nodes, links
