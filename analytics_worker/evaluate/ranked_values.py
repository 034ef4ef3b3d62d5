"""The values of functions that depend on values of certain ranks, at points."""

import math
from collections.abc import Sequence

import pyarrow as pa

from analytics.plan.expressions import Measure
from analytics.plan.functions import Parameters
from analytics_worker.evaluate.finalize import FunctionValues
from analytics_worker.evaluate.history.rank_selection import Ranks, Selected
from analytics_worker.evaluate.history.window_order import WindowOrder
from analytics_worker.evaluate.point_windows import EvaluationTime, columns_of, rows_of


def ranked_at(
    measure: Measure, order: WindowOrder, times: Sequence[EvaluationTime]
) -> tuple[pa.Table, FunctionValues]:
    """Return a table with the times and keys at which a window has points, and the values.

    The column ``tick`` of the table contains ``EvaluationTime.ts``, not ticks.
    """
    selected = order.select(*columns_of(times), _ranks(measure))
    pairs = zip(times, selected, strict=True)
    some = [(time, found) for time, found in pairs if found.count]
    rows = rows_of([(time.ts, time.key) for time, _ in some])
    return rows, _finalize(measure, [found for _, found in some])


def _ranks(measure: Measure) -> Ranks:
    """Return the ranks of the values that an ordered function needs."""
    if measure.function == "TOP_K":
        k = int(measure.parameters[0])
        return lambda count: (max(count - k, 0), count - 1)
    share = _share(measure.parameters)

    def around(count: int) -> tuple[int, int]:
        rank = (count - 1) * share
        return math.floor(rank), math.ceil(rank)

    return around


def _finalize(measure: Measure, selected: Sequence[Selected]) -> FunctionValues:
    if measure.function == "TOP_K":
        lists = [found.values[::-1] for found in selected]
        return FunctionValues(
            pa.array([float(each[-1]) for each in lists], pa.float64()),
            pa.array(lists, pa.list_(pa.float64())),
        )
    share = _share(measure.parameters)
    values = [_interpolated(found, (found.count - 1) * share) for found in selected]
    return FunctionValues(pa.array(values, pa.float64()))


def _share(parameters: Parameters) -> float:
    """Return the share of the values below a percentile; without a parameter, it is the median."""
    return parameters[0] / 100 if parameters else 0.5


def _interpolated(found: Selected, rank: float) -> float:
    """Return the value at a rank between the selected values, as ``numpy.percentile`` does."""
    low, high = float(found.values[0]), float(found.values[-1])
    part = rank - math.floor(rank)
    if part < 0.5:
        return low + (high - low) * part
    return high - (high - low) * (1 - part)
