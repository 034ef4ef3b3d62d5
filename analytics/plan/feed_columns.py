"""The roles of the columns of a feed's stream: metrics, attributes, entity, and time."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from analytics.plan.attributes import ENTITY, canonical
from analytics.plan.feeds import Feed


def metric_columns(schema: pa.Schema, feed: Feed) -> tuple[str, ...]:
    """Return the columns that are metrics.

    The result is empty if a column contains the names of the metrics.
    """
    if feed.metric is not None:
        return ()
    return tuple(
        field.name
        for field in schema
        if field.name not in (feed.time, feed.entity) and is_number(field.type)
    )


def attribute_columns(schema: pa.Schema, feed: Feed) -> Mapping[str, Sequence[str]]:
    """Return canonical name of an attribute -> the columns that contain the attribute.

    An attribute with several columns is ambiguous.
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
    """Return whether the values of a column are numbers, so that the column can be a metric."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def is_word(kind: pa.DataType) -> bool:
    """Return whether the values of a column are texts or booleans."""
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(
        pa.types.is_string(plain) or pa.types.is_large_string(plain) or pa.types.is_boolean(plain)
    )


def is_entity(kind: pa.DataType) -> bool:
    """Return whether the values of a column can be cast to texts, to name the measured entity."""
    try:
        pa.chunked_array([], kind).cast(pa.string())
    except pa.ArrowNotImplementedError:
        return False
    return True


def is_attribute(kind: pa.DataType) -> bool:
    """Return whether the values of a column are texts, booleans or numbers, as in an attribute."""
    return is_word(kind) or is_number(kind)


def is_time(kind: pa.DataType) -> bool:
    """Return whether a column of integers or timestamps can contain the times of points."""
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind))
