"""Influx line protocol: from lines to points."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from line_protocol_parser import LineFormatError, parse_line  # type: ignore[import-untyped]

from mistbow.errors import InvalidRequestError
from storage_agent.ingest.collecting import Collector, Fault

_NANOSECONDS: Mapping[str, int] = {
    "ns": 1,
    "n": 1,
    "us": 10**3,
    "u": 10**3,
    "µ": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_MILLISECOND = 10**6
_TEXT = Fault("text", "its value is text, and only numbers are stored")


@dataclass(frozen=True, slots=True)
class Reading:
    """How lines are read: the tag that is the entity, else ``default``; ``now`` in ms, where a
    line has no time; the ``unit`` of times in ns.
    """

    tag: str
    default: str
    now: int
    unit: int


def unit_of(precision: str | None) -> int:
    """Return the nanoseconds of a unit of time; raises ``InvalidRequestError``."""
    unit = _NANOSECONDS.get(precision or "ns")
    if unit is None:
        known = ", ".join(_NANOSECONDS)
        raise InvalidRequestError(f"precision: {precision!r} is not one of {known}")
    return unit


def collect(body: bytes, reading: Reading, into: Collector) -> bool:
    """Gather the points of a body, and tell whether every line of them has a time of its own."""
    timed = True
    for number, line in enumerate(body.split(b"\n"), 1):
        into.look_at(1)
        text = line.strip()
        if not text or text.startswith(b"#"):
            continue
        try:
            found = parse_line(text.decode())
        except UnicodeDecodeError:
            into.refuse(Fault("syntax", "it is not valid UTF-8"), f"line {number}", "?")
        except LineFormatError as error:
            shown = text.decode(errors="replace")
            into.refuse(Fault("syntax", f"unable to parse: {error}"), f"line {number}", shown)
        else:
            timed = timed and found["time"] is not None
            _collect_line(f"line {number}", found, reading, into)
    return timed


def _collect_line(where: str, line: Mapping[str, Any], reading: Reading, into: Collector) -> None:
    measurement, tags, given = line["measurement"], dict(line["tags"]), line["time"]
    entity = tags.pop(reading.tag, reading.default)
    time = reading.now if given is None else given * reading.unit // _MILLISECOND
    for field, value in line["fields"].items():
        metric = measurement if field == "value" else f"{measurement}_{field}"
        fault = _TEXT if isinstance(value, str) else None
        try:
            if fault is None:
                described = into.describe({"metricID": metric, "entityID": entity, "labels": tags})
                fault = into.add(described, float(value), time)
        except ValueError as error:
            fault = Fault("series", str(error))
        if fault is not None:
            into.refuse(fault, where, f"{metric} of {entity}")
