"""Gathering: points that go to the same pane become one row, before an engine sees them.

An engine handles each row by itself; what a pane without contents needs of its points are four
numbers, which Arrow makes of many points in one go.
"""

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.panes.routing import ROUTED
from mistbow.panes.thinning import ends
from mistbow.plan.nodes import Pane

_NUMBERS = (
    pa.field("sum", pa.float64()),
    pa.field("count", pa.int64()),
    pa.field("min", pa.float64()),
    pa.field("max", pa.float64()),
)
GATHERED = pa.schema([*ROUTED, *_NUMBERS])
"""Routed points, with the numbers of what a row stands for: a point, or all of a pane.

Of a row for several points, ``ts`` and ``due`` are ends of panes, and it has no value.
"""

_ALIKE = ["route", "key", "ts", "due"]
_OF_VALUES = [("value", "sum"), ("value", "count"), ("value", "min"), ("value", "max")]


def gathered(routed: pa.Table, panes: Sequence[Pane]) -> pa.Table:
    """Return the same points (``ROUTED``) in the shape ``GATHERED``.

    Those of panes that carry no contents and are not sampled are gathered.
    """
    plain = [not pane.contents and pane.source.sampling is msgspec.UNSET for pane in panes]
    chosen = pa.array(plain, pa.bool_()).take(routed["route"].combine_chunks())
    return pa.concat_tables(
        [_each(routed.filter(pc.invert(chosen))), _together(routed.filter(chosen), panes)]
    )


def _each(rows: pa.Table) -> pa.Table:
    values = rows["value"]
    numbers = (
        pc.fill_null(values, 0.0),
        pc.is_valid(values).cast(pa.int64()),
        pc.fill_null(values, math.inf),
        pc.fill_null(values, -math.inf),
    )
    return pa.table([*rows.columns, *numbers], schema=GATHERED)


def _together(rows: pa.Table, panes: Sequence[Pane]) -> pa.Table:
    widths = np.array([pane.width_ms for pane in panes], np.int64)[rows["route"].to_numpy()]
    cut = pa.table(
        {
            "route": rows["route"],
            "key": rows["key"],
            "ts": ends(rows["ts"].to_numpy(), widths),
            "due": ends(rows["due"].to_numpy(), widths),
            "value": rows["value"],
        }
    )
    found = cut.group_by(_ALIKE, use_threads=False).aggregate(_OF_VALUES)
    columns = {
        **{name: found[name] for name in _ALIKE},
        **{function: found[f"value_{function}"] for _, function in _OF_VALUES},
    }
    return pa.table(
        [
            columns[field.name] if field.name in columns else pa.nulls(found.num_rows, field.type)
            for field in GATHERED
        ],
        schema=GATHERED,
    )
