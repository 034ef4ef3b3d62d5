"""The failed scheduling requests, and when they are sent again."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from analytics_enabler.scheduling.model.jobs import Job, Placement
from analytics_enabler.scheduling.model.snapshot import Fog

RETRY_MS = 2_000
"""The pause (ms) after the first failure of a scheduling request; it doubles at each failure."""

MAX_RETRY_MS = 60_000

LOSS_MS = 60_000
"""The time (ms) after the loss of a node in which the pause does not double.

The results of the lost tasks have stopped. The time is limited: a scheduler that does not answer
delays the placement of all other jobs at each retry.
"""

_Tasks = frozenset[tuple[str, str]]
"""The (job, task) of tasks."""


class _Failure(msgspec.Struct, frozen=True):
    """A failed scheduling request, and when (ms) it is sent again, unless its jobs change.

    ``jobs``: the jobs without what changes by itself. ``lost``: the tasks that have lost their node
    since the last decision, and have no other. ``lost_at``: the time (ms) of the last such loss;
    None: no node was lost.
    """

    jobs: tuple[Job, ...]
    problem: str
    pause_ms: int
    retry_at: int
    lost: _Tasks
    lost_at: int | None


class FailedRequests:
    """The failed scheduling requests of a driver, by name; in all methods, ``now`` is in ms."""

    def __init__(self) -> None:
        self._failures: dict[str, _Failure] = {}

    @property
    def problems(self) -> dict[str, str]:
        """The failed requests: name -> the reason of the last failure."""
        return {name: failure.problem for name, failure in self._failures.items()}

    def is_due(self, now: int) -> bool:
        """Return whether a request is to be sent again."""
        return any(failure.retry_at <= now for failure in self._failures.values())

    def suspended(
        self, jobs: Sequence[Job], fog: Fog, current: Placement, now: int
    ) -> dict[str, str]:
        """Return the requests that are not sent again yet: name -> the reason of the last failure.

        A request would fail again, and delay the others. It is sent at once if its jobs have
        changed, not only their estimates, or if one of them has lost a node. ``current``: the
        placement that is in force.
        """
        return {
            name: failure.problem
            for name, failure in self._failures.items()
            if failure.retry_at > now
            and failure.jobs == _jobs_of(name, jobs)
            and _lost_tasks(failure.jobs, fog, current, failure.lost) <= failure.lost
        }

    def record(
        self,
        problems: Mapping[str, str],
        suspended: Mapping[str, str],
        jobs: Sequence[Job],
        fog: Fog,
        current: Placement,
        now: int,
    ) -> None:
        """Replace the failures by those of a decision.

        ``problems``: the failed requests, also those in ``suspended``, which were not sent.
        """
        self._failures = {
            name: self._failures[name]
            if name in suspended
            else self._failure(name, problem, _jobs_of(name, jobs), fog, current, now)
            for name, problem in problems.items()
        }

    def _failure(
        self,
        name: str,
        problem: str,
        jobs: tuple[Job, ...],
        fog: Fog,
        current: Placement,
        now: int,
    ) -> _Failure:
        """Return the record of a failed request; its pause doubles with each failure in a row."""
        former = self._failures.get(name)
        before = frozenset() if former is None else former.lost
        lost = _lost_tasks(jobs, fog, current, before)
        lost_at = now if lost - before else former.lost_at if former and lost else None
        pause_ms = RETRY_MS
        is_recent = lost_at is not None and now - lost_at < LOSS_MS
        if former is not None and former.jobs == jobs and not is_recent:
            pause_ms = min(former.pause_ms * 2, MAX_RETRY_MS)
        return _Failure(jobs, problem, pause_ms, now + pause_ms, lost, lost_at)


def _jobs_of(request_name: str, jobs: Sequence[Job]) -> tuple[Job, ...]:
    """Return the jobs of a request, without the parts that change by themselves."""
    return tuple(lasting_job(job) for job in jobs if job.request_name == request_name)


def lasting_job(job: Job) -> Job:
    """Return a job without the parts that change by themselves.

    These parts are ``stays``, and the estimates of demands and streams.
    """
    return replace(
        job,
        stays=False,
        tasks=tuple(
            replace(task, cores=0.0, memory_mb=0.0, points_per_s=0.0, check_core_s=0.0)
            for task in job.tasks
        ),
        streams=tuple(replace(stream, bytes_per_s=0.0) for stream in job.streams),
    )


def _lost_tasks(jobs: Sequence[Job], fog: Fog, current: Placement, before: _Tasks) -> _Tasks:
    """Return the tasks whose node is not in the fog, and those of ``before`` without a node."""
    lost = set()
    for job in jobs:
        for task in job.tasks:
            name = (job.id, task.id)
            assigned = current.by_task.get(name)
            has_lost = any(each.node not in fog.by_name for each in assigned or ())
            if has_lost or (assigned is None and name in before):
                lost.add(name)
    return frozenset(lost)
