"""Pieces of a stream: the rows of a commit or of a run, in the order of their numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from storage_agent.streams.ahead import between
from storage_agent.streams.deletions import Deletions
from storage_agent.streams.index import EARLIEST, time_range
from storage_agent.streams.runs import Commits, Int64s
from storage_agent.streams.segments import Segment

_NONE = Deletions()


@dataclass(frozen=True, slots=True)
class Gone:
    """What of a stream is not there any more, although it may still be stored.

    ``before``: what was created earlier has expired, milliseconds. ``purged``: the last deletion
    that was applied for good.
    """

    before: int = EARLIEST
    deletions: Deletions = _NONE
    purged: int = 0

    def remaining(self, rows: pa.RecordBatch, first: int) -> pa.BooleanArray | None:
        """Return which rows are not deleted, where all are numbered from ``first``; None: all."""
        return self.deletions.remaining(rows, first, self.purged)

    def left(self, rows: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """Return the rows that are not deleted, where all are numbered from ``first``."""
        kept = self.remaining(rows, first)
        return rows if kept is None else rows.filter(kept)

    def waiting(
        self,
        ahead: pa.RecordBatch,
        first: int,
        created: int,
        released: int,
        limit: int | None = None,
    ) -> pa.RecordBatch:
        """Return what is there of points ahead, of commits from ``first``, the last ``created``."""
        if ahead.num_rows == 0 or created < self.before:
            return ahead.slice(0, 0)
        return self.left(between(ahead, released, limit), first)


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows, their numbers, and of each or of all: how far event time was when they came."""

    batch: pa.RecordBatch
    horizon: Any
    numbers: Int64s

    def filter(self, kept: pa.BooleanArray) -> Self:
        """Return those that are kept."""
        horizon = self.horizon if isinstance(self.horizon, int) else self.horizon.filter(kept)
        numbers = self.numbers[kept.to_numpy(zero_copy_only=False)]
        return type(self)(self.batch.filter(kept), horizon, numbers)


@dataclass(frozen=True, slots=True)
class Piece:
    """All rows of commits or a run in the order of their numbers, and who waits (``ahead``).

    ``gone`` is not yet taken away.
    """

    rows: pa.RecordBatch
    numbers: Int64s
    commits: Commits
    ahead: pa.RecordBatch
    gone: Gone

    @classmethod
    def of(cls, segments: Sequence[Segment], gone: Gone) -> Self:
        """Return the piece that commits side by side are: one, where some of it is deleted."""
        numbers = [np.arange(each.rows.num_rows) + each.header.first for each in segments]
        return cls(
            _joined([each.rows for each in segments]),
            np.concatenate(numbers),
            commits_of(segments),
            _joined([each.ahead for each in segments]),
            gone,
        )

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return int(self.rows.nbytes + self.numbers.nbytes + len(self.commits) * 56)

    def between(self, start: int, end: int) -> Rows:
        """Return what is there of the rows numbered from ``start`` to before ``end``."""
        commits = self.commits
        living = int(np.searchsorted(commits.created, self.gone.before))
        start = max(start, int(commits.first[living]) if living < len(commits) else end)
        low, high = np.searchsorted(self.numbers, [start, max(start, end)]).tolist()
        numbers = self.numbers[low:high]
        horizon: Any = int(commits.horizon[0])
        if len(commits) > 1:
            horizon = pa.array(commits.horizon[commits.of(numbers)])
        rows = Rows(self.rows.slice(low, high - low), horizon, numbers)
        kept = self.gone.remaining(rows.batch, int(commits.first[0]))
        return rows if kept is None else rows.filter(kept)

    def waiting(self, released: int, limit: int | None = None) -> pa.RecordBatch:
        """Return what is there of the points ahead with ``released < ts <= limit``."""
        first, created = int(self.commits.first[0]), int(self.commits.created[-1])
        return self.gone.waiting(self.ahead, first, created, released, limit)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def commits_of(segments: Sequence[Segment]) -> Commits:
    """Return what some commits say of themselves."""
    headers = [segment.header for segment in segments]
    columns = (
        [header.first for header in headers],
        [header.first + header.count for header in headers],
        [segment.rows.num_rows for segment in segments],
        [header.frontier for header in headers],
        [header.horizon for header in headers],
        [header.created for header in headers],
        [time_range(segment.rows)[1] for segment in segments],
    )
    return Commits(*(np.array(column, np.int64) for column in columns))
