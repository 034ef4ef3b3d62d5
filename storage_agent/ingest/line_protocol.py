"""The parsing of points in Influx line protocol."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from line_protocol_parser import LineFormatError, parse_line  # type: ignore[import-untyped]

from mistbow.errors import InvalidRequestError
from storage_agent.ingest.entity_label import EntityLabel
from storage_agent.ingest.point_batch import PointBatch, Rejection

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
_MARK = re.compile(rb'\\.|[ =,"]')
"""Matches what determines where a text begins and ends; an escaped character determines nothing."""
_TEXT = Rejection("text", "the value is text, and only numbers are stored")
_NOT_FINITE = Rejection("value", "the line protocol has no NaN and no infinities")


@dataclass(frozen=True, slots=True)
class LineFormat:
    """The options for the conversion of lines to points.

    ``entity``: determines the entity by the tags. ``now``: the timestamp (ms) for lines without a
    timestamp. ``unit_ns``: the length of the unit of timestamps (ns).
    """

    entity: EntityLabel
    now: int
    unit_ns: int


def parse_precision(precision: str | None) -> int:
    """Return the length (ns) of a time unit; ``precision``: the name of the unit, by default ns.

    Raises ``InvalidRequestError`` for an unknown unit.
    """
    unit = _NANOSECONDS.get(precision or "ns")
    if unit is None:
        names = ", ".join(_NANOSECONDS)
        raise InvalidRequestError(f"precision: {precision!r} is not one of {names}")
    return unit


def parse_lines(body: bytes, line_format: LineFormat, batch: PointBatch) -> bool:
    """Add the points of a body, and the rejected points, to a batch.

    Return whether all parsed lines have timestamps.
    """
    timed = True
    for number, line in split_lines(body):
        batch.count_parts(1)
        text = line.strip()
        if not text or text.startswith(b"#"):
            continue
        try:
            found = parse_line(text.decode())
        except UnicodeDecodeError:
            batch.reject(Rejection("syntax", "the line is not valid UTF-8"), f"line {number}", "?")
        except LineFormatError as error:
            shown = text.decode(errors="replace")
            batch.reject(Rejection("syntax", f"unable to parse: {error}"), f"line {number}", shown)
        else:
            timed = timed and found["time"] is not None
            _add_line(f"line {number}", found, line_format, batch)
    return timed


def split_lines(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a body, each with its number, counted from 1.

    As in Influx, a text between quotes may contain line ends. Otherwise, whoever determines such a
    text could add points of any series.

    >>> list(split_lines(b'log text="a\\nb",n=1\\nm value=2'))
    [(1, b'log text="a\\nb",n=1'), (3, b'm value=2')]
    """
    parts: list[bytes] = []
    quotes = _Quotes()
    for number, part in enumerate(body.split(b"\n"), 1):
        if not parts and b'"' not in part:
            yield number, part  # the common case
            continue
        parts.append(part)
        quotes.scan(part)
        if not quotes.in_text:
            yield number - len(parts) + 1, b"\n".join(parts)
            parts, quotes = [], _Quotes()
    if parts:
        yield body.count(b"\n") + 2 - len(parts), b"\n".join(parts)


@dataclass(slots=True)
class _Quotes:
    """Finds the texts between quotes in a line; a quote begins a text after the ``=`` of a field.

    ``in_text``: whether the scanned parts end within a text.
    """

    in_text: bool = False
    in_fields: bool = False
    equals: int = 0
    commas: int = 0

    def scan(self, part: bytes) -> None:
        """Scan the next part of a line, up to a line end."""
        if part.startswith(b"#") and not self.in_text:
            return
        for mark in _MARK.finditer(part):
            if mark[0] == b'"':
                self.in_text = not self.in_text and self.in_fields and self.equals > self.commas
            elif not self.in_text:
                self.in_fields = self.in_fields or mark[0] == b" "
                self.equals += self.in_fields and mark[0] == b"="
                self.commas += self.in_fields and mark[0] == b","


def _add_line(
    where: str, line: Mapping[str, Any], line_format: LineFormat, batch: PointBatch
) -> None:
    measurement, tags, timestamp = line["measurement"], dict(line["tags"]), line["time"]
    entity = line_format.entity.take(tags)
    rejected = None
    try:
        time = _time(timestamp, line_format, batch)
    except InvalidRequestError as error:
        time, rejected = 0, Rejection("time", f"{error.message}; set the parameter precision")
    for field, value in line["fields"].items():
        metric = measurement if field == "value" else f"{measurement}_{field}"
        rejection = _rejection(value) or rejected
        try:
            if rejection is None:
                described = batch.describe({"metricID": metric, "entityID": entity, "labels": tags})
                rejection = batch.add(described, float(value), time)
        except ValueError as error:
            rejection = Rejection("series", str(error))
        if rejection is not None:
            batch.reject(rejection, where, f"{metric} of {entity}")


def _time(timestamp: int | None, line_format: LineFormat, batch: PointBatch) -> int:
    """Return the time of a line (ms); raises ``InvalidRequestError`` for another unit."""
    if timestamp is None:
        return line_format.now
    return int(batch.timestamps.read(timestamp, "the time", line_format.unit_ns))


def _rejection(value: str | float) -> Rejection | None:
    if isinstance(value, str):
        return _TEXT
    return None if math.isfinite(value) else _NOT_FINITE
