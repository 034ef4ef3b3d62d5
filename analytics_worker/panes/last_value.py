"""Repeats points that were sampled adaptively at their source and represent several values."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from analytics.plan.expressions import Scalar
from mistbow.sampling.adaptive import sampling_weight


def repeat_values(
    routed: pa.Table, rows: pa.RecordBatch, attributes: Sequence[Mapping[str, Scalar]]
) -> pa.Table:
    """Repeat each point as often as its sampling weight: the number of values that the point
    represents.

    ``rows``: the received points. ``attributes``: the distinct attributes of these points.
    ``routed``: the same points as ``ROUTED``. All copies have the time of the point, although the
    values were measured later. A window therefore includes some values that were measured after its
    end, and omits the values of a point before its beginning.
    """
    times = np.array([sampling_weight(one) for one in attributes], np.int64)
    each = times[rows.column("attributes").indices.to_numpy()]
    return routed if (each == 1).all() else routed.take(np.repeat(np.arange(len(each)), each))
