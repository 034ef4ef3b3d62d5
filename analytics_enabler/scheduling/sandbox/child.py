"""The program of the sandbox that runs one scheduler: reads a request, and writes a decision.

``python -m analytics_enabler.scheduling.sandbox.child NAME SECONDS`` reads JSON from stdin and
writes JSON to stdout.
"""

import signal
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from analytics.sandbox import answers
from analytics_enabler.scheduling.model.jobs import Job, Placement, Setting
from analytics_enabler.scheduling.model.snapshot import Fog
from analytics_enabler.scheduling.registry import load_scheduler


class SchedulingRequest(msgspec.Struct, frozen=True):
    """The arguments of ``Scheduler.prepare`` and ``Scheduler.schedule``."""

    settings: Mapping[str, Setting]
    jobs: tuple[Job, ...]
    fog: Fog
    current: Placement


def main(name: str, seconds: int) -> None:
    """Read a request from stdin, and write the answer of the scheduler ``name`` to stdout.

    If the request is ``null``, the answer contains the settings that the scheduler declares. An
    exception ends the process with a traceback. After ``seconds``, the process ends itself.
    """
    # If the parent dies, nobody else kills a scheduler that hangs.
    signal.alarm(seconds)
    with answers() as answer:
        request = msgspec.json.decode(sys.stdin.buffer.read(), type=SchedulingRequest | None)
        scheduler = load_scheduler(name)
        if request is None:
            answer.write(msgspec.json.encode(declared_settings(scheduler)))
            return
        scheduler.prepare(request.settings)
        decision = scheduler.schedule(request.jobs, request.fog, request.current)
        answer.write(msgspec.json.encode(decision))


def declared_settings(scheduler: object) -> dict[str, dict[str, Any]]:
    """Return setting -> JSON schema, for the settings that a scheduler declares."""
    declared = getattr(scheduler, "Settings", None)
    if declared is None:
        return {}
    (_,), definitions = msgspec.json.schema_components([declared], ref_template="#/$defs/{name}")
    properties = definitions[declared.__name__]["properties"]
    return {name: {**schema, "$defs": definitions} for name, schema in properties.items()}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
