"""Holding: each point of an adaptively sampled source counts as the values that it stands for."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from mistbow.plan.expressions import Scalar
from mistbow.sampling.adaptive import stands_for


def held(
    routed: pa.Table, rows: pa.RecordBatch, attributes: Sequence[Mapping[str, Scalar]]
) -> pa.Table:
    """Return each point as often as there are values that it stands for, none that is not needed.

    ``rows`` are the points as they came, with their distinct ``attributes``; ``routed``
    (``ROUTED``) the same ones. All copies have the point's own time, so that a window is read by
    the points that lie in it: what is held beyond its end makes up for what reaches into it.
    """
    times = np.array([stands_for(one) for one in attributes], np.int64)
    each = times[rows.column("attributes").indices.to_numpy()]
    return routed if (each == 1).all() else routed.take(np.repeat(np.arange(len(each)), each))
