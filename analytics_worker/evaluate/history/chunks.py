"""The lengths of chunks, and the chunks that cover a time."""

from collections.abc import Iterator, Sequence

from analytics_worker.evaluate.history.aggregates import Integers

POINTS_MS = 1000
"""The length (ms) of a chunk with points."""

LENGTHS_MS = tuple(POINTS_MS * 16**number for number in range(6))
"""The lengths (ms) of the chunks with aggregates, from 1 s to 12 days."""

RUN_LENGTHS_MS = LENGTHS_MS[1:3]
"""The lengths (ms) of the chunks with sorted runs: 16 s and 256 s."""


def chunk_ends(ts: Integers, length_ms: int) -> Integers:
    """Return the end of the chunk that contains each time (ms)."""
    ends: Integers = ts + -ts % length_ms
    return ends


def cover(start: int, end: int, lengths: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield (level, first, last): the longest chunks that cover the times ``start`` to ``end``.

    ``lengths``: the length (ms) of a chunk of each level, shortest first. ``start`` and ``end`` are
    multiples of the shortest length; the chunks of a level cover the times after ``first`` up to
    ``last``.

    >>> list(cover(14_000, 34_000, LENGTHS_MS))
    [(0, 14000, 16000), (1, 16000, 32000), (0, 32000, 34000)]
    """
    while start < end:
        level = max(
            number
            for number, length in enumerate(lengths)
            if start % length == 0 and start + length <= end
        )
        length = lengths[level]
        last = end - end % length
        if level + 1 < len(lengths) and (rest := -start % lengths[level + 1]):
            last = min(last, start + rest)
        yield level, start, last
        start = last
