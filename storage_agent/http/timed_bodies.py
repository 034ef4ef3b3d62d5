"""Decodes JSON bodies with timestamps, in whatever unit the agent accepts."""

from collections.abc import Callable, Hashable
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, cast

import msgspec

from mistbow.errors import InvalidRequestError
from mistbow.timestamps import Timestamps
from storage_agent.http.decode import decode_body

B = TypeVar("B", bound=msgspec.Struct)

Convert = Callable[[dict[str, Any]], dict[str, Any]]
"""Takes the fields of a body; returns the fields with values of the required types."""

_BOUNDS = ("from", "to")
_LISTS = ("monitoring", "analytics", "application", "app", "routing")


def decode_timed(
    decoder: msgspec.json.Decoder[B],
    body: bytes,
    timestamps: Timestamps,
    convert: Convert = dict,
) -> B:
    """Return the decoded body, with timestamps in milliseconds.

    A body that is invalid at first is converted by ``convert``, and then its timestamps are read.
    Raises ``InvalidRequestError`` if the converted body is invalid too, or if the unit of a
    timestamp is refused.
    """
    try:
        decoded = decode_body(decoder, body)
    except InvalidRequestError:
        try:
            fields = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            raise
        fields = convert(fields)
    else:
        times = _times(decoded)
        if not times or timestamps.accepts(min(times), max(times)):
            return decoded
        fields = msgspec.json.decode(body)
    return decode_body(decoder, msgspec.json.encode(timestamps.read_fields(fields)))


def _times(body: msgspec.Struct) -> list[float]:
    times: list[float | None] = []
    bounds, lists = _time_fields(type(body))
    for name in lists:
        if items := getattr(body, name):
            times += map(_time_of(cast(Hashable, type(items[0]))), items)
    for name in bounds:
        times.append(getattr(body, name))
    return [time for time in times if time is not None]


@cache
def _time_fields(body: type[msgspec.Struct]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the attributes of a body's type that are times, and those that are lists of items."""
    fields = msgspec.structs.fields(body)
    bounds = tuple(each.name for each in fields if each.encode_name in _BOUNDS)
    return bounds, tuple(each.name for each in fields if each.encode_name in _LISTS)


@cache
def _time_of(item: Hashable) -> Callable[[Any], float | None]:
    """Return the function that gets the time of an item, such as a point."""
    fields = msgspec.structs.fields(cast(type[msgspec.Struct], item))
    [name] = (each.name for each in fields if each.encode_name == "timestamp")
    return attrgetter(name)
