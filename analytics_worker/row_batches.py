"""Splits rows into batches that do not exceed the maximum rows and bytes of an append."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

MAX_APPEND_BYTES = 6 * 2**20
"""The greatest size (bytes, without compression) of the rows of an append.

The size is below the limits of a request's body (8 MiB by default) and of a segment in Ignite (7
MiB), since rows may be incompressible.
"""

Integers = npt.NDArray[np.int64]
RowRange = tuple[int, int]
"""A range of rows: (index of the first row, index after the last row)."""


def row_sizes(rows: pa.Table) -> Integers:
    """Return, for each row, an upper bound of the row's bytes in the body of an append.

    The bound depends on the row alone, so the same rows are always split at the same positions.

    >>> row_sizes(pa.table({"ts": [1, 2], "key": ["a", None]})).tolist()
    [19, 18]
    """
    sizes = np.zeros(rows.num_rows, np.int64)
    for column in rows.columns:
        if column.num_chunks:
            sizes += np.concatenate([value_sizes(chunk) for chunk in column.chunks])
    return sizes


def value_sizes(column: pa.Array) -> Integers:
    """Return, for each value of a column, an upper bound of its bytes without compression."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        # As if each row had its own text, because its size must not depend on other rows.
        return value_sizes(column.dictionary_decode())
    # One byte for validity, and for a boolean.
    sizes = np.ones(len(column), np.int64)
    if pa.types.is_struct(kind):
        for field in column.flatten():
            sizes += value_sizes(field)
        return sizes
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        sizes += 8 + _list_sizes(column)
        return sizes
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
        sizes += 8 + lengths
        return sizes
    sizes += kind.bit_width // 8
    return sizes


def _list_sizes(lists: pa.Array) -> Integers:
    sizes = np.concatenate([[0], np.cumsum(value_sizes(lists.flatten()))])
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(lengths)
    totals: Integers = sizes[ends] - sizes[ends - lengths]
    return totals


def batches(
    sizes: Integers, max_bytes: int = MAX_APPEND_BYTES, max_rows: int = 2**62
) -> Iterator[RowRange]:
    """Yield the batches as ranges of rows, given the size (bytes) of each row.

    A batch has at most ``max_bytes`` and ``max_rows``; a row larger than ``max_bytes`` is alone in
    its batch.

    >>> list(batches(np.array([3, 3, 3, 9, 1]), max_bytes=6))
    [(0, 2), (2, 3), (3, 4), (4, 5)]
    """
    ends = np.cumsum(sizes)
    start, before = 0, 0
    while start < len(sizes):
        end = int(np.searchsorted(ends, before + max_bytes, side="right"))
        end = min(max(end, start + 1), start + max_rows)
        yield start, end
        start, before = end, int(ends[end - 1])
