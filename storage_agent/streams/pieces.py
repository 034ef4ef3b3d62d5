"""Pieces of a stream: the rows of a commit or of a run, in the order of their numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_agent.streams.ahead import between
from storage_agent.streams.index import EARLIEST, time_range
from storage_agent.streams.manifest import Deletion, remaining
from storage_agent.streams.runs import Commits
from storage_agent.streams.segments import Segment

Ordinals = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Gone:
    """What of a stream is not there any more, although it may still be stored.

    ``before``: what was created earlier has expired, milliseconds.
    """

    before: int = EARLIEST
    deletions: Sequence[Deletion] = ()

    def left(self, rows: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """Return the rows that are not deleted, where all are numbered from ``first``."""
        kept = remaining(rows, first, self.deletions)
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
    """Some rows, and of each or of all: how far event time was when they came."""

    batch: pa.RecordBatch
    horizon: Any
    ordinals: Ordinals

    def filter(self, kept: pa.BooleanArray) -> Self:
        """Return those that are kept."""
        horizon = self.horizon if isinstance(self.horizon, int) else self.horizon.filter(kept)
        ordinals = self.ordinals[kept.to_numpy(zero_copy_only=False)]
        return type(self)(self.batch.filter(kept), horizon, ordinals)


@dataclass(frozen=True, slots=True)
class Piece:
    """All rows of a commit or a run, the commit of each (``ordinals``), and who waits (``ahead``).

    ``gone`` is not yet taken away.
    """

    rows: pa.RecordBatch
    ordinals: Ordinals
    commits: Commits
    ahead: pa.RecordBatch
    gone: Gone

    @classmethod
    def of(cls, segment: Segment, gone: Gone) -> Self:
        """Return the piece that one commit is."""
        return cls(
            segment.rows,
            np.zeros(segment.rows.num_rows, np.int32),
            commits_of([segment]),
            segment.ahead,
            gone,
        )

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return int(self.rows.nbytes + self.ordinals.nbytes + len(self.commits) * 56)

    def between(self, start: int, end: int) -> Rows:
        """Return what is there of the rows numbered from ``start`` to before ``end``."""
        commits = self.commits
        living = int(np.searchsorted(commits.created, self.gone.before))
        start = max(start, int(commits.first[living]) if living < len(commits) else end)
        low, high = self._row(start), self._row(end)
        ordinals = self.ordinals[low : max(low, high)]
        horizon: Any = int(commits.horizon[0])
        if len(commits) > 1:
            horizon = pa.array(commits.horizon[ordinals], pa.int64())
        rows = Rows(self.rows.slice(low, max(0, high - low)), horizon, ordinals)
        kept = remaining(rows.batch, int(commits.first[0]), self.gone.deletions)
        return rows if kept is None else rows.filter(kept)

    def waiting(self, released: int, limit: int | None = None) -> pa.RecordBatch:
        """Return what is there of the points ahead with ``released < ts <= limit``."""
        first, created = int(self.commits.first[0]), int(self.commits.created[-1])
        return self.gone.waiting(self.ahead, first, created, released, limit)

    def _row(self, number: int) -> int:
        """Return how many rows come before a number."""
        commits = self.commits
        commit = commits.at(number)
        if commit == len(commits):
            return int(self.rows.num_rows)
        before = int(np.searchsorted(self.ordinals, commit, side="left"))
        inside = max(0, number - int(commits.first[commit]))
        return int(before + min(inside, int(commits.rows[commit])))


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
