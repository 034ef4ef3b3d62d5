"""The consumer of a stream's segments."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from storage_agent.streams.index import IndexEntry
from storage_agent.streams.segments import Segment


@dataclass(frozen=True, slots=True)
class SegmentConsumer:
    """A component that derives data from each segment of a stream.

    ``apply``: called with each segment, in the order of positions, after the segment was stored or
    read; other tasks may run during the call. The log contains the segment only after the call, so
    a reader that finds a row also finds what was derived from it. During the call, the data of the
    component may be ahead of the log, so a component that corrects its data by the rows of the log
    must await ``StreamLog.wait_applied`` first. ``needs_from``: returns a position; segments that
    end after this position are neither compacted nor evicted. If ``needs_from`` is None, the
    consumer needs no segment.
    """

    apply: Callable[[Segment, IndexEntry], Awaitable[None]]
    needs_from: Callable[[], int] | None = None
