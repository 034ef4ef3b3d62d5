"""Converts the outputs of accumulators to values for each tick, or for each time of a point."""

import numpy as np
import pyarrow as pa

from analytics_worker.evaluate.finalize import FunctionValues
from analytics_worker.stateful.accumulators import AccumulatorOutput


def values_at_ticks(outputs: list[AccumulatorOutput]) -> tuple[pa.Table, FunctionValues]:
    """Return a table with the tick and the key of each output, and the output's last value."""
    return _keyed([(one.tick, one.key, float(one.values[-1])) for one in outputs])


def values_at_points(outputs: list[AccumulatorOutput]) -> tuple[pa.Table, FunctionValues]:
    """Return a table with the times and keys of points, and an accumulator's value for each row.

    The column ``tick`` contains the times (ms). The value is the accumulator's value after all
    points of the key up to this time.
    """
    found = []
    for one in outputs:
        times = np.unique(one.ts)
        last = one.values[np.searchsorted(one.ts, times, side="right") - 1]
        found += [
            (ts, one.key, value) for ts, value in zip(times.tolist(), last.tolist(), strict=True)
        ]
    return _keyed(found)


def _keyed(found: list[tuple[int, str, float]]) -> tuple[pa.Table, FunctionValues]:
    rows = {
        "tick": pa.array([tick for tick, _, _ in found], pa.int64()),
        "key": pa.array([key for _, key, _ in found], pa.string()),
    }
    return pa.table(rows), FunctionValues(pa.array([value for _, _, value in found], pa.float64()))
