"""Reads points, and leaves out the points that later points replaced.

A point replaces all points with the same series, attributes and time that were stored before it.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mistbow.streams.schemas import POINTS

ReadRange = Callable[[int, int, Sequence[str]], AsyncIterator[pa.RecordBatch]]
"""A function that yields columns of the points from one time to another (ms, inclusive).

The points are in the order in which they were stored.
"""

_KEY = ("metric", "entity", "attributes", "ts")
_MAX_ROWS = 500_000
"""The maximum number of rows of a time range that is read as a whole, and not in parts."""

_MINUTE_MS = 60_000


async def read_distinct(
    read: ReadRange, start: int, end: int, columns: Sequence[str]
) -> AsyncIterator[pa.RecordBatch]:
    """Yield the points from ``start`` to ``end`` (ms, inclusive) without replaced points."""
    needed = list(dict.fromkeys((*columns, *_KEY)))
    batches: list[pa.RecordBatch] = []
    rows = 0
    async for batch in read(start, end, needed):
        batches.append(batch)
        rows += batch.num_rows
        if rows > _MAX_ROWS:
            break
    else:
        for batch in _drop_replaced(batches, needed, columns):
            yield batch
        return
    batches.clear()
    for first, last in await _parts(read, start, end):
        part = [batch async for batch in read(first, last, needed)]
        for batch in _drop_replaced(part, needed, columns):
            yield batch


async def _parts(read: ReadRange, start: int, end: int) -> list[tuple[int, int]]:
    """Divide a time range at full minutes; return the parts (first, last), in ms, inclusive.

    A part has at most ``_MAX_ROWS`` rows, unless a single minute has more rows.
    """
    of_minute: Counter[int] = Counter()
    async for batch in read(start, end, ("ts",)):
        minutes, counts = np.unique(batch["ts"].to_numpy() // _MINUTE_MS, return_counts=True)
        of_minute.update(dict(zip(minutes.tolist(), counts.tolist(), strict=True)))
    borders, rows = [start], 0
    for minute in sorted(of_minute):
        rows += of_minute[minute]
        if rows > _MAX_ROWS:
            borders.append(max(start, minute * _MINUTE_MS))
            rows = of_minute[minute]
    ends = [border - 1 for border in borders[1:]]
    return [part for part in zip(borders, [*ends, end], strict=True) if part[0] <= part[1]]


def _drop_replaced(
    batches: Sequence[pa.RecordBatch], needed: Sequence[str], columns: Sequence[str]
) -> list[pa.RecordBatch]:
    table = pa.Table.from_batches(batches, pa.schema([POINTS.field(name) for name in needed]))
    if not table.num_rows:
        return []
    key = np.zeros(table.num_rows, np.int64)
    for name in _KEY[:-1]:
        codes = _codes(table[name])
        _, key = np.unique(key * (codes.max() + 1) + codes, return_inverse=True)
    times = table["ts"].to_numpy()
    # Stable: of points with equal keys and times, the one stored last is the last.
    order = np.lexsort((times, key))
    same = (np.diff(key[order]) == 0) & (np.diff(times[order]) == 0)
    kept = np.sort(order[np.append(~same, True)])
    left = table.select(list(columns))
    if len(kept) < table.num_rows:
        left = left.take(pa.array(kept))
    return list(left.to_batches())


def _codes(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return a number for each value of a text column; equal values have equal numbers."""
    unified = column.unify_dictionaries()
    return np.concatenate([each.indices.to_numpy() for each in unified.chunks]).astype(np.int64)
