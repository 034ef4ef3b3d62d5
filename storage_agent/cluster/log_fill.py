"""Fills the gaps in a log that lost rows.

Segments that Ignite still stores are not changed. Rows from a replica are restored at their
original positions. If the replica lacks the rows, an empty segment covers their positions, like the
segment that a claim writes.
"""

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from mistbow.clock import Clock
from mistbow.errors import TooLargeError, UnavailableError
from storage_agent.cluster.replica_rows import NumberedRows
from storage_agent.ignite.client import HISTORICAL, IgniteClient
from storage_agent.series import Metadata, Series, series_of
from storage_agent.streams.columns import as_list, without_unused_words
from storage_agent.streams.group_commit import SegmentContext, build_claim, build_release
from storage_agent.streams.log import StreamLog
from storage_agent.streams.segments import Segment, encode_segment

_DIGITS = re.compile(r"\d{20}")
_MAX_SERIES_BYTES = 2**20
"""The size (bytes) of the metadata of series in one segment. Only the last of these series, or the
series of the segment's own rows, may exceed it.
"""


@dataclass(slots=True)
class RepairResult:
    """The result of a repair: the numbers of missing positions and of restored rows."""

    missing: int = 0
    restored: int = 0


class LogFill:
    """Fills the gaps of a log from its head up to the position ``goal``.

    ``series``: the metadata, stored with the rows, of the series to which the rows may belong.
    """

    def __init__(
        self,
        log: StreamLog,
        ignite: IgniteClient,
        clock: Clock,
        goal: int,
        series: Sequence[Metadata] = (),
    ) -> None:
        self._log = log
        self._ignite = ignite
        self._clock = clock
        self._goal = goal
        self._series = {series_of(each): each for each in series}
        self._result = RepairResult()

    async def fill(self, parts: AsyncIterator[NumberedRows]) -> RepairResult:
        """Append the rows of a replica, and cover the other missing positions by empty segments.

        ``parts``: the rows of the replica. Returns the numbers of missing positions and restored
        rows. Raises ``UnavailableError`` if the log does not reach the goal.
        """
        begin = self._log.head
        survivors = await self._find_survivors()
        async for part in parts:
            await self._restore(part, survivors)
        while (stop := self._gap_end(survivors)) > self._log.head:
            await self._skip_to(stop)
        self._result.missing = max(self._result.missing, self._result.restored)
        if self._log.head < self._goal:
            raise UnavailableError(
                f"the stream {self._log.name} was filled from {begin} up to {self._log.head} only",
                hint="Repeat the repair once Ignite answers.",
            )
        # The remaining metadata takes positions after the goal, as claims do.
        while self._series:
            await self._append(build_claim(self._context()))
        return self._result

    async def _find_survivors(self) -> list[int]:
        """Return, in ascending order, the first positions of the segments stored after the head."""
        prefix = f"{self._log.key}/"
        found = [key.removeprefix(prefix) for key in await self._ignite.keys(HISTORICAL, prefix)]
        firsts = sorted(int(rest) for rest in found if _DIGITS.fullmatch(rest))
        return [first for first in firsts if first >= self._log.head]

    def _gap_end(self, survivors: Sequence[int]) -> int:
        """Return the position at which the gap at the head of the log ends.

        This is the first position of the next stored segment, or ``goal`` if there is none.
        ``survivors``: the first positions of the segments that are stored after the head.
        """
        return next((first for first in survivors if first >= self._log.head), self._goal)

    async def _restore(self, part: NumberedRows, survivors: Sequence[int]) -> None:
        while part.next > self._log.head and (stop := self._gap_end(survivors)) > self._log.head:
            piece = part.within(self._log.head, stop)
            if not piece.rows.num_rows:
                return
            if piece.first > self._log.head:
                await self._skip_to(piece.first)
            await self._append_first(piece.rows)

    async def _append_first(self, rows: pa.RecordBatch) -> None:
        """Append as many of the rows as fit into a segment, from the first row on."""
        while True:
            try:
                await self._append(build_release(self._context(), [rows]))
            except TooLargeError:
                if rows.num_rows == 1:
                    raise
                # Otherwise, the segment would contain the words of the other rows.
                rows = without_unused_words(rows.slice(0, rows.num_rows // 2))
            else:
                self._result.missing += rows.num_rows
                self._result.restored += rows.num_rows
                return

    async def _skip_to(self, stop: int) -> None:
        segment = build_claim(self._context())
        header = msgspec.structs.replace(segment.header, count=stop - self._log.head)
        await self._append(Segment(header, segment.rows, segment.future_points))
        self._result.missing += header.count

    async def _append(self, segment: Segment) -> None:
        series = self._select_series(segment.rows)
        header = msgspec.structs.replace(segment.header, series=list(series.values()))
        segment = Segment(header, segment.rows, segment.future_points)
        if await self._log.append(segment, encode_segment(segment)):
            for each in series:
                del self._series[each]
        await self._log.catch_up()

    def _select_series(self, rows: pa.RecordBatch) -> dict[Series, Metadata]:
        """Return the metadata to store with rows: of their series, then of others up to a limit."""
        if not self._series:
            return {}
        names = zip(as_list(rows["metric"]), as_list(rows["entity"]), strict=True)
        own = {each: self._series[each] for each in names if each in self._series}
        size = sum(len(msgspec.json.encode(each)) for each in own.values())
        others = []
        for series, metadata in self._series.items():
            if size > _MAX_SERIES_BYTES:
                break
            if series not in own:
                others.append((series, metadata))
                size += len(msgspec.json.encode(metadata))
        return {**own, **dict(others)}

    def _context(self) -> SegmentContext:
        log = self._log
        # The frontier of the last segment, not the stream's own: that may have advanced after the
        # missing rows came, and would make all of them late.
        frontier = log.index[-1].frontier if len(log.index) else 0
        return SegmentContext(
            stream=log.key,
            schema=log.schema,
            first=log.head,
            epoch=log.epoch,
            frontier_before=frontier,
            frontier=frontier,
            created=self._clock(),
            released=log.future_points.released,
        )


async def no_parts() -> AsyncIterator[NumberedRows]:
    """Yield no rows, to fill a log without a replica."""
    none: tuple[NumberedRows, ...] = ()
    for part in none:
        yield part


def number_rows(rows: pa.RecordBatch, start: int) -> NumberedRows:
    """Return the rows with consecutive positions that begin at ``start``."""
    return NumberedRows(rows, start + rows.num_rows)
