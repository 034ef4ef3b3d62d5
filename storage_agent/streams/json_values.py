"""Converts the values in rows to JSON, without loss of precision."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, cast

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


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values of an extension type, whose fields Arrow does not list."""
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def unknown_time_zones(kind: pa.DataType) -> Iterator[str]:
    """Yield the time zones in a type, also inside lists and structs, that Python does not know."""
    kind = stored_type(kind)
    if pa.types.is_timestamp(kind):
        try:
            pa.array([0], kind).to_pylist()
        except (LookupError, ValueError):
            yield kind.tz
    for number in range(kind.num_fields):
        yield from unknown_time_zones(kind.field(number).type)


def _as_list(column: pa.Array) -> list[Any]:
    if isinstance(column, pa.DictionaryArray):
        # Of a dictionary, pyarrow converts each value by itself, 80 times slower.
        column = column.dictionary.take(column.indices)
    if isinstance(column, pa.ExtensionArray):
        with suppress(LookupError, ValueError, OverflowError):
            return cast("list[Any]", column.to_pylist())
        column = column.storage
    try:
        values: list[Any] = column.to_pylist()
    except LookupError:  # a time zone that Python does not know
        kind = _replace_times(column.type, _in_utc)
        if kind == column.type:
            raise
        values = _as_list(pc.cast(column, kind))
    except (ValueError, OverflowError):  # a time beyond those of Python
        known = pc.cast(column, _replace_times(column.type, _in_known_zone))
        values = pc.cast(known, _replace_times(column.type, lambda _: pa.string())).to_pylist()
    return values


def _replace_times(kind: pa.DataType, replace: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type with other types of times, also inside lists, structs and maps."""
    if pa.types.is_temporal(kind):
        return replace(kind)
    fields = [kind.field(number) for number in range(kind.num_fields)]
    changed = [field.with_type(_replace_times(field.type, replace)) for field in fields]
    match kind:
        case pa.StructType():
            return pa.struct(changed)
        case pa.MapType():
            entry = changed[0].type
            return pa.map_(entry.field(0), entry.field(1), kind.keys_sorted)
        case pa.FixedSizeListType():
            return pa.list_(changed[0], kind.list_size)
        case pa.LargeListType():
            return pa.large_list(changed[0])
        case pa.ListType():
            return pa.list_(changed[0])
    return kind


def _in_utc(kind: pa.DataType) -> pa.DataType:
    zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    return pa.timestamp(kind.unit, "UTC") if zoned else kind


def _in_known_zone(kind: pa.DataType) -> pa.DataType:
    """Return the same type, but in UTC if Arrow does not know the time zone."""
    try:
        pc.cast(pa.array([0]).cast(kind), pa.string())
    except pa.ArrowException:
        return _in_utc(kind)
    return kind


def _as_key(name: Any) -> str:
    return name if isinstance(name, str) else encode(plain(name)).decode().strip('"')
