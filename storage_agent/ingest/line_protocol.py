"""The parsing of points in Influx line protocol."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from line_protocol_parser import LineFormatError, parse_line  # type: ignore[import-untyped]

from mistbow.errors import InvalidRequestError
from storage_agent.ingest.entity_label import EntityLabel
from storage_agent.ingest.point_batch import MAX_SERIES_LENGTH, PointBatch, Rejection

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
MAX_LINE_BYTES = 128 * 2**10
_MAX_TAGS = 1000
"""The maximum number of commas before the fields of a line, also of escaped ones.

The time of the parser, which lets no other thread run, is quadratic in the number of tags.
"""

_MARK = re.compile(rb'\\.|[ =,"\n]')
"""Matches the characters that begin or end a text; escaped characters are skipped."""

_REST_OF_TEXT = re.compile(rb'(?:[^"\\]++|\\(?:.|(?=\n)|\Z))*+"')
"""Matches the rest of a text, with the quote that ends it."""

_HEAD = re.compile(rb"(?:[^ \\]++|\\.?)*+")
"""Matches the measurement and the tags of a line."""

_FIELD = re.compile(rb'((?:[^=\\]++|\\.?)*+)=(?:"(?:[^"\\]++|\\.)*+"|[^ ,]*+),?', re.DOTALL)
"""Matches a field, with the comma before the next one; its group is the name, still escaped."""

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
            _check_size(text)
            found = parse_line(text.decode())
            _check_fields(text, found)
        except UnicodeDecodeError:
            batch.reject(Rejection("syntax", "the line is not valid UTF-8"), f"line {number}", "?")
        except (LineFormatError, ValueError) as error:
            shown = text[:MAX_SERIES_LENGTH].decode(errors="replace")
            batch.reject(Rejection("syntax", f"unable to parse: {error}"), f"line {number}", shown)
        else:
            timed = timed and found["time"] is not None
            _add_line(f"line {number}", found, line_format, batch)
    return timed


def _check_size(line: bytes) -> None:
    """Raise ``ValueError`` for a line that would take the parser too long."""
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"the line has more than {MAX_LINE_BYTES} bytes")
    if line.count(b",") > _MAX_TAGS:
        head = _HEAD.match(line)
        if head is not None and head[0].count(b",") > _MAX_TAGS:
            raise ValueError(f"the line has more than {_MAX_TAGS} tags")


def _check_fields(line: bytes, parsed: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` if a field is repeated: the parser returns only one of its values."""
    pairs = len(parsed["tags"]) + len(parsed["fields"])
    # Each tag and field has an equals sign of its own; escaped ones and those in texts are rare.
    head = _HEAD.match(line) if line.count(b"=") > pairs else None
    if head is None:
        return
    fields = line[head.end() :].lstrip(b" ")
    names, at = set(), 0
    while field := _FIELD.match(fields, at):
        name, at = field[1], field.end()
        if name in names:
            shown = name[:MAX_SERIES_LENGTH].decode(errors="replace")
            raise ValueError(f"the field {shown} is repeated")
        names.add(name)
        if not field[0].endswith(b","):
            return


def split_lines(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a body, each with its number, counted from 1.

    As in Influx, a text between quotes may contain line ends. Otherwise, the author of such a text
    could add points of any series.

    >>> list(split_lines(b'log text="a\\nb",n=1\\nm value=2'))
    [(1, b'log text="a\\nb",n=1'), (3, b'm value=2')]
    """
    begin, number, quote = 0, 1, -1
    while begin <= len(body):
        end = body.find(b"\n", begin)
        end = len(body) if end < 0 else end
        if quote < begin:
            quote = body.find(b'"', begin)
            quote = len(body) if quote < 0 else quote
        if quote < end and not body.startswith(b"#", begin):
            end = _end_of_line(body, begin)
        yield number, body[begin:end]
        number += 1 + body.count(b"\n", begin, end)
        begin = end + 1


def _end_of_line(body: bytes, begin: int) -> int:
    """Return the end of a line with quotes; a quote begins a text after the ``=`` of a field."""
    in_fields, equals, commas = False, 0, 0
    at = begin
    while mark := _MARK.search(body, at):
        at = mark.end()
        found = mark[0]
        if found == b"\n":
            return mark.start()
        if found == b'"':
            if in_fields and equals > commas:
                rest = _REST_OF_TEXT.match(body, at)
                if rest is None:
                    break
                at = rest.end()
            continue
        in_fields = in_fields or found == b" "
        equals += in_fields and found == b"="
        commas += in_fields and found == b","
    return len(body)


def _add_line(
    where: str, line: Mapping[str, Any], line_format: LineFormat, batch: PointBatch
) -> None:
    measurement, tags, timestamp = line["measurement"], dict(line["tags"]), line["time"]
    entity = line_format.entity.take(tags)
    rejected, labelled = None, None
    try:
        time = _time(timestamp, line_format, batch)
    except InvalidRequestError as error:
        time, rejected = 0, Rejection("time", f"{error.message}; set the parameter precision")
    for field, value in line["fields"].items():
        metric = measurement if field == "value" else f"{measurement}_{field}"
        rejection = _rejection(value) or rejected
        try:
            if rejection is None:
                # The points of a line share its labels, which may be large.
                labels = {"labels": tags} if labelled is None else {}
                described = batch.describe({"metricID": metric, "entityID": entity, **labels})
                labelled = labelled or described
                described = msgspec.structs.replace(described, labels=labelled.labels)
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
