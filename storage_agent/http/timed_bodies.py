"""Decodes JSON bodies with timestamps, in the units that the agent accepts."""

from collections.abc import Callable, Hashable
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, cast

import msgspec

from mistbow.errors import InvalidRequestError, TooLargeError
from mistbow.timestamps import Timestamps
from storage_agent.http.decode import (
    check_values,
    decode_beside,
    decode_body,
    decode_fields,
    has_too_many_values,
)

B = TypeVar("B", bound=msgspec.Struct)

Convert = Callable[[dict[str, Any]], dict[str, Any]]
"""Takes the fields of a body; returns the fields with values of the required types."""

_FIELDS = msgspec.json.Decoder(dict[str, Any])
_BOUNDS = ("from", "to")
_LISTS = ("monitoring", "analytics", "application", "app", "routing")


async def read_timed(
    decoder: msgspec.json.Decoder[B],
    body: bytes,
    timestamps: Timestamps,
    convert: Convert = dict,
) -> B:
    """Return the same as ``decode_timed``; a large body is converted in a thread."""
    decoded = _decode_as_sent(decoder, body, timestamps)
    if decoded is not None:
        return decoded
    return await decode_beside(
        len(body), lambda: _decode_converted(decoder, body, timestamps, convert)
    )


def decode_timed(
    decoder: msgspec.json.Decoder[B],
    body: bytes,
    timestamps: Timestamps,
    convert: Convert = dict,
) -> B:
    """Return the decoded JSON body, with timestamps in milliseconds.

    A body that is invalid at first is converted by ``convert``, and then its timestamps are read.
    Raises ``InvalidRequestError`` if the converted body is invalid too, or if the unit of a
    timestamp is refused, and ``TooLargeError`` for a body with too many values to convert.
    """
    decoded = _decode_as_sent(decoder, body, timestamps)
    if decoded is not None:
        return decoded
    return _decode_converted(decoder, body, timestamps, convert)


def _decode_converted(
    decoder: msgspec.json.Decoder[B], body: bytes, timestamps: Timestamps, convert: Convert
) -> B:
    """Return the decoded body, after conversion of invalid fields and of its timestamps."""
    try:
        decode_body(decoder, body)
    except InvalidRequestError:
        fields = decode_fields(body)
        if fields is None:
            # An invalid value may come after a number that the conversion would accept.
            check_values(body)
            raise
        fields = convert(fields)
    else:
        if has_too_many_values(body):
            raise TooLargeError(
                "the body has too many values to convert its timestamps",
                hint="Send fewer values at once, or timestamps in ms.",
            )
        # An invalid text in an unknown field is found only now.
        fields = decode_body(_FIELDS, body)
    return decode_body(decoder, msgspec.json.encode(timestamps.read_fields(fields)))


def _decode_as_sent(
    decoder: msgspec.json.Decoder[B], body: bytes, timestamps: Timestamps
) -> B | None:
    """Return the decoded body; None: it is invalid, or has a timestamp of another unit."""
    try:
        decoded = decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    times = _times(decoded)
    return decoded if not times or timestamps.accepts(min(times), max(times)) else None


def _times(body: msgspec.Struct) -> list[float]:
    times: list[float | None] = []
    bounds, lists = _time_fields(type(body))
    for name in lists:
        if items := getattr(body, name):
            times += map(_time_of(cast(Hashable, type(items[0]))), items)
    for name in bounds:
        times.append(getattr(body, name))
    if None not in times:  # usual for many points: each has a time
        return cast("list[float]", times)
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
