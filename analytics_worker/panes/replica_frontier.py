"""The frontier of a replica of points, whose stream has another frontier than the source."""

import msgspec
import pyarrow.compute as pc

from analytics.plan.fragments import StreamLocation
from mistbow.client.agent import AgentClient
from mistbow.streams.models import Offset, StreamInfo
from mistbow.streams.schemas import ROW_FRONTIER, is_point_replica

_ROWS = 1000


def is_replica(location: StreamLocation) -> bool:
    """Return whether a location is a replica of another site's points."""
    return is_point_replica(location.stream)


def replica_frontier(info: StreamInfo) -> int:
    """Return the time (ms) up to which a replica has all points, except late points."""
    return int(info.attributes.get("complete_to", 0))


def replica_offset(agent: AgentClient, stream: str, start: int, max_rows: int) -> Offset:
    """Return the end of a batch of a replica, with the frontier of the source at this position.

    The stream of a replica stores positions of the source as its own frontier, so the frontier is
    read from the next row: it is the frontier that the source had before this row.
    """
    # Before the offset: rows that arrive in between are at positions before the head then.
    info = agent.info(stream)
    offset = agent.offset(stream, start, max_rows)
    next_ = offset.next
    while next_ < info.head:
        end = min(next_ + _ROWS, info.head)
        rows = agent.read(stream, next_, end, columns=[ROW_FRONTIER.name]).table
        if rows.num_rows:
            frontier: int = pc.min(rows[ROW_FRONTIER.name]).as_py()
            return msgspec.structs.replace(offset, frontier=frontier)
        next_ = end
    return msgspec.structs.replace(offset, frontier=replica_frontier(info))
