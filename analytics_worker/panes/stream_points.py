"""The conversion of rows of any stream to points, in the columns that routing reads."""

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from analytics.plan.attributes import ENTITY
from analytics.plan.feed_columns import attribute_columns, is_number, metric_columns
from analytics.plan.feeds import Feed
from analytics_worker.panes.routing import COLUMNS
from mistbow.client.fields import MAX_TIMESTAMP_MS
from mistbow.streams.schemas import POINTS, ROW_FRONTIER

_POINTS = pa.schema([*(POINTS.field(name) for name in COLUMNS[:-1]), ROW_FRONTIER])


def to_milliseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column of times to integers: ms since the epoch."""
    if pa.types.is_timestamp(column.type):
        zoned = pa.timestamp("ms", tz=column.type.tz)
        return column.cast(zoned, safe=False).cast(pa.int64())
    # A time beyond the range of int64 is no time: the row is omitted.
    if pa.types.is_uint64(column.type):
        is_time = pc.less(column, pa.scalar(2**63, pa.uint64()))
        column = pc.if_else(is_time, column, pa.scalar(None, pa.uint64()))
    return column.cast(pa.int64())


def to_points(rows: pa.Table, feed: Feed, metrics: Sequence[str], frontier: int) -> pa.Table:
    """Return the points of the given metrics that the rows of a feed's stream contain.

    A row is omitted if its time is missing or not between 1970 and the year 9999, its value is not
    finite, or its entity is not valid UTF-8. ``frontier``: rows with times up to ``frontier`` (ms)
    are late. Raises ``ValueError`` if a column that the feed names does not exist, or if two
    columns are the same attribute.
    """
    if missing := [name for name in feed.named if name not in rows.column_names]:
        raise ValueError(f"the stream {feed.stream} has no column {', '.join(missing)}")
    rows = _with_valid_entity(rows, feed)
    common = {
        "entity": _entities(rows, feed),
        "attributes": _attributes(rows, feed),
        "ts": to_milliseconds(rows[feed.time]),
        "horizon": pa.repeat(pa.scalar(frontier, pa.int64()), rows.num_rows),
    }
    parts = [_POINTS.empty_table()]
    if feed.metric is not None and feed.value is not None:
        named = _words(rows[feed.metric])
        part = pa.table({**common, "metric": named, "value": _numbers(rows[feed.value])})
        parts.append(_valid_points(part.filter(pc.is_in(named, pa.array(metrics, pa.string())))))
    else:
        for metric in metrics:
            if metric in metric_columns(rows.schema, feed):
                names = pa.repeat(metric, rows.num_rows)
                values = _numbers(rows[metric])
                parts.append(_valid_points(pa.table({**common, "metric": names, "value": values})))
    return pa.concat_tables(parts).unify_dictionaries()


def _valid_points(points: pa.Table) -> pa.Table:
    times = points["ts"]
    timed = pc.and_(pc.greater_equal(times, 0), pc.less_equal(times, MAX_TIMESTAMP_MS))
    there = pc.and_(pc.is_finite(points["value"]), timed)
    valid = points.filter(pc.fill_null(there, False))
    columns = [
        _encoded(valid[field.name]) if pa.types.is_dictionary(field.type) else valid[field.name]
        for field in _POINTS
    ]
    return pa.table(columns, schema=_POINTS)


def _encoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.dictionary_encode(_words(column))


def _words(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(column.cast(pa.string()), "")


def _numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert numbers to floats; integers beyond 2**53, such as times in ns, are rounded."""
    return column.cast(pa.float64(), safe=False)


def _entities(rows: pa.Table, feed: Feed) -> pa.ChunkedArray | pa.Array:
    if feed.entity is None:
        return pa.repeat(feed.stream, rows.num_rows)
    return _words(rows[feed.entity])


def _with_valid_entity(rows: pa.Table, feed: Feed) -> pa.Table:
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
    """Return the attributes of each row as JSON, sorted by name, without missing attributes.

    Raises ``ValueError`` if several columns have the name of one attribute.
    """
    found = attribute_columns(rows.schema, feed)
    for name, alike in found.items():
        if len(alike) > 1:
            raise ValueError(
                f"the stream {feed.stream} has several columns for the attribute `{name}`:"
                f" {', '.join(alike)}; rename all but one, or list one under `attributes`"
            )
    columns = {name: _scalars(rows[column]) for name, (column,) in found.items()}
    if feed.entity is not None or ENTITY not in columns:
        columns[ENTITY] = _entities(rows, feed).to_pylist()
    names = sorted(columns)
    encoded: dict[tuple[object, ...], str] = {}
    texts = []
    for values in _each(columns, names, rows.num_rows):
        text = encoded.get(values)
        if text is None:
            there = {n: v for n, v in zip(names, values, strict=True) if v is not None}
            text = encoded[values] = msgspec.json.encode(there).decode()
        texts.append(text)
    return pa.array(texts, pa.string())


def _scalars(column: pa.ChunkedArray) -> list[object]:
    if not is_number(column.type):
        return column.to_pylist()  # type: ignore[no-any-return]
    numbers = _numbers(column)
    nothing = pa.scalar(None, pa.float64())
    return pc.if_else(pc.is_finite(numbers), numbers, nothing).to_pylist()  # type: ignore[no-any-return]


def _each(
    columns: dict[str, list[object]], names: Sequence[str], rows: int
) -> Iterator[tuple[object, ...]]:
    if not names:
        yield from [()] * rows
    yield from zip(*(columns[name] for name in names), strict=True)
