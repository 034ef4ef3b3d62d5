"""Converts the values in rows to JSON, without loss of precision."""

from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.streams.json_numbers import to_json

_EXACT = 2**53
"""The greatest integer up to which most languages read JSON numbers exactly."""


def plain(value: Any) -> Any:
    """Return a value in the form that ``encode`` expects.

    NaN, infinities and integers beyond 2**53 become text, also inside lists and dicts.
    """
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        return to_json(value)
    if isinstance(value, int):
        return value if -_EXACT <= value <= _EXACT else str(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {_as_key(name): plain(item) for name, item in value.items()}
    return value


def encode(value: Any) -> bytes:
    """Return the JSON of a value that ``plain`` has converted.

    Decimals and times become text; bytes become base64.
    """
    return msgspec.json.encode(value, enc_hook=str)


def objects(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return each row as a dict: name of the column -> value that ``plain`` has converted."""
    columns = [[plain(value) for value in _as_list(column)] for column in rows.columns]
    names = rows.schema.names
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _as_list(column: pa.Array) -> list[Any]:
    if isinstance(column, pa.DictionaryArray):
        # Of a dictionary, pyarrow converts each value by itself, 80 times slower.
        column = column.dictionary.take(column.indices)
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):  # a time beyond those of Python
        values = pc.cast(column, pa.string()).to_pylist()
    return values


def _as_key(name: Any) -> str:
    return name if isinstance(name, str) else encode(plain(name)).decode().strip('"')
