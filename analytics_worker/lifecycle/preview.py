"""Previews: the results of a plan in a span of the past, computed once from stored points."""

from collections.abc import Mapping

import msgspec
import pyarrow as pa

from analytics.plan.fragments import StreamLocation
from analytics.plan.preview import PreviewOrder
from analytics.plan.resumption import Resumption, resume
from analytics_worker.streaming_library import StreamingLibrary
from mistbow.client.agent import AgentClient
from mistbow.errors import TooLargeError
from mistbow.streams.schemas import RESULT_ROWS

AFTER = b"after"
"""The key of the time (ms) after which the results begin, in the metadata of the table."""


def compute_preview(library: StreamingLibrary, agent: AgentClient, order: PreviewOrder) -> pa.Table:
    """Return the latest results (``RESULT_ROWS``) of an order, at most one more than its maximum.

    If there are too many points, the results begin later than ordered: ``AFTER`` in the table's
    metadata. Raises ``TooLargeError`` if the windows of a single tick have too many points.
    """
    after, resumption, starts = _bounded(agent, order)
    times = resumption.needs + 1, order.until
    rows = library.recompute_from_points(
        starts, resumption.plan, resumption.after, times, None, limit=order.max_rows + 1
    )
    return rows.cast(RESULT_ROWS).replace_schema_metadata({AFTER: str(after).encode()})


def _bounded(
    agent: AgentClient, order: PreviewOrder
) -> tuple[int, Resumption, Mapping[StreamLocation, int]]:
    """Return (the time after which the results begin, the resumption, the positions to read from).

    The span is halved until it has few enough positions.
    """
    after = order.after
    while True:
        insights = tuple(msgspec.structs.replace(each, since=after) for each in order.plan.insights)
        plan = msgspec.structs.replace(order.plan, insights=insights)
        resumption = resume(plan, 0, ())
        starts, positions = {}, 0
        for location in order.locations:
            site = agent.at(location.site)
            head = site.info(location.stream).head
            starts[location] = site.seek(location.stream, max(resumption.needs, 0))
            positions += max(0, head - starts[location])
        if positions <= order.max_positions:
            return after, resumption, starts
        shorter = order.until - (order.until - after) // 2
        if order.until - shorter < order.plan.grain_ms:
            raise TooLargeError(
                f"the windows have {positions:,} points, more than the {order.max_positions:,} of "
                "a preview",
                hint="Shorten the windows, or deploy the insight.",
            )
        after = shorter
