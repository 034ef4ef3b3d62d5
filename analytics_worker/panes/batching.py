"""Batching: aggregates the points of a micro-batch by pane, before the engine reads the points.

A pane without contents needs only count, sum, minimum and maximum of its points. Arrow computes
these numbers for many points at once, while an engine processes each row separately.
"""

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.plan.nodes import Pane
from analytics_worker.panes.routing import ROUTED
from analytics_worker.sampling.point_sampling import period_ends

_NUMBERS = (
    pa.field("sum", pa.float64()),
    pa.field("count", pa.int64()),
    pa.field("min", pa.float64()),
    pa.field("max", pa.float64()),
)
BATCHED = pa.schema([*ROUTED, *_NUMBERS])
"""The schema of batched points: routed points (``ROUTED``) with count, sum, minimum and maximum.

A row represents one or several points. In a row that represents several points, ``ts`` and ``due``
are the ends of panes, and the value is null.
"""

_GROUP_KEYS = ["route", "key", "ts", "due"]
_AGGREGATIONS = [("value", "sum"), ("value", "count"), ("value", "min"), ("value", "max")]


def batch_points(routed: pa.Table, panes: Sequence[Pane]) -> pa.Table:
    """Convert routed points (``ROUTED``) to ``BATCHED``; ``panes``: the panes of the plan.

    Points of the same pane, key and ``due`` are aggregated to one row if the pane has no contents
    and the pane's source is not sampled.
    """
    plain = [not pane.contents and pane.source.sampling is msgspec.UNSET for pane in panes]
    chosen = pa.array(plain, pa.bool_()).take(routed["route"].combine_chunks())
    return pa.concat_tables(
        [_with_numbers(routed.filter(pc.invert(chosen))), _aggregated(routed.filter(chosen), panes)]
    )


def _with_numbers(rows: pa.Table) -> pa.Table:
    values = rows["value"]
    numbers = (
        pc.fill_null(values, 0.0),
        pc.is_valid(values).cast(pa.int64()),
        pc.fill_null(values, math.inf),
        pc.fill_null(values, -math.inf),
    )
    return pa.table([*rows.columns, *numbers], schema=BATCHED)


def _aggregated(rows: pa.Table, panes: Sequence[Pane]) -> pa.Table:
    widths = np.array([pane.width_ms for pane in panes], np.int64)[rows["route"].to_numpy()]
    cut = pa.table(
        {
            "route": rows["route"],
            "key": rows["key"],
            "ts": period_ends(rows["ts"].to_numpy(), widths),
            "due": period_ends(rows["due"].to_numpy(), widths),
            "value": rows["value"],
        }
    )
    aggregated = cut.group_by(_GROUP_KEYS, use_threads=False).aggregate(_AGGREGATIONS)
    columns = {
        **{name: aggregated[name] for name in _GROUP_KEYS},
        **{function: aggregated[f"value_{function}"] for _, function in _AGGREGATIONS},
    }
    return pa.table(
        [
            columns[field.name]
            if field.name in columns
            else pa.nulls(aggregated.num_rows, field.type)
            for field in BATCHED
        ],
        schema=BATCHED,
    )
