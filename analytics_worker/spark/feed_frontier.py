"""The frontier of a stream whose writers do not advance the stream's own frontier."""

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from cachetools import LRUCache

from analytics.plan.feeds import Feed
from analytics_worker.panes.stream_points import to_milliseconds
from mistbow.client.agent import AgentClient
from mistbow.clock import MAX_AHEAD_MS, system_clock
from mistbow.streams.models import (
    Offset,
)

_MAX_POSITIONS = 1000


class FeedFrontier:
    """Determines the frontier of a feed at positions of the feed's stream.

    If writers advance the stream's own frontier, that frontier is used. Otherwise, once a row has
    arrived, all rows with earlier times are assumed to have arrived. Rows far ahead of the clock
    are ignored, since a single wrong time would make all later rows late.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._frontiers: LRUCache[int, int] = LRUCache(_MAX_POSITIONS)

    def with_frontier(self, agent: AgentClient, start: int, offset: Offset) -> Offset:
        """Return ``offset`` with the frontier of the feed (ms) at the offset's position.

        ``start``: the position from which the offset was read.
        """
        if offset.frontier > 0:
            return offset
        frontier = self._frontiers.get(start, 0)
        if offset.next > start:
            rows = agent.read(
                self._feed.stream, start, offset.next, columns=[self._feed.time]
            ).table
            times = to_milliseconds(rows[self._feed.time])
            frontier = max(frontier, frontier_of_times(times, system_clock()))
        frontier = max(frontier, self._frontiers.get(offset.next, 0))
        self._frontiers[offset.next] = frontier
        return msgspec.structs.replace(offset, frontier=frontier)


def frontier_of_times(times: pa.ChunkedArray, now_ms: int) -> int:
    """Return the time (ms) up to which a feed with these ``times`` of rows is assumed to be
    complete.

    The result is 0 if no time is plausible. ``now_ms``: the time of the clock.
    """
    plausible = times.filter(pc.less_equal(times, now_ms + MAX_AHEAD_MS))
    latest: int | None = pc.max(plausible).as_py()
    return 0 if latest is None else latest - 1
