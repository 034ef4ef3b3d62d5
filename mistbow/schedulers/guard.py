"""Asking schedulers safely: one that raises, hangs, dies or places nonsense changes nothing."""

import math
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

import msgspec

from mistbow.fog.costs import cheapest, cost_per_hour
from mistbow.fog.jobs import Job, Placement, Refusal
from mistbow.fog.snapshot import Fog
from mistbow.packages import environment
from mistbow.schedulers import process
from mistbow.schedulers.confining import nodes_for, none_left, only
from mistbow.schedulers.interface import Decision
from mistbow.schedulers.process import Question
from mistbow.schedulers.room import Room
from mistbow.schedulers.validity import faults
from mistbow.telemetry import get_logger

LIMIT_S = 5.0
"""How long a scheduler may take; of this a process needs some tenths to start."""

_NO_SETTINGS: Mapping[str, Mapping[str, str]] = {}
_NONE_RESTS: Mapping[str, str] = {}
_log = get_logger(__name__)


class Outcome(msgspec.Struct, frozen=True):
    """What is in force from now on, of each question to a scheduler that failed, why, and what
    each job that has a place costs an hour.
    """

    decision: Decision
    problems: Mapping[str, str]
    costs: Mapping[str, float] = {}


class FailedError(Exception):
    """A scheduler gave no answer that can be carried out."""


def decide(
    jobs: Sequence[Job],
    fog: Fog,
    current: Placement,
    settings: Mapping[str, Mapping[str, str]] = _NO_SETTINGS,
    limit_s: float = LIMIT_S,
    resting: Mapping[str, str] = _NONE_RESTS,
) -> Outcome:
    """Have each job placed by its scheduler, which gets its ``settings`` by its name.

    A scheduler sees only jobs of the same question and the nodes that these may have; what others
    hold is not free. Where one fails, its jobs stay as they are in ``current``, but for what ran on
    nodes that are lost or not theirs; so also where a question is ``resting``, which gives the
    problem by its name, and is not asked. What would cost more than its cap has no place. Takes up
    to ``limit_s`` for each question: call it from a thread.
    """
    groups = {
        name: tuple(job for job in jobs if job.question == name)
        for name in sorted({job.question for job in jobs})
    }
    nodes = nodes_for(jobs, fog, current)
    # Jobs of one question may have the same nodes: one that may not is asked for by itself.
    fogs = {name: only(fog, nodes[group[0].id]) for name, group in groups.items()}
    decisions = {name: _kept(group, fogs[name], current, "") for name, group in groups.items()}
    problems = {}
    for name, group in groups.items():
        others = [(groups[other], decisions[other]) for other in groups if other != name]
        left = only(_left(fog, others), fogs[name].by_name)
        given = {**settings.get(group[0].scheduler, {}), **group[0].settings}
        question = Question(given, group, left, current.of(group))
        try:
            if name in resting:
                raise FailedError(resting[name])
            decisions[name] = _decided(question, fog, limit_s)
        except FailedError as error:
            problems[name] = str(error)
            decisions[name] = _kept(group, fogs[name], current, f"scheduler {name}: {error}")
            if name not in resting:
                _log.warning("scheduler failed", scheduler=name, problem=str(error))
    costs = {
        job.id: cost_per_hour(job, decisions[name].placement, fogs[name])
        for name, group in groups.items()
        for job in decisions[name].placed(group)
    }
    return Outcome(_joined(list(decisions.values())), problems, costs)


def _decided(question: Question, fog: Fog, limit_s: float) -> Decision:
    first = question.jobs[0]
    if not question.fog.nodes and first.confined is not None:
        return _refused(first, none_left(first, fog))
    decision = _ask(first.scheduler, question, limit_s)
    if first.cap is None or (over := _over(first, decision, question.fog)) is None:
        return decision
    # It need not know what is dear: it gets one more try on the cheapest nodes alone.
    cheap = only(question.fog, cheapest(first, question.fog))
    if cheap.nodes != question.fog.nodes and not (first.confined and first.confined.dedicated):
        again = _ask(first.scheduler, msgspec.structs.replace(question, fog=cheap), limit_s)
        if _over(first, again, cheap) is None:
            return again
    return _refused(first, over)


def _over(job: Job, decision: Decision, fog: Fog) -> str | None:
    """Say by how much a job would cost more than it may, if it would."""
    if job.cap is None:
        return None
    cost = cost_per_hour(job, decision.placement, fog)
    cap = job.cap.per_hour
    if cost <= cap:
        return None
    return f"it would cost {cost:.4g} an hour, {cost - cap:.4g} more than its COST_CAP of {cap:.4g}"


def _refused(job: Job, reason: str) -> Decision:
    refusals = [Refusal(job=job.id, task=task.id, reason=reason) for task in job.tasks]
    return Decision(Placement(), tuple(refusals))


def _left(fog: Fog, others: Sequence[tuple[Sequence[Job], Decision]]) -> Fog:
    room = Room(fog)
    for jobs, decision in others:
        for job in jobs:
            for task in job.tasks:
                for at in decision.placement.by_task.get((job.id, task.id), ()):
                    room.take(task, at.node, at.share)
    return room.fog()


def _kept(jobs: Sequence[Job], fog: Fog, current: Placement, reason: str) -> Decision:
    alive = [at for at in current.of(jobs).assignments if at.node in fog.by_name]
    placement = Placement(tuple(alive))
    tasks = [(job.id, task.id) for job in jobs for task in job.tasks]
    refused = [
        Refusal(job=job, task=task, reason=reason)
        for job, task in tasks
        if (job, task) not in placement.by_task
    ]
    return Decision(placement, tuple(refused))


def _joined(decisions: Sequence[Decision]) -> Decision:
    assignments = [at for decision in decisions for at in decision.placement.assignments]
    refused = [refusal for decision in decisions for refusal in decision.refusals]
    assignments.sort(key=lambda at: (at.job, at.task, at.node))
    return Decision(Placement(tuple(assignments)), tuple(refused))


def _ask(name: str, question: Question, limit_s: float) -> Decision:
    answer = answer_of(name, msgspec.json.encode(question), limit_s)
    try:
        decision = msgspec.json.decode(answer, type=Decision)
    except msgspec.MsgspecError as error:
        raise FailedError(f"it returned no decision: {error}") from error
    if found := faults(decision, question.jobs, question.fog):
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise FailedError(f"its placement is not possible: {found[0]}{more}")
    return decision


def answer_of(name: str, question: bytes, limit_s: float) -> bytes:
    """Return what a scheduler's process answers; raises ``FailedError``."""
    # A thread cannot be ended, and one that loops would take the service's time for ever; a
    # process can. It is a new one each time, so that no state of a scheduler outlives an answer.
    argv = [sys.executable, "-P", "-m", process.__name__, name, str(math.ceil(limit_s) + 1)]
    with subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        start_new_session=True,
    ) as child:
        try:
            answer, complaint = child.communicate(question, limit_s)
        except subprocess.TimeoutExpired:
            # With all that it may have started itself.
            os.killpg(child.pid, signal.SIGKILL)
            raise FailedError(f"no answer within {limit_s:g} s") from None
    if child.returncode != 0:
        _fail(child.returncode, complaint)
    return answer


def _fail(code: int, complaint: bytes) -> NoReturn:
    lines = complaint.decode(errors="replace").strip().splitlines()
    how = f"its process ended with {code}" if code > 0 else f"its process died of signal {-code}"
    raise FailedError(lines[-1][:500] if lines and code == 1 else how)
