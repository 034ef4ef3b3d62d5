"""The words for a value in a JSON body that does not have the type of its field."""

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import inspect

from mistbow.client.fields import NON_FINITE

_MAX_SEARCHED_BYTES = 256 * 2**10
"""The maximum size of a body in which an invalid entry of an object is searched for."""

_MAX_NAME = 60
"""The maximum number of characters of a name that is quoted."""

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_ANY_KEY = "..."
_OF_KEY = "`key` in "

_PATTERN_OF_VALUE = f"`str` matching regex {NON_FINITE!r}"
"""The part of msgspec's error for the value of a point that is an invalid text."""


def describe_problem(
    error: msgspec.ValidationError, decoder: msgspec.json.Decoder[Any], body: bytes
) -> tuple[str, str]:
    """Return (path, problem) of the invalid value for which ``decoder`` rejected ``body``.

    The path names the entry of an object, such as a label, and the problem the values of a field
    that has only some.

    >>> class Body(msgspec.Struct):
    ...     ports: dict[str, int]
    >>> decoder, body = msgspec.json.Decoder(Body), b'{"ports": {"a": 1, "b": "2"}}'
    >>> try:
    ...     decoder.decode(body)
    ... except msgspec.ValidationError as error:
    ...     describe_problem(error, decoder, body)
    ('ports["b"]', 'Expected `int`, got `str`')
    """
    text, separator, place = str(error).rpartition(" - at ")
    if not separator:
        text, place = place, ""
    path = place.removeprefix(_OF_KEY).strip("`").removeprefix("$").lstrip(".")
    steps = _steps(path)
    problem = text.replace(_PATTERN_OF_VALUE, "a number, or the text NaN, +Inf, -Inf or stale")
    if text.startswith("Invalid enum value") and (allowed := _allowed(decoder, steps)):
        problem += f"; it must be one of {', '.join(allowed)}"
    is_key = place.startswith(_OF_KEY)
    if is_key or _ANY_KEY in steps:
        steps = steps if is_key else steps[: steps.index(_ANY_KEY)]
        if (name := _invalid_entry(decoder, body, steps, text)) is not None:
            before, _, after = path.partition("[...]")
            path = f"{before}[{quote(name)}]{after}"
    return path, f"the name is invalid: {problem}" if is_key else problem


def _steps(path: str) -> list[str | int]:
    """Return the steps of msgspec's path: names, numbers of items, and ``_ANY_KEY``."""
    found: list[str | int] = []
    for name, index in _STEP.findall(path):
        found.append(int(index) if index.isdigit() else index or name)
    return found


def _allowed(decoder: msgspec.json.Decoder[Any], steps: Sequence[str | int]) -> list[str]:
    """Return the values of the literal type at a path; empty: there is no such type."""
    types = [inspect.type_info(decoder.type)]
    for step in steps:
        types = [part for each in _alternatives(types) for part in _parts(each, step)]
    return [
        str(value)
        for each in _alternatives(types)
        if isinstance(each, inspect.LiteralType)
        for value in each.values
    ]


def _alternatives(types: Sequence[inspect.Type]) -> list[inspect.Type]:
    found: list[inspect.Type] = []
    for each in types:
        found += each.types if isinstance(each, inspect.UnionType) else [each]
    return found


def _parts(kind: inspect.Type, step: str | int) -> list[inspect.Type]:
    """Return the types of the values to which a step leads from a value of the type ``kind``."""
    if isinstance(kind, inspect.StructType):
        return [field.type for field in kind.fields if field.encode_name == step]
    if isinstance(kind, inspect.ListType):
        return [kind.item_type]
    return [kind.value_type] if isinstance(kind, inspect.DictType) else []


def _invalid_entry(
    decoder: msgspec.json.Decoder[Any], body: bytes, steps: Sequence[str | int], problem: str
) -> str | None:
    """Return the name of the entry with a problem in the object at a path; None: it is unknown.

    The object is halved until one entry remains.
    """
    if len(body) > _MAX_SEARCHED_BYTES:
        return None

    def has_problem(part: Sequence[tuple[str, Any]]) -> bool:
        try:
            decoder.decode(msgspec.json.encode(_replace(fields, steps, dict(part))))
        except msgspec.ValidationError as error:
            return str(error).startswith(problem)
        return False

    try:
        fields = found = msgspec.json.decode(body)
        for step in steps:
            found = found[step]
        entries = list(found.items())
        while len(entries) > 1:
            half = entries[: len(entries) // 2]
            entries = half if has_problem(half) else entries[len(half) :]
        return entries[0][0] if has_problem(entries) else None
    except (msgspec.DecodeError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _replace(value: Any, steps: Sequence[str | int], part: Any) -> Any:
    """Return ``value`` with ``part`` at a path; lists on the path have no other items."""
    if not steps:
        return part
    replaced = _replace(value[steps[0]], steps[1:], part)
    return [replaced] if isinstance(value, list) else {**value, steps[0]: replaced}


def quote(name: str) -> str:
    """Return a name as a JSON string, cut after 60 characters."""
    cut = name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}…"
    return json.dumps(cut, ensure_ascii=False)
