"""Feeding: the rows of any stream as points, in the columns that routing reads."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.panes.routing import COLUMNS
from mistbow.plan.attributes import ENTITY, canonical
from mistbow.plan.feeds import Feed
from mistbow.streams.schemas import HORIZON, POINTS

_POINTS = pa.schema([*(POINTS.field(name) for name in COLUMNS[:-1]), HORIZON])


def metrics_in(schema: pa.Schema, feed: Feed) -> tuple[str, ...]:
    """Return the columns that are metrics, none where a column names them."""
    if feed.metric is not None:
        return ()
    return tuple(
        field.name
        for field in schema
        if field.name not in (feed.time, feed.entity) and is_number(field.type)
    )


def attributes_in(schema: pa.Schema, feed: Feed) -> Mapping[str, Sequence[str]]:
    """Return the attributes, by the names that queries have for them, with their columns.

    Where one has several columns, none of them is meant.
    """
    found: dict[str, list[str]] = {} if feed.entity is None else {ENTITY: [feed.entity]}
    for column in _attribute_columns(schema, feed):
        columns = found.setdefault(canonical(column), [])
        if column not in columns:
            columns.append(column)
    return found


def _attribute_columns(schema: pa.Schema, feed: Feed) -> Sequence[str]:
    if feed.attributes is not None:
        return [name for name in feed.attributes if is_attribute(schema.field(name).type)]
    taken = {feed.time, feed.metric, feed.value, feed.entity}
    return [field.name for field in schema if field.name not in taken and is_word(field.type)]


def is_number(kind: pa.DataType) -> bool:
    """Return whether the values of a column can be those of a metric."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def is_word(kind: pa.DataType) -> bool:
    """Return whether the values of a column are texts or truth values."""
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(
        pa.types.is_string(plain) or pa.types.is_large_string(plain) or pa.types.is_boolean(plain)
    )


def is_entity(kind: pa.DataType) -> bool:
    """Return whether the values of a column can say what was measured."""
    try:
        pa.chunked_array([], kind).cast(pa.string())
    except pa.ArrowNotImplementedError:
        return False
    return True


def is_attribute(kind: pa.DataType) -> bool:
    """Return whether the values of a column can be those of an attribute."""
    return is_word(kind) or is_number(kind)


def is_time(kind: pa.DataType) -> bool:
    """Return whether the values of a column can be times."""
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind))


def times_in(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times as milliseconds since the epoch."""
    if pa.types.is_timestamp(column.type):
        zoned = pa.timestamp("ms", tz=column.type.tz)
        return column.cast(zoned, safe=False).cast(pa.int64())
    return column.cast(pa.int64())


def points_in(rows: pa.Table, feed: Feed, metrics: Sequence[str], horizon: int) -> pa.Table:
    """Return the points of these metrics; a row lacks one where it has no time or no number.

    A row has none whose entity is bytes that are no text.
    ``horizon``: rows with times up to then (ms) came late.
    """
    if lacking := [name for name in feed.named if name not in rows.column_names]:
        raise ValueError(f"the stream {feed.stream} has no column {', '.join(lacking)}")
    rows = _legible(rows, feed)
    common = {
        "entity": _entities(rows, feed),
        "attributes": _attributes(rows, feed),
        "ts": times_in(rows[feed.time]),
        "horizon": pa.repeat(pa.scalar(horizon, pa.int64()), rows.num_rows),
    }
    parts = [_POINTS.empty_table()]
    if feed.metric is not None and feed.value is not None:
        named = _words(rows[feed.metric])
        part = pa.table({**common, "metric": named, "value": rows[feed.value].cast(pa.float64())})
        parts.append(_kept(part.filter(pc.is_in(named, pa.array(metrics, pa.string())))))
    else:
        for metric in metrics:
            if metric in metrics_in(rows.schema, feed):
                names = pa.repeat(metric, rows.num_rows)
                values = rows[metric].cast(pa.float64())
                parts.append(_kept(pa.table({**common, "metric": names, "value": values})))
    return pa.concat_tables(parts).unify_dictionaries()


def _kept(points: pa.Table) -> pa.Table:
    there = pc.and_(pc.is_finite(points["value"]), pc.is_valid(points["ts"]))
    kept = points.filter(pc.fill_null(there, False))
    columns = [
        _encoded(kept[field.name]) if pa.types.is_dictionary(field.type) else kept[field.name]
        for field in _POINTS
    ]
    return pa.table(columns, schema=_POINTS)


def _encoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.dictionary_encode(_words(column))


def _words(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(column.cast(pa.string()), "")


def _entities(rows: pa.Table, feed: Feed) -> pa.ChunkedArray | pa.Array:
    if feed.entity is None:
        return pa.repeat(feed.stream, rows.num_rows)
    return _words(rows[feed.entity])


def _legible(rows: pa.Table, feed: Feed) -> pa.Table:
    if feed.entity is None or not _is_binary(rows.schema.field(feed.entity).type):
        return rows
    legible = [_is_text(entity) for entity in rows[feed.entity].to_pylist()]
    return rows.filter(pa.array(legible, pa.bool_()))


def _is_binary(kind: pa.DataType) -> bool:
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(
        pa.types.is_binary(plain)
        or pa.types.is_large_binary(plain)
        or pa.types.is_fixed_size_binary(plain)
    )


def _is_text(entity: bytes | None) -> bool:
    try:
        str(entity or b"", "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _attributes(rows: pa.Table, feed: Feed) -> pa.Array:
    """Return the attributes of each row, as JSON with sorted names, without those it lacks."""
    found = attributes_in(rows.schema, feed)
    for name, alike in found.items():
        if len(alike) > 1:
            raise ValueError(f"columns of {feed.stream} are each `{name}`: {', '.join(alike)}")
    columns = {name: _scalars(rows[column]) for name, (column,) in found.items()}
    if feed.entity is not None or ENTITY not in columns:
        columns[ENTITY] = _entities(rows, feed).to_pylist()
    names = sorted(columns)
    known: dict[tuple[object, ...], str] = {}
    texts = []
    for values in _each(columns, names, rows.num_rows):
        text = known.get(values)
        if text is None:
            there = {n: v for n, v in zip(names, values, strict=True) if v is not None}
            text = known[values] = msgspec.json.encode(there).decode()
        texts.append(text)
    return pa.array(texts, pa.string())


def _scalars(column: pa.ChunkedArray) -> list[object]:
    if not is_number(column.type):
        return column.to_pylist()  # type: ignore[no-any-return]
    numbers = column.cast(pa.float64())
    nothing = pa.scalar(None, pa.float64())
    return pc.if_else(pc.is_finite(numbers), numbers, nothing).to_pylist()  # type: ignore[no-any-return]


def _each(
    columns: dict[str, list[object]], names: Sequence[str], rows: int
) -> Iterator[tuple[object, ...]]:
    if not names:
        yield from [()] * rows
    yield from zip(*(columns[name] for name in names), strict=True)
