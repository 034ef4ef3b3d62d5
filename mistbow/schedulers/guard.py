"""Asking schedulers safely: one that raises, hangs, dies or places nonsense changes nothing."""

import math
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

import msgspec

from mistbow.fog.jobs import Job, Placement, Refusal
from mistbow.fog.snapshot import Fog
from mistbow.schedulers import process
from mistbow.schedulers.interface import Decision
from mistbow.schedulers.process import Question
from mistbow.schedulers.room import Room
from mistbow.schedulers.validity import faults
from mistbow.telemetry import get_logger

LIMIT_S = 5.0
"""How long a scheduler may take; of this a process needs some tenths to start."""

_SECRETS = ("MISTBOW_TOKEN", "MISTBOW_TOKEN_FILE")
_NO_SETTINGS: Mapping[str, Mapping[str, str]] = {}
_NONE_RESTS: Mapping[str, str] = {}
_log = get_logger(__name__)


class Outcome(msgspec.Struct, frozen=True):
    """What is in force from now on, and of each scheduler that failed, why."""

    decision: Decision
    problems: Mapping[str, str]


class _FailedError(Exception):
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

    A scheduler sees only its own jobs; what the others hold is not free. Where one fails, its
    jobs stay as they are in ``current``, but for what ran on lost nodes; so also where one is
    ``resting``, which gives the problem by its name, and is not asked. Takes up to ``limit_s`` for
    each scheduler: call it from a thread.
    """
    groups = {
        name: tuple(job for job in jobs if job.scheduler == name)
        for name in sorted({job.scheduler for job in jobs})
    }
    decisions = {name: _kept(group, fog, current, "") for name, group in groups.items()}
    problems = {}
    for name, group in groups.items():
        others = [(groups[other], decisions[other]) for other in groups if other != name]
        left = _left(fog, others)
        question = Question(settings.get(name, {}), group, left, current.of(group))
        try:
            if name in resting:
                raise _FailedError(resting[name])
            decisions[name] = _ask(name, question, limit_s)
        except _FailedError as error:
            problems[name] = str(error)
            decisions[name] = _kept(group, fog, current, f"scheduler {name}: {error}")
            if name not in resting:
                _log.warning("scheduler failed", scheduler=name, problem=str(error))
    return Outcome(_joined(list(decisions.values())), problems)


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
    answer = _answer(name, msgspec.json.encode(question), limit_s)
    try:
        decision = msgspec.json.decode(answer, type=Decision)
    except msgspec.MsgspecError as error:
        raise _FailedError(f"it returned no decision: {error}") from error
    if found := faults(decision, question.jobs, question.fog):
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise _FailedError(f"its placement is not possible: {found[0]}{more}")
    return decision


def _answer(name: str, question: bytes, limit_s: float) -> bytes:
    # A thread cannot be ended, and one that loops would take the service's time for ever; a
    # process can. It is a new one each time, so that no state of a scheduler outlives an answer.
    argv = [sys.executable, "-P", "-m", process.__name__, name, str(math.ceil(limit_s) + 1)]
    with subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={key: value for key, value in os.environ.items() if key not in _SECRETS},
        start_new_session=True,
    ) as child:
        try:
            answer, complaint = child.communicate(question, limit_s)
        except subprocess.TimeoutExpired:
            # With all that it may have started itself.
            os.killpg(child.pid, signal.SIGKILL)
            raise _FailedError(f"no answer within {limit_s:g} s") from None
    if child.returncode != 0:
        _fail(child.returncode, complaint)
    return answer


def _fail(code: int, complaint: bytes) -> NoReturn:
    lines = complaint.decode(errors="replace").strip().splitlines()
    how = f"its process ended with {code}" if code > 0 else f"its process died of signal {-code}"
    raise _FailedError(lines[-1][:500] if lines and code == 1 else how)
