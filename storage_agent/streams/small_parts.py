"""Subscriptions in small parts, which retain little memory while their readers are slow."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from mistbow.errors import NotFoundError
from mistbow.streams.wire import ChunkEncoder
from storage_agent.streams import subscription
from storage_agent.streams.columns import without_unused_words
from storage_agent.streams.log import LogPhase, StreamLog
from storage_agent.streams.pace import Pace
from storage_agent.streams.subscription import RowSelector, SelectedRows

_FEW = 16
_ROWS = 50_000
_MIN_ROWS = 500
_RUN_PARTS = 16
"""The maximum number of parts of a run: each part may decode the whole run again."""

_MAX_SPAN = 10_000
"""The maximum number of positions of a part, if few of the rows before it were selected."""


class OpenSubscriptions:
    """Counts the subscriptions of an agent, and divides memory among them if they are many.

    No subscription is refused, so the feeds of replicas, which are counted too, continue.
    """

    def __init__(self) -> None:
        self._open = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count a subscription within the ``with``."""
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

    async def count(self, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the parts of a subscription, and count it meanwhile."""
        with self.counted():
            async for part in parts:
                yield part

    @property
    def are_many(self) -> bool:
        """Whether each subscription must retain few rows, because many are open."""
        return self._open > _FEW

    @property
    def rows(self) -> int:
        """The number of rows that each subscription may retain.

        A part is at least one segment, which may have more rows.
        """
        return max(_MIN_ROWS, _ROWS * _FEW // max(_FEW, self._open))


class _SmallReads:
    """Reads the selected rows of a stream from the position ``start`` to ``end`` in small parts.

    The rows are read again for each part, which takes more time. ``follow``: continue with new
    rows.
    """

    def __init__(
        self,
        log: StreamLog,
        selector: RowSelector,
        subscriptions: OpenSubscriptions,
        start: int,
        end: int | None,
        *,
        follow: bool,
    ) -> None:
        self._log = log
        self._selector = selector
        self._subscriptions = subscriptions
        self._end = end if follow else min(log.head if end is None else end, log.head)
        self._position = start
        self._span = 0
        self._pace = Pace(start, self._end)

    @property
    def is_ended(self) -> bool:
        """Whether the last part was read."""
        return self._end is not None and self._position >= self._end

    async def read(self) -> list[SelectedRows]:
        """Return the next part; wait for it at the head of the stream.

        Only the last item, which has the position, may have no rows. Raises ``NotFoundError`` if
        the stream is deleted.
        """
        while True:
            changed = self._log.watch()
            if self._log.phase is LogPhase.REMOVED:
                raise NotFoundError(f"the stream {self._log.name} was deleted")
            found = await self._select()
            reached = found[-1].position
            self._position = reached.next
            rows = sum(each.rows.num_rows for each in found)
            if self._pace.sends(rows, reached):
                *before, last = found
                return [*(each for each in before if each.rows.num_rows), last]
            if reached.next < self._log.head:
                continue
            # Nothing but the event is retained while the subscription waits.
            del found
            await self._pace.wait(changed, reached)

    async def _select(self) -> list[SelectedRows]:
        limit = self._subscriptions.rows
        log, position = self._log, self._position
        entry = next(log.index.entries_from(position), None)
        share = entry.rows // _RUN_PARTS if entry is not None and entry.blocks else 0
        span = max(limit, self._span, share)
        size = subscription.MAX_CHUNK_BYTES
        stop = (await subscription.find_end(log, position, span, max_bytes=size)).next
        if self._end is not None:
            stop = min(stop, self._end)
        found = [each async for each in subscription.read(log, self._selector, position, stop)]
        rows = sum(each.rows.num_rows for each in found)
        # Scan further at once if few rows are selected.
        self._span = min(2 * span, max(limit, _MAX_SPAN)) if 2 * rows < limit else 0
        return found


class SmallParts:
    """Encodes the selected rows of a stream from the position ``start`` to ``end``.

    Nothing but the bytes of one part is retained while the reader takes this part. ``follow``:
    continue with new rows.
    """

    def __init__(
        self,
        log: StreamLog,
        selector: RowSelector,
        subscriptions: OpenSubscriptions,
        start: int,
        end: int | None,
        *,
        follow: bool,
    ) -> None:
        self._reads = _SmallReads(log, selector, subscriptions, start, end, follow=follow)
        self._encoder = ChunkEncoder(selector.schema)

    async def encode(self, data: bytes) -> AsyncIterator[bytes]:
        """Yield the part ``data``, all later parts, and the end of the Arrow IPC stream."""
        yield data
        while not self._reads.is_ended:
            data = await self.read()
            yield data
        yield self._encoder.close()

    async def read(self) -> bytes:
        """Return the next part, encoded; wait for it at the head of the stream.

        Raises ``NotFoundError`` if the stream is deleted.
        """
        found = await self._reads.read()
        return b"".join(self._encoder.encode(each.chunk) for each in found)


async def follow_in_small_parts(
    log: StreamLog, selector: RowSelector, subscriptions: OpenSubscriptions, start: int
) -> AsyncGenerator[SelectedRows, None]:
    """Yield the selected rows from the position ``start`` on, as ``subscription.follow`` does.

    Nothing but the rows of one part is retained while the reader takes this part.
    """
    reads = _SmallReads(log, selector, subscriptions, start, None, follow=True)
    while True:
        for each in [_copied(selected) for selected in await reads.read()]:
            yield each


def _copied(selected: SelectedRows) -> SelectedRows:
    """Return a copy of rows: a slice of a run would retain the whole run."""
    rows = without_unused_words(selected.rows)
    every = pa.array(np.arange(rows.num_rows))
    columns = [
        column if pa.types.is_dictionary(column.type) else column.take(every)
        for column in rows.columns
    ]
    copy = pa.RecordBatch.from_arrays(columns, schema=rows.schema)
    return SelectedRows(copy, selected.positions.copy(), selected.position)
