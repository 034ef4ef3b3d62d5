"""The program of the sandbox that runs one scheduler: reads requests, and writes decisions.

``python -m analytics_enabler.scheduling.sandbox.child NAME`` loads the scheduler, writes ``READY``,
and then answers requests from stdin until stdin ends. Requests and answers are JSON behind a
header.
"""

import signal
import struct
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from analytics.sandbox import answers
from analytics_enabler.scheduling.model.jobs import Job, Placement, Setting
from analytics_enabler.scheduling.model.snapshot import Fog
from analytics_enabler.scheduling.registry import load_scheduler

START_S = 60
"""The time (s) after which a process that is not ready ends itself."""

READY = b"\n"
"""The message of a process that has loaded its scheduler."""

REQUEST_HEADER = struct.Struct("<II")
"""The header of a request: the number of its bytes, and the time limit (s)."""

ANSWER_HEADER = struct.Struct("<I")
"""The header of an answer: the number of its bytes."""


class SchedulingRequest(msgspec.Struct, frozen=True):
    """The arguments of ``Scheduler.prepare`` and ``Scheduler.schedule``."""

    settings: Mapping[str, Setting]
    jobs: tuple[Job, ...]
    fog: Fog
    current: Placement


def main(name: str) -> None:
    """Answer requests to the scheduler ``name``; an exception ends the process with a traceback.

    A process that exceeds the time limit of a request ends itself.
    """
    # If the parent dies, nobody else kills a scheduler that hangs.
    signal.alarm(START_S)
    with answers() as output:
        load_scheduler(name)
        signal.alarm(0)
        output.write(READY)
        output.flush()
        while header := sys.stdin.buffer.read(REQUEST_HEADER.size):
            length, seconds = REQUEST_HEADER.unpack(header)
            request = sys.stdin.buffer.read(length)
            signal.alarm(seconds)
            answer = _answer(name, request)
            signal.alarm(0)
            output.write(ANSWER_HEADER.pack(len(answer)) + answer)
            output.flush()


def _answer(name: str, request: bytes) -> bytes:
    """Return the decision; if the request is ``null``, return the settings of the scheduler."""
    # A new scheduler for each request, because a scheduler has no state between requests.
    scheduler = load_scheduler(name)
    asked = msgspec.json.decode(request, type=SchedulingRequest | None)
    if asked is None:
        return msgspec.json.encode(declared_settings(scheduler))
    scheduler.prepare(asked.settings)
    return msgspec.json.encode(scheduler.schedule(asked.jobs, asked.fog, asked.current))


def declared_settings(scheduler: object) -> dict[str, dict[str, Any]]:
    """Return setting -> JSON schema, for the settings that a scheduler declares."""
    declared = getattr(scheduler, "Settings", None)
    if declared is None:
        return {}
    (_,), definitions = msgspec.json.schema_components([declared], ref_template="#/$defs/{name}")
    properties = definitions[declared.__name__]["properties"]
    return {name: {**schema, "$defs": definitions} for name, schema in properties.items()}


if __name__ == "__main__":
    main(sys.argv[1])
