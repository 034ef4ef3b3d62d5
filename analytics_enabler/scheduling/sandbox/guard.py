"""Calls schedulers in a sandbox; if a scheduler fails, no task is moved."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from analytics.sandbox import SandboxError
from analytics_enabler.scheduling.builtin.capacity import FreeCapacity
from analytics_enabler.scheduling.builtin.eligibility import (
    candidate_nodes,
    no_candidate_reason,
    restrict,
)
from analytics_enabler.scheduling.interface import Decision
from analytics_enabler.scheduling.model.jobs import Job, Placement, Refusal
from analytics_enabler.scheduling.model.snapshot import Fog
from analytics_enabler.scheduling.prices import cheapest_nodes, cost_per_hour
from analytics_enabler.scheduling.sandbox.child import SchedulingRequest
from analytics_enabler.scheduling.sandbox.processes import PROCESSES
from analytics_enabler.scheduling.sandbox.validation import violations
from mistbow.telemetry import get_logger

LIMIT_S = 5.0
"""The time limit (s) of one call of a scheduler, without the start of its process."""

_NO_SETTINGS: Mapping[str, Mapping[str, str]] = {}
_NONE_SUSPENDED: Mapping[str, str] = {}
_log = get_logger(__name__)


class Outcome(msgspec.Struct, frozen=True):
    """The decision about all jobs.

    ``problems``: name of a scheduling request -> the reason why the scheduler failed. ``costs``: id
    of a placed job -> the cost of the job per hour.
    """

    decision: Decision
    problems: Mapping[str, str]
    costs: Mapping[str, float] = {}


class SchedulerFailedError(Exception):
    """The error that a scheduler returned no valid decision."""


CallScheduler = Callable[[str, SchedulingRequest, float], Decision]
"""Returns the decision of the scheduler with this name about a request, within a time limit (s).

