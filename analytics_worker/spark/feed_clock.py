"""Event time of streams whose writers tell nothing of it."""

from collections import OrderedDict

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Offset
from mistbow.clock import AHEAD_MS, system_clock
from mistbow.panes.feeding import times_in
from mistbow.plan.feeds import Feed

_MOST = 1000


class FeedClock:
    """Tells how far event time is at a number of a stream.

    Where its writers move the frontier, by that. Else by its rows: once one of a later time is
    there, those of all times before are taken to be. Rows far ahead of the clock tell nothing: a
    single wrong time would make all that follows late.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._known: OrderedDict[int, int] = OrderedDict()

    def told(self, agent: AgentClient, start: int, offset: Offset) -> Offset:
        """Return an offset that leads from a number on, with its frontier."""
        if offset.frontier > 0:
            return offset
        frontier = self._known.get(start, 0)
        if offset.next > start:
            rows = agent.read(
                self._feed.stream, start, offset.next, columns=[self._feed.time]
            ).table
            frontier = max(frontier, complete(times_in(rows[self._feed.time]), system_clock()))
        self._known[offset.next] = max(frontier, self._known.get(offset.next, 0))
        while len(self._known) > _MOST:
            self._known.popitem(last=False)
        return msgspec.structs.replace(offset, frontier=self._known[offset.next])


def complete(times: pa.ChunkedArray, now_ms: int) -> int:
    """Return up to when (ms) all rows are taken to be there, once these are; 0: unknown."""
    believed = times.filter(pc.less_equal(times, now_ms + AHEAD_MS))
    latest: int | None = pc.max(believed).as_py()
    return 0 if latest is None else latest - 1
