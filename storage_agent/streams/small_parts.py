"""Subscriptions in small parts, which retain little memory while their readers are slow."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from mistbow.errors import NotFoundError
from mistbow.streams.wire import ChunkEncoder
from storage_agent.streams import subscription
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
        """Whether each subscription must retain little, because many are open."""
        return self._open > _FEW

    @property
    def rows(self) -> int:
        """The number of rows that each subscription may retain.

        A part is at least one segment, which may have more rows.
        """
        return max(_MIN_ROWS, _ROWS * _FEW // max(_FEW, self._open))


class SmallParts:
    """Reads the selected rows of a stream from the position ``start`` to ``end``.

    Nothing but the bytes of one part is retained while the reader takes this part; the rows are
    read again for the next one, which takes more time. ``follow``: continue with new rows.
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
        self._encoder = ChunkEncoder(selector.schema)
        self._end = end if follow else min(log.head if end is None else end, log.head)
        self._position = start
        self._span = 0
        self._pace = Pace(start, self._end)

    async def encode(self, data: bytes) -> AsyncIterator[bytes]:
        """Yield the part ``data``, all later parts, and the end of the Arrow IPC stream."""
        yield data
        while self._end is None or self._position < self._end:
            data = await self.read()
            yield data
        yield self._encoder.close()

    async def read(self) -> bytes:
        """Return the next part, encoded; wait for it at the head of the stream.

        Raises ``NotFoundError`` if the stream is deleted.
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
                return self._encode(found)
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
        stop = (await subscription.find_end(log, position, span)).next
        if self._end is not None:
            stop = min(stop, self._end)
        found = [each async for each in subscription.read(log, self._selector, position, stop)]
        rows = sum(each.rows.num_rows for each in found)
        # Scan further at once if few rows are selected.
        self._span = min(2 * span, max(limit, _MAX_SPAN)) if 2 * rows < limit else 0
        return found

    def _encode(self, found: list[SelectedRows]) -> bytes:
        """Encode parts; of those without rows, only the last one, which has the position."""
        *before, last = found
        chunks = [*(each.chunk for each in before if each.rows.num_rows), last.chunk]
        return b"".join(map(self._encoder.encode, chunks))