The function raises ``SchedulerFailedError`` if the scheduler returns no decision.
"""


def call_in_sandbox(name: str, request: SchedulingRequest, limit_s: float) -> Decision:
    """Call a scheduler in a process of its own; see ``CallScheduler``."""
    try:
        answer = PROCESSES.call(name, msgspec.json.encode(request), limit_s)
        return msgspec.json.decode(answer, type=Decision)
    except SandboxError as error:
        raise SchedulerFailedError(str(error)) from error
    except msgspec.MsgspecError as error:
        raise SchedulerFailedError(f"the scheduler returned no decision: {error}") from error


def decide(
    jobs: Sequence[Job],
    fog: Fog,
    current: Placement,
    settings: Mapping[str, Mapping[str, str]] = _NO_SETTINGS,
    limit_s: float = LIMIT_S,
    suspended: Mapping[str, str] = _NONE_SUSPENDED,
    call: CallScheduler = call_in_sandbox,
) -> Outcome:
    """Return the decision about all jobs; each job is placed by the scheduler that it names.

    ``settings``: scheduler -> setting -> value, from the configuration of the enabler.
    ``suspended``: name of a scheduling request that is not sent -> the reason why the request
    failed before.

    A scheduler receives the jobs of one scheduling request, and only the nodes that these jobs may
    use, with the capacity that other jobs leave free. If the scheduler fails or the request is
    suspended, the jobs keep their ``current`` placement, except on nodes that are lost or that the
    jobs may no longer use. A job that would exceed its cost cap is not placed.

    Call this function in a thread: each call of a scheduler blocks for up to ``limit_s``.
    """
    requests = {
        name: tuple(job for job in jobs if job.request_name == name)
        for name in sorted({job.request_name for job in jobs})
    }
    nodes = candidate_nodes(jobs, fog, current)
    # Jobs of one request have the same nodes: a job with a constraint has a request of its own.
    fogs = {name: restrict(fog, nodes[group[0].id]) for name, group in requests.items()}
    decisions = {name: _retain(group, fogs[name], current, "") for name, group in requests.items()}
    problems = {}
    for name, group in requests.items():
        free = FreeCapacity(fog)
        for other, others in requests.items():
            if other != name:
                free.allocate_jobs(others, decisions[other].placement)
        values = {**settings.get(group[0].scheduler, {}), **group[0].settings}
        available = restrict(free.snapshot(), fogs[name].by_name)
        request = SchedulingRequest(values, group, available, current.of(group))
        try:
            if name in suspended:
                raise SchedulerFailedError(suspended[name])
            decisions[name] = _decide_request(request, fog, limit_s, call)
        except SchedulerFailedError as error:
            problems[name] = str(error)
            decisions[name] = _retain(group, fogs[name], current, f"scheduler {name}: {error}")
            if name not in suspended:
                _log.warning("scheduler_failed", scheduler=name, problem=str(error))
    costs = {
        job.id: cost_per_hour(job, decisions[name].placement, fogs[name])
        for name, group in requests.items()
        for job in decisions[name].placed(group)
    }
    return Outcome(_merge(list(decisions.values())), problems, costs)


def _decide_request(
    request: SchedulingRequest, fog: Fog, limit_s: float, call: CallScheduler
) -> Decision:
    first = request.jobs[0]
    if not request.fog.nodes and first.confined is not None:
        return _refuse(first, no_candidate_reason(first, fog))
    decision = _valid_decision(request, limit_s, call)
    excess = _excess_cost(first, decision, request.fog)
    if excess is None:
        return decision
    # A scheduler may ignore prices: it has a second try, on the cheapest nodes alone.
    cheap = restrict(request.fog, cheapest_nodes(first, request.fog))
    if cheap.nodes != request.fog.nodes and not (first.confined and first.confined.dedicated):
        cheap_request = msgspec.structs.replace(request, fog=cheap)
        second = _valid_decision(cheap_request, limit_s, call)
        if _excess_cost(first, second, cheap) is None:
            return second
    return _refuse(first, excess)


def _excess_cost(job: Job, decision: Decision, fog: Fog) -> str | None:
    """Return an error message if a job would exceed its cost cap; None: the cost is permitted."""
    if job.cap is None:
        return None
    cost = cost_per_hour(job, decision.placement, fog)
    cap = job.cap.per_hour
    if cost <= cap:
        return None
    return (
        f"the job would cost {cost:.4g} per hour, {cost - cap:.4g} more than its COST_CAP of "
        f"{cap:.4g}"
    )


def _refuse(job: Job, reason: str) -> Decision:
    refused = [Refusal(job=job.id, task=task.id, reason=reason) for task in job.tasks]
    return Decision(Placement(), tuple(refused))


def _retain(jobs: Sequence[Job], fog: Fog, current: Placement, reason: str) -> Decision:
    """Return the current placement, without assignments to nodes that ``fog`` lacks.

    Each task without an assignment has a refusal with the given reason.
    """
    left = [at for at in current.of(jobs).assignments if at.node in fog.by_name]
    placement = Placement(tuple(left))
    tasks = [(job.id, task.id) for job in jobs for task in job.tasks]
    refused = [
        Refusal(job=job, task=task, reason=reason)
        for job, task in tasks
        if (job, task) not in placement.by_task
    ]
    return Decision(placement, tuple(refused))


def _merge(decisions: Sequence[Decision]) -> Decision:
    assignments = [at for decision in decisions for at in decision.placement.assignments]
    refused = [refusal for decision in decisions for refusal in decision.refusals]
    assignments.sort(key=lambda at: (at.job, at.task, at.node))
    gaps = {job: gap for decision in decisions for job, gap in decision.gaps.items()}
    return Decision(Placement(tuple(assignments)), tuple(refused), gaps)


def _valid_decision(request: SchedulingRequest, limit_s: float, call: CallScheduler) -> Decision:
    decision = call(request.jobs[0].scheduler, request, limit_s)
    if found := violations(decision, request.jobs, request.fog):
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise SchedulerFailedError(f"the scheduler returned an invalid placement: {found[0]}{more}")
    return decision
