"""The process in which one scheduler answers one question: stdin to stdout, JSON.

``python -m mistbow.schedulers.process NAME SECONDS``
"""

import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from mistbow.fog.jobs import Job, Placement, Setting
from mistbow.fog.snapshot import Fog
from mistbow.schedulers.registry import load


class Question(msgspec.Struct, frozen=True):
    """What ``prepare`` and ``schedule`` are called with."""

    settings: Mapping[str, Setting]
    jobs: tuple[Job, ...]
    fog: Fog
    current: Placement


def main(name: str, seconds: int) -> None:
    """Answer the question on stdin; an exception ends the process with its traceback.

    Of null, which is no question, the answer is which settings the scheduler takes.
    """
    # Should the parent die, nobody else would end a scheduler that hangs.
    signal.alarm(seconds)
    # The answer has stdout to itself: what a scheduler prints goes to stderr.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answer:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question | None)
        scheduler = load(name)
        if question is None:
            answer.write(msgspec.json.encode(settings_of(scheduler)))
            return
        scheduler.prepare(question.settings)
        decision = scheduler.schedule(question.jobs, question.fog, question.current)
        answer.write(msgspec.json.encode(decision))


def settings_of(scheduler: object) -> dict[str, dict[str, Any]]:
    """Return the JSON schema of each setting that a scheduler takes."""
    declared = getattr(scheduler, "Settings", None)
    if declared is None:
        return {}
    (_,), definitions = msgspec.json.schema_components([declared], ref_template="#/$defs/{name}")
    properties = definitions[declared.__name__]["properties"]
    return {name: {**schema, "$defs": definitions} for name, schema in properties.items()}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
