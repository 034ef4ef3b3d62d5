"""The process in which one scheduler answers one question: stdin to stdout, JSON.

``python -m mistbow.schedulers.process NAME SECONDS``
"""

import os
import signal
import sys
from collections.abc import Mapping

import msgspec

from mistbow.fog.jobs import Job, Placement
from mistbow.fog.snapshot import Fog
from mistbow.schedulers.registry import load


class Question(msgspec.Struct, frozen=True):
    """What ``prepare`` and ``schedule`` are called with."""

    settings: Mapping[str, str]
    jobs: tuple[Job, ...]
    fog: Fog
    current: Placement


def main(name: str, seconds: int) -> None:
    """Answer the question on stdin; an exception ends the process with its traceback."""
    # Should the parent die, nobody else would end a scheduler that hangs.
    signal.alarm(seconds)
    # The answer has stdout to itself: what a scheduler prints goes to stderr.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answer:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
        scheduler = load(name)
        scheduler.prepare(question.settings)
        decision = scheduler.schedule(question.jobs, question.fog, question.current)
        answer.write(msgspec.json.encode(decision))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
