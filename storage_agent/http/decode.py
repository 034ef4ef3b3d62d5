"""Decodes JSON bodies strictly, with errors that name the invalid field."""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from mistbow.errors import InvalidRequestError
from storage_agent.http.body_problems import describe_problem, quote
from storage_agent.work_threads import ingest_beside

B = TypeVar("B")
T = TypeVar("T")

MAX_DEPTH = 32
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
"""Matches a bracket, or a complete string, whose brackets are thereby skipped."""

_MAX_LOOP_BYTES = 64 * 2**10
"""The maximum size of a body that is converted in the event loop."""

_MAX_LOCATED_BYTES = 256 * 2**10
"""The maximum size of a malformed body in which the invalid value is located."""

_MAX_OBJECTS = 250_000
"""The maximum number of objects and lists in a body that is decoded without its type.

The decoder lets no other thread run meanwhile.
"""

_MAX_VALUES = 2_000_000
"""The maximum number of commas in a body that is decoded without its type."""

_TRUNCATED = {
    "Input data was truncated": "the JSON of the body ends too early: a bracket or a quote is open"
}


def decode_body(decoder: msgspec.json.Decoder[B], body: bytes) -> B:
    """Return the decoded JSON body.

    Raises ``InvalidRequestError``, which names the invalid field.
    """
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise invalid_field(*describe_problem(error, decoder, body)) from error
    except RecursionError as error:
        raise invalid_field("", "the body is nested too deeply") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if not body.strip():
            raise invalid_field("", "the body is empty; send a JSON object") from error
        path, problem = _locate_malformed(body)
        raise invalid_field(path, problem or _TRUNCATED.get(str(error), str(error))) from error


def decode_fields(body: bytes) -> dict[str, Any] | None:
    """Return the fields of a JSON object with values of any types.

    None: the body is no JSON object, or has so many values that decoding them takes too long.
    """
    if has_too_many_values(body):
        return None
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def has_too_many_values(body: bytes) -> bool:
    """Return whether a JSON body may have more values than can be decoded in a short time."""
    objects = body.count(b"{") + body.count(b"[")
    return objects > _MAX_OBJECTS or body.count(b",") > _MAX_VALUES


async def decode_beside(size: int, decode: Callable[[], T]) -> T:
    """Call a function that decodes a body of ``size`` bytes; in a thread if the body is large."""
    return decode() if size <= _MAX_LOOP_BYTES else await ingest_beside(decode)


def decode_renamed(decoder: msgspec.json.Decoder[B], body: bytes, names: Mapping[str, str]) -> B:
    """Return the decoded JSON body, in which fields may have other names.

    ``names``: other name -> name of the field. Raises ``InvalidRequestError`` if the body is
    invalid, or has a field under both names.
    """
    fields = decode_fields(body)
    if fields is None or not fields.keys() & names.keys():
        return decode_body(decoder, body)
    for other, name in names.items():
        if other in fields and name in fields:
            raise invalid_field(other, f"the field repeats {name}")
    renamed = {names.get(name, name): value for name, value in fields.items()}
    return decode_body(decoder, msgspec.json.encode(renamed))


def invalid_field(path: str, problem: str) -> InvalidRequestError:
    """Return the error for an invalid field of a body.

    ``path``: the path of the field; empty if the body as a whole is invalid.
    """
    hint = "The service's /docs shows what this request takes."
    return InvalidRequestError(f"{path}: {problem}" if path else problem, hint=hint)


def check_values(body: bytes) -> None:
    """Raise ``InvalidRequestError``, which names the field, if a value is beyond JSON or floats.

    An example is 1e309. The check omits large bodies.
    """
    path, problem = _locate_malformed(body)
    if problem:
        raise invalid_field(path, _in_words(problem))


def _in_words(problem: str) -> str:
    is_infinite = problem.removeprefix("-").startswith("inf ")
    return "Number out of range" if is_infinite else problem


