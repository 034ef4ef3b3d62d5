"""Splits the chunks of a copy, so that a replica knows which of its points are late."""

from collections.abc import AsyncIterator

import numpy as np

from mistbow.streams.schemas import ROW_FRONTIER
from mistbow.streams.wire import Chunk, Position
from storage_agent.streams.log import StreamLog
from storage_agent.streams.subscription import SelectedRows

_SECOND_MS = 1000
_SPLIT_MS = 3_600_000
"""The age (ms) of rows that are still split: a replica of months would have too many segments."""


async def chunks_by_second(
    found: AsyncIterator[SelectedRows], log: StreamLog
) -> AsyncIterator[Chunk]:
    """Yield the rows of a stream of points, and split chunks where the frontier enters a second.

    A replica stores each chunk with the frontier of the chunk before. So this frontier is in the
    same second as the frontier that each row of the chunk had at the source. Since windows end at
    whole seconds, an insight puts a late point into the same pane whether it reads the source or
    the replica.
    """
    second = -1
    async for each in found:
        frontiers = each.rows[ROW_FRONTIER.name].to_numpy()
        seconds = frontiers // _SECOND_MS
        begin = 0
        for start in np.flatnonzero(np.diff(seconds, prepend=second)).tolist():
            if frontiers[start] < log.frontier - _SPLIT_MS:
                continue
            position = Position(int(each.positions[start]), int(frontiers[start]))
            yield Chunk(each.rows.slice(begin, start - begin), position)
            begin = start
        yield Chunk(each.rows.slice(begin), each.position)
        second = each.position.frontier // _SECOND_MS
