"""Making a stream whole again that lost rows: each number is what it was, or stands for no row.

What Ignite still has is not touched. Where numbers are missing, rows of a replica take the numbers
that they had; a number that no replica has gets a commit without a row, as a claim has none.
"""

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from mistbow.clock import Clock
from mistbow.errors import UnavailableError
from storage_agent.cluster.replica_rows import Part
from storage_agent.ignite_client import HISTORICAL, IgniteClient
from storage_agent.streams.commit import Place, segment_of_claim, segment_of_released
from storage_agent.streams.log import StreamLog
from storage_agent.streams.segments import Segment, encode_segment

_DIGITS = re.compile(r"\d{20}")


@dataclass(slots=True)
class Repaired:
    """How many numbers were missing, and how many of them have their rows again."""

    missing: int = 0
    restored: int = 0


class Repair:
    """Fills a log from its head to ``goal``; may be repeated after an error.

    ``series``: metadata of series that the rows may be of, stored with the first of them.
    """

    def __init__(
        self,
        log: StreamLog,
        ignite: IgniteClient,
        clock: Clock,
        goal: int,
        series: Sequence[dict[str, Any]] = (),
    ) -> None:
        self._log = log
        self._ignite = ignite
        self._clock = clock
        self._goal = goal
        self._series = list(series)
        self._done = Repaired()

    async def fill(self, parts: AsyncIterator[Part]) -> Repaired:
        """Put rows where they are missing, and then commits without rows where some still are."""
        begin = self._log.head
        survivors = await self._survivors()
        async for part in parts:
            await self._take(part, survivors)
        while (stop := self._stop(survivors)) > self._log.head:
            await self._skip(stop)
        self._done.missing = max(self._done.missing, self._done.restored)
        if self._log.head < self._goal:
            raise UnavailableError(f"the stream {self._log.name} was filled up to {begin} only")
        return self._done

    async def _survivors(self) -> list[int]:
        """Return where commits begin that are still there, behind what is missing."""
        prefix = f"{self._log.key}/"
        found = [key.removeprefix(prefix) for key in await self._ignite.keys(HISTORICAL, prefix)]
        firsts = sorted(int(rest) for rest in found if _DIGITS.fullmatch(rest))
        return [first for first in firsts if first >= self._log.head]

    def _stop(self, survivors: Sequence[int]) -> int:
        """Return where what is missing at the head ends."""
        return next((first for first in survivors if first >= self._log.head), self._goal)

    async def _take(self, part: Part, survivors: Sequence[int]) -> None:
        while part.next > self._log.head and (stop := self._stop(survivors)) > self._log.head:
            piece = part.within(self._log.head, stop)
            if not piece.rows.num_rows:
                return
            if piece.first > self._log.head:
                await self._skip(piece.first)
            await self._append(segment_of_released(self._place(), [piece.rows]))
            self._done.restored += piece.rows.num_rows

    async def _skip(self, stop: int) -> None:
        segment = segment_of_claim(self._place())
        header = msgspec.structs.replace(segment.header, count=stop - self._log.head)
        await self._append(Segment(header, segment.rows, segment.ahead))

    async def _append(self, segment: Segment) -> None:
        header = msgspec.structs.replace(segment.header, series=self._series)
        segment = Segment(header, segment.rows, segment.ahead)
        self._series = []
        self._done.missing += header.count
        await self._log.append(segment, encode_segment(segment))
        await self._log.catch_up()

    def _place(self) -> Place:
        log = self._log
        # What the last commit said, not the stream's own frontier: that may have gone on after the
        # rows that are missing came, and they would all be late.
        frontier = log.index[-1].frontier if len(log.index) else 0
        return Place(
            stream=log.key,
            schema=log.schema,
            first=log.head,
            epoch=log.epoch,
            horizon=frontier,
            frontier=frontier,
            created=self._clock(),
            released=log.ahead.released,
        )


async def nothing() -> AsyncIterator[Part]:
    """Yield what nobody has."""
    none: tuple[Part, ...] = ()
    for part in none:
        yield part


def as_part(rows: pa.RecordBatch, start: int) -> Part:
    """Return rows as they would be numbered from ``start``."""
    return Part(rows, start + rows.num_rows)
