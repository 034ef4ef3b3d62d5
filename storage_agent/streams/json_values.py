"""Values of rows so that JSON keeps them."""

import math
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

_EXACT = 2**53
"""Integers beyond this are not exact as numbers of JSON in most languages."""


def plain(value: Any) -> Any:
    """Return a value as JSON can say it: what no number of JSON is becomes text.

    What is left to ``encode`` are times, decimals, bytes and the like.
    """
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, int):
        return value if -_EXACT <= value <= _EXACT else str(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {_word(name): plain(item) for name, item in value.items()}
    return value


def encode(value: Any) -> bytes:
    """Return plain values as JSON: decimals and times as text, bytes in base64."""
    return msgspec.json.encode(value, enc_hook=str)


def objects(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows as plain objects, column to value."""
    columns = [[plain(value) for value in _listed(column)] for column in rows.columns]
    names = rows.schema.names
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _listed(column: pa.Array) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):  # a time that Python has no object for
        values = pc.cast(column, pa.string()).to_pylist()
    return values


def _word(name: Any) -> str:
    return name if isinstance(name, str) else encode(plain(name)).decode().strip('"')
