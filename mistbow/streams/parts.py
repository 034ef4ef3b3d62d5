"""Cutting rows into parts that fit into an append, by how many they are and how many bytes."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

MOST_BYTES = 6 * 2**20
"""Of an append: less than the 8 MiB that an agent reads unless it is told otherwise, and than the
7 MiB of a commit that Ignite keeps, as rows may have nothing to compress."""

Integers = npt.NDArray[np.int64]
Part = tuple[int, int]
"""The first row, and the row after the last."""


def row_sizes(rows: pa.Table) -> Integers:
    """Return at most how many bytes each row takes in the body of an append.

    It depends on the row alone: whoever computes the same rows again cuts them at the same places.

    >>> row_sizes(pa.table({"ts": [1, 2], "key": ["a", None]})).tolist()
    [19, 18]
    """
    sizes = np.zeros(rows.num_rows, np.int64)
    for column in rows.columns:
        if column.num_chunks:
            sizes += np.concatenate([value_sizes(chunk) for chunk in column.chunks])
    return sizes


def value_sizes(column: pa.Array) -> Integers:
    """Return at most how many bytes each value of a column takes, without compression."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        # As if each row had its word: which others are beside it must not matter.
        return value_sizes(column.dictionary_decode())
    # One byte for whether it is null, and for a truth value.
    sizes = np.ones(len(column), np.int64)
    if pa.types.is_struct(kind):
        for field in column.flatten():
            sizes += value_sizes(field)
        return sizes
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        sizes += 8 + _sums(column)
        return sizes
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
        sizes += 8 + lengths
        return sizes
    sizes += kind.bit_width // 8
    return sizes


def _sums(lists: pa.Array) -> Integers:
    sizes = np.concatenate([[0], np.cumsum(value_sizes(lists.flatten()))])
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(lengths)
    found: Integers = sizes[ends] - sizes[ends - lengths]
    return found


def parts(sizes: Integers, most_bytes: int = MOST_BYTES, most_rows: int = 2**62) -> Iterator[Part]:
    """Yield parts of so many rows and bytes at most; what is larger by itself is one of its own.

    >>> list(parts(np.array([3, 3, 3, 9, 1]), most_bytes=6))
    [(0, 2), (2, 3), (3, 4), (4, 5)]
    """
    ends = np.cumsum(sizes)
    start, before = 0, 0
    while start < len(sizes):
        end = int(np.searchsorted(ends, before + most_bytes, side="right"))
        end = min(max(end, start + 1), start + most_rows)
        yield start, end
        start, before = end, int(ends[end - 1])
