"""Extents of a stream: the rows of adjacent segments or of a run, in the order of positions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from storage_agent.streams.future_points import select_times
from storage_agent.streams.index import EARLIEST, time_range
from storage_agent.streams.runs import Int64s, SegmentTable
from storage_agent.streams.segments import Segment
from storage_agent.streams.tombstones import Tombstones

_NONE = Tombstones()


@dataclass(frozen=True, slots=True)
class Visibility:
    """Decides which stored rows readers may see: rows that are neither expired nor deleted.

    ``expired_before``: segments that were created before this time (ms) have expired.
    ``last_tombstone``: compaction has already applied the tombstones with ids up to this id.
    """

    expired_before: int = EARLIEST
    tombstones: Tombstones = _NONE
    last_tombstone: int = 0

    def mask(self, rows: pa.RecordBatch, first: int) -> pa.BooleanArray | None:
        """Return a mask that is False for deleted rows; None: no row is deleted.

        ``first``: the first position of the segment or run that contains the rows.
        """
        return self.tombstones.mask(rows, first, self.last_tombstone)

    def filter(self, rows: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """Return the rows that are not deleted.

        ``first``: the first position of the segment or run that contains the rows.
        """
        visible = self.mask(rows, first)
        return rows if visible is None else rows.filter(visible)

    def pending_points(
        self,
        points: pa.RecordBatch,
        first: int,
        created: int,
        released: int,
        limit: int | None = None,
    ) -> pa.RecordBatch:
        """Return the visible ``points`` with ``released < ts <= limit``.

        ``released``: points up to this time (ms) are rows of the stream already. ``first``: the
        first position of the segments that contain the points. ``created``: the time (ms) when the
        last of these segments was created. ``limit`` None: no upper bound.
        """
        if points.num_rows == 0 or created < self.expired_before:
            return points.slice(0, 0)
        return self.filter(select_times(points, released, limit), first)


def without_deleted(
    tables: Sequence[pa.Table], visible: Sequence[tuple[Visibility, int]]
) -> list[pa.Table]:
    """Return the rows of each table that are not deleted.

    ``visible``: for each table, the visibility of the run that contains its rows, and the first
    position of this run.
    """
    return [
        pa.Table.from_batches(
            [visibility.filter(batch, first) for batch in table.to_batches()], table.schema
        )
        for table, (visibility, first) in zip(tables, visible, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class PositionedRows:
    """Rows with their positions.

    ``frontier_before``: the frontier of the stream when the rows were appended: an array with a
    value for each row, or one integer for all rows.
    """

    batch: pa.RecordBatch
    frontier_before: Any
    positions: Int64s

    def filter(self, mask: pa.BooleanArray) -> Self:
        """Return the rows that a mask selects."""
        frontier_before = (
            self.frontier_before
            if isinstance(self.frontier_before, int)
            else self.frontier_before.filter(mask)
        )
        positions = self.positions[mask.to_numpy(zero_copy_only=False)]
        return type(self)(self.batch.filter(mask), frontier_before, positions)


@dataclass(frozen=True, slots=True)
class Extent:
    """The rows and future points of adjacent segments or of a run, in the order of positions.

    ``rows`` includes rows that readers may not see; ``select`` returns only visible rows.
    """

    rows: pa.RecordBatch
    positions: Int64s
    segments: SegmentTable
    future_points: pa.RecordBatch
    visibility: Visibility

    @classmethod
    def of(cls, segments: Sequence[Segment], visibility: Visibility) -> Self:
        """Return the extent of adjacent segments.

        If ``visibility`` has tombstones, ``segments`` must contain only one segment, because a
        tombstone applies either to all rows of an extent or to no row.
        """
        positions = [np.arange(each.rows.num_rows) + each.header.first for each in segments]
        return cls(
            _concat([each.rows for each in segments]),
            np.concatenate(positions),
            segment_table_of(segments),
            _concat([each.future_points for each in segments]),
            visibility,
        )

    @property
    def size(self) -> int:
        """The approximate size of the extent in memory (bytes)."""
        return int(self.rows.nbytes + self.positions.nbytes + len(self.segments) * 56)

    def select(self, start: int, end: int) -> PositionedRows:
        """Return the visible rows at positions from ``start`` to ``end`` (exclusive)."""
        segments = self.segments
        living = int(np.searchsorted(segments.created, self.visibility.expired_before))
        start = max(start, int(segments.first[living]) if living < len(segments) else end)
        low, high = np.searchsorted(self.positions, [start, max(start, end)]).tolist()
        positions = self.positions[low:high]
        frontier_before: Any = int(segments.frontier_before[0])
        if len(segments) > 1:
            frontier_before = pa.array(segments.frontier_before[segments.find_all(positions)])
        rows = PositionedRows(self.rows.slice(low, high - low), frontier_before, positions)
        visible = self.visibility.mask(rows.batch, int(segments.first[0]))
        return rows if visible is None else rows.filter(visible)

    def pending_points(self, released: int, limit: int | None = None) -> pa.RecordBatch:
        """Return the visible future points with ``released < ts <= limit``."""
        first, created = int(self.segments.first[0]), int(self.segments.created[-1])
        return self.visibility.pending_points(self.future_points, first, created, released, limit)


def _concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def segment_table_of(segments: Sequence[Segment]) -> SegmentTable:
    """Return the segment table of the given segments, built from their headers."""
    headers = [segment.header for segment in segments]
    columns = (
        [header.first for header in headers],
        [header.first + header.count for header in headers],
        [segment.rows.num_rows for segment in segments],
        [header.frontier for header in headers],
        [header.frontier_before for header in headers],
        [header.created for header in headers],
        [time_range(segment.rows)[1] for segment in segments],
    )
    return SegmentTable(*(np.array(column, np.int64) for column in columns))
