"""Converts the fields of request bodies, as leniently as the storage of RAINBOW does.

A number may be sent as a text, and a text or an id as a number. The storage agent decodes a body
strictly first, which is the common case, and converts only an invalid body.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_MAX_DIGITS = 100
"""The maximum length of a text that is converted to a number."""

_NUMBERS = frozenset(
    {"val", "minVal", "maxVal", "timestamp", "from", "to", "max_stale_ms", "limit"}
)
_TEXTS = frozenset(
    {
        *("entityID", "metricID", "entityType", "name", "units", "desc", "group", "groupName"),
        *("podName", "podNamespace", "containerName", "nodes", "key", "fields"),
        *("uuid", "namespace", "id"),
    }
)
_OBJECTS = frozenset({"pod", "container"})
_TRUTHS: Mapping[str, bool] = {"true": True, "false": False}


def convert_items(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a /put of points or records, with converted items.

    >>> convert_items({"monitoring": [{"entityID": 7, "val": "6.5"}]})
    {'monitoring': [{'entityID': '7', 'val': 6.5}]}
    """
    return {
        name: [_convert_fields(item) if isinstance(item, dict) else item for item in value]
        if isinstance(value, list)
        else value
        for name, value in fields.items()
    }


def convert_records(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a /put of records, with converted items.

    The values ``val`` are not converted, since they may be any JSON.

    >>> convert_records({"app": [{"key": 7, "val": "6.5", "timestamp": "1000"}]})
    {'app': [{'key': '7', 'val': '6.5', 'timestamp': 1000}]}
    """
    converted = convert_items(fields)
    for name, items in fields.items():
        if isinstance(items, list):
            for before, after in zip(items, converted[name], strict=True):
                if isinstance(before, dict) and "val" in before:
                    after["val"] = before["val"]
    return converted


def convert_filters(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the selectors of a deletion with converted values.

    Truth values are not converted, since they name nothing that could be deleted.

    >>> convert_filters({"metricID": 7, "entityID": True, "groupName": ["a", False]})
    {'metricID': '7', 'entityID': True, 'groupName': ['a', False]}
    """
    converted = _convert_fields(fields)
    for name, value in fields.items():
        if any(isinstance(each, bool) for each in (value if isinstance(value, list) else [value])):
            converted[name] = value
    return converted


def convert_read(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the selectors of a read with converted values.

    A negative time is removed, as if it were not sent. A negative ``from`` selects the latest
    values, for any ``to``.

    >>> convert_read({"metricID": [7], "from": -1, "to": "5"})
    {'metricID': ['7'], 'to': 5, 'latest': True}
    """
    converted = _convert_fields(fields)
    for name in ("from", "to"):
        if _is_negative(converted.get(name)):
            del converted[name]
            if name == "from":
                converted.setdefault("latest", True)
    return converted


def _convert_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    converted = {name: _convert(name, value) for name, value in fields.items()}
    for name in _OBJECTS & fields.keys():
        if isinstance(part := fields[name], dict):
            converted[name] = {each: _convert(each, value) for each, value in part.items()}
    return converted


def _convert(name: str, value: Any) -> Any:
    if name in _NUMBERS:
        return _number(value)
    if name in _TEXTS:
        return [_text(each) for each in value] if isinstance(value, list) else _text(value)
    if name == "higherIsBetter" and isinstance(value, str):
        return _TRUTHS.get(value.lower(), value)
    return value


def _number(value: Any) -> Any:
    """Return a text that is a number as the number; return other values unchanged.

    >>> _number("-7"), _number("6.5"), _number("1e999"), _number("x")
    (-7, 6.5, '1e999', 'x')
    >>> _number("٣")
    '٣'
    """
    if not isinstance(value, str) or len(value) > _MAX_DIGITS or not _NUMBER.fullmatch(value):
        return value
    number = int(value) if value.lstrip("+-").isdigit() else float(value)
    # JSON has no infinity: it would become null, as if the field were not sent.
    return number if math.isfinite(number) else value


def _text(value: Any) -> Any:
    """Return a number as a text, which is the same for 7 and 7.0; return other values unchanged.

    >>> _text(7), _text(7.0), _text(7.5), _text(None)
    ('7', '7', '7.5', None)
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    return str(value) if isinstance(value, int) else value


def _is_negative(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value < 0
