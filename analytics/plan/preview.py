"""Previews: the results that insights would have had in a span of the past."""

import msgspec

from analytics.plan.fragments import StreamLocation
from analytics.plan.nodes import Plan


class PreviewOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The order to compute the results of a plan once, over stored points.

    ``locations``: the streams with the points. ``after``, ``until``: the results are in
    ``(after, until]`` (ms). ``max_rows``: the maximum number of results, the latest ones.
    ``max_positions``: the maximum number of stream positions that are read.
    """

    plan: Plan
    locations: tuple[StreamLocation, ...]
    after: int
    until: int
    max_rows: int
    max_positions: int


def preview_order_from_json(data: bytes) -> PreviewOrder:
    """Decode an order; raises ``msgspec.ValidationError`` with the path of an invalid field."""
    return msgspec.json.decode(data, type=PreviewOrder)
