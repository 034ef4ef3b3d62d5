"""Panes that carry more points than an append takes, as several rows that come to the same.

Whoever reads panes joins what they carry, so a pane may be any number of rows: one with its
numbers, and others with some of its points each, and numbers that change nothing.
"""

import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.streams.parts import parts, row_sizes, value_sizes

PIECE_BYTES = 2**19
"""No row of a pane is larger. What is stored depends on it where an append failed half-way: the
same pane must be cut at the same places again."""

_LISTS = ("points", "sample")
_NAME = ("pane", "key", "ts", "due")
_NOTHING = {"sum": 0.0, "count": 0, "min": math.inf, "max": -math.inf}


def in_pieces(panes: pa.Table) -> pa.Table:
    """Return panes with those that are too long cut; the same ones are always cut alike."""
    long = row_sizes(panes) > PIECE_BYTES
    if not long.any():
        return panes
    cut = [panes.filter(pa.array(~long))]
    for at in np.flatnonzero(long).tolist():
        cut += _pieces(panes.slice(at, 1))
    return pa.concat_tables(cut).combine_chunks()


def _pieces(pane: pa.Table) -> Iterator[pa.Table]:
    nothing = pa.table(
        [
            pane[field.name]
            if field.name in _NAME
            else pa.array([_NOTHING.get(field.name)], field.type)
            for field in pane.schema
        ],
        schema=pane.schema,
    )
    head = pane
    for name in _LISTS:
        head = _with(head, name, pa.nulls(1, pane.schema.field(name).type))
    yield head
    for name in _LISTS:
        values = _in_order(pane[name].combine_chunks().flatten())
        for start, end in parts(value_sizes(values), PIECE_BYTES // 2):
            some = pa.ListArray.from_arrays(
                pa.array([0, end - start], pa.int32()), values.slice(start, end - start)
            )
            yield _with(nothing, name, some.cast(pane.schema.field(name).type))


def _in_order(values: pa.StructArray) -> pa.StructArray:
    # Spark gathers the points of a pane in any order.
    fields = pa.table(values.flatten(), values.type.names)
    order = pc.sort_indices(fields, [(name, "ascending") for name in fields.column_names])
    return values.take(order)


def _with(row: pa.Table, name: str, column: pa.Array) -> pa.Table:
    place = row.schema.get_field_index(name)
    return row.set_column(place, row.schema.field(name), column)