def check_depth(text: str, path: str, max_depth: int | None = None) -> None:
    """Raise ``InvalidRequestError`` if JSON is nested more than ``max_depth`` levels deep.

    ``path``: the field that contains the JSON, for the error. ``max_depth``: None stands for
    ``MAX_DEPTH``.

    >>> check_depth('["[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["]', "val")
    """
    limit = MAX_DEPTH if max_depth is None else max_depth
    if text.count("[") + text.count("{") <= limit:
        return  # the common case
    depth = 0
    for token in _BRACKET.finditer(text):
        match token[0]:
            case "[" | "{":
                depth += 1
            case "]" | "}":
                depth -= 1
        if depth > limit:
            raise invalid_field(path, f"the value is nested more than {limit} levels deep")


def check_range(text: str, path: str) -> None:
    """Raise ``InvalidRequestError``, which names the place, if JSON has a number such as 1e999.

    Readers would take it for an infinity, which JSON does not have, or refuse the answer. The check
    omits JSON with very many objects. ``path``: the field that contains the JSON, for the error.

    >>> check_range('[1, "1e999", 1e308]', "val")
    """
    if text.count("[") + text.count("{") > _MAX_OBJECTS:
        return
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        place, problem = _locate_malformed(text.encode())
        if place and not place.startswith("["):
            place = f".{place}"
        raise invalid_field(path + place, _in_words(problem) or str(error)) from error


def check_keys(text: str, path: str) -> None:
    """Raise ``InvalidRequestError``, which names the key, if an object in JSON repeats a key.

    Readers of such JSON take different values. The check omits JSON with very many objects.
    ``path``: the field that contains the JSON, for the error.

    >>> check_keys('[{"a": 1, "b": {"a": 1}}, {"a": 1}]', "val")
    """
    if text.count(":") < 2 or text.count("{") > _MAX_OBJECTS:
        return
    try:
        _KEYS.decode(text)
    except _RepeatedKeyError as error:
        raise invalid_field(path, f"an object repeats the key {quote(str(error))}") from None


class _RepeatedKeyError(Exception):
    """An object in JSON repeats the key that is the text of the error."""


def _check_pairs(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        names: set[str] = set()
        for name, _ in pairs:
            if name in names:
                raise _RepeatedKeyError(name)
            names.add(name)


# Numbers remain texts: Python refuses to convert very long ones.
_KEYS = json.JSONDecoder(object_pairs_hook=_check_pairs, parse_int=str, parse_float=str)


def to_integer(value: float, path: str) -> int:
    """Return a number without a fraction as an integer.

    Raises ``InvalidRequestError``, which names the field ``path``, if the number has a fraction.
    """
    if isinstance(value, float) and not value.is_integer():
        raise invalid_field(path, f"Expected `int`, got {value}")
    return int(value)


def _locate_malformed(body: bytes) -> tuple[str, str]:
    """Return (path, error) of the first value in a body that is not valid JSON, such as NaN.

    Path and error are empty if the body is large, or if the parser of Python rejects it too, or
    finds no such value.
    """
    if len(body) > _MAX_LOCATED_BYTES:
        return "", ""
    try:
        parsed = json.loads(body.decode(errors="surrogateescape"))
    except (ValueError, RecursionError):
        return "", ""
    return _find_non_json(parsed, "") or ("", "")


def _find_non_json(value: Any, path: str) -> tuple[str, str] | None:
    if isinstance(value, float) and not math.isfinite(value):
        return path, f"{value} is not a number in JSON"
    if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
        return path, "the text is not valid Unicode"
    if isinstance(value, dict):
        for name, item in value.items():
            found = _find_non_json(name, path) or _find_non_json(item, f"{path}.{name}".lstrip("."))
            if found:
                return found
    if isinstance(value, list):
        for number, item in enumerate(value):
            if found := _find_non_json(item, f"{path}[{number}]"):
                return found
    return None
