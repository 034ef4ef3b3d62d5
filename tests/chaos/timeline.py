"""The events in the logs of a fog's services between a worker's death and the next result."""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tests.chaos.recovery import GOAL_MS, Recovery
from tests.chaos.storm import StormLog

_NEVER_MS = 120_000
"""The length (ms) of the timeline of a death after which no result came."""

_EVENTS = frozenset({
    "worker_suspected", "worker_lost", "worker_returned", "placement_requested",
    "scheduler_failed", "fragment_sent",
    "fragment_failed", "fragment_fenced", "spark_started", "query_started", "query_abandoned",
    "streams_claimed", "query_running", "reconciliation_failed", "reconciliation_recovered",
    "worker_reconciliation_failed", "worker_reconciliation_recovered",
})  # fmt: skip
_FIELDS = (
    "worker", "fragment", "causes", "scheduler", "reason", "problem", "error", "batches",
    "spent_ms",
)  # fmt: skip
_MAX_FIELD = 200


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event of a service's log, or of the storm.

    ``at``: its time (ms). ``text``: the event and its fields.
    """

    at: int
    service: str
    text: str


def logged_events(home: Path) -> list[LoggedEvent]:
    """Return the events of recoveries in the logs of all sites.

    ``home``: the folder with a folder for each site.
    """
    files = sorted(home.glob("*/logs/*.jsonl*"))
    return [event for file in files for event in _read(file)]


def fault_events(log: StormLog) -> Iterator[LoggedEvent]:
    """Yield the beginnings and ends of the faults of a storm."""
    for fault in log.injected:
        text = f"{fault.step.fault}: {fault.step.target}"
        yield LoggedEvent(fault.at, "storm", text)
        if fault.until is not None:
            yield LoggedEvent(fault.until, "storm", f"end of {text}")


def timeline(recovery: Recovery, events: Iterable[LoggedEvent]) -> Iterator[str]:
    """Yield a line for each event until the next result; none for a recovery within the goal.

    Of equal events of a service in a row, only the first one has a line.
    """
    length = _NEVER_MS if recovery.next is None else recovery.next
    if length <= GOAL_MS:
        return
    last: dict[str, str] = {}
    for event in sorted(events, key=lambda each: each.at):
        after = event.at - recovery.death.at
        if 0 <= after <= length and last.get(event.service) != event.text:
            last[event.service] = event.text
            yield f"    {after / 1000:+7.1f} s {event.service}: {event.text}"


def _read(file: Path) -> Iterator[LoggedEvent]:
    service = f"{file.name.partition('.')[0]} of {file.parents[1].name}"
    # A service that still writes may move its log meanwhile.
    with suppress(FileNotFoundError), file.open(errors="replace") as lines:
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:  # a killed service may have written a part of a line
                continue
            if isinstance(event, dict) and event.get("event") in _EVENTS:
                at = datetime.fromisoformat(event["timestamp"])
                yield LoggedEvent(round(at.timestamp() * 1000), service, _text(event))


def _text(event: dict[str, object]) -> str:
    values = [f"{name}={event[name]!s:.{_MAX_FIELD}}" for name in _FIELDS if name in event]
    return " ".join([str(event["event"]), *values])
