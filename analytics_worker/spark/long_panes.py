"""Splits long panes, which have more points than fit into an append, into several rows.

Readers merge all rows of a pane, so a pane may have any number of rows. A split pane has one row
with the aggregates of the pane and no points, and rows that have some points of the pane and
neutral aggregates.
"""

import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics_worker.row_batches import batches, row_sizes, value_sizes

MAX_PANE_ROW_BYTES = 2**19
"""The size (bytes) of the largest row of a pane. The size must not change: after an append that
failed half-way, the same pane must be split at the same points again.
"""

_LISTS = ("points", "sample")
_IDENTITY = ("pane", "key", "ts", "due")
_NEUTRAL = {"sum": 0.0, "count": 0, "min": math.inf, "max": -math.inf}


def split_long_panes(panes: pa.Table) -> pa.Table:
    """Return panes with each long pane split into several rows, always at the same points."""
    long = row_sizes(panes) > MAX_PANE_ROW_BYTES
    if not long.any():
        return panes
    rows = [panes.filter(pa.array(~long))]
    for at in np.flatnonzero(long).tolist():
        rows += _split(panes.slice(at, 1))
    return pa.concat_tables(rows).combine_chunks()


def _split(pane: pa.Table) -> Iterator[pa.Table]:
    neutral = pa.table(
        [
            pane[field.name]
            if field.name in _IDENTITY
            else pa.array([_NEUTRAL.get(field.name)], field.type)
            for field in pane.schema
        ],
        schema=pane.schema,
    )
    head = pane
    for name in _LISTS:
        head = _with(head, name, pa.nulls(1, pane.schema.field(name).type))
    yield head
    for name in _LISTS:
        values = _sorted(pane[name].combine_chunks().flatten())
        for start, end in batches(value_sizes(values), MAX_PANE_ROW_BYTES // 2):
            some = pa.ListArray.from_arrays(
                pa.array([0, end - start], pa.int32()), values.slice(start, end - start)
            )
            yield _with(neutral, name, some.cast(pane.schema.field(name).type))


def _sorted(values: pa.StructArray) -> pa.StructArray:
    # The order of the points of a pane in Spark varies.
    fields = pa.table(values.flatten(), values.type.names)
    order = pc.sort_indices(fields, [(name, "ascending") for name in fields.column_names])
    return values.take(order)


def _with(row: pa.Table, name: str, column: pa.Array) -> pa.Table:
    index = row.schema.get_field_index(name)
    return row.set_column(index, row.schema.field(name), column)
