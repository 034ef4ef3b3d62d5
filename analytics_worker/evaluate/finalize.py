"""Finalizers: compute the values of functions from the merged contents of windows.

Each function of ``analytics.plan.functions`` has an entry in at least one of three tables. There is
one table for each kind of input: columns of windows, lists of values, and points.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.plan.functions import AnyFunction, Function, Parameters, UserOperator
from analytics_worker.evaluate.history.aggregates import Aggregates
from analytics_worker.operators.caller import call
from analytics_worker.operators.forecast import forecast
from analytics_worker.operators.moments import (
    Moments,
    geometric_mean,
    merge,
    moments_of,
    sdev,
    variance,
)
from analytics_worker.operators.order import correlation, histogram, median, mode, percentile, top_k
from analytics_worker.operators.outliers import pmcod
from analytics_worker.operators.points import Floats, Points
from mistbow.streams.schemas import POINT, SAMPLED_POINT

_MOMENTS = pa.struct(
    [
        pa.field("count", pa.int64()),
        pa.field("sum", pa.float64()),
        pa.field("moments", pa.float64()),
    ]
)
WINDOWED = pa.schema(
    [
        pa.field("window", pa.int32()),
        pa.field("tick", pa.int64()),
        pa.field("key", pa.string()),
        pa.field("sum", pa.float64()),
        pa.field("count", pa.int64()),
        pa.field("min", pa.float64()),
        pa.field("max", pa.float64()),
        pa.field("moments", pa.list_(_MOMENTS)),
        pa.field("logs", pa.float64()),
        pa.field("latest", POINT),
        pa.field("points", pa.list_(POINT)),
        pa.field("sample", pa.list_(SAMPLED_POINT)),
    ]
)
"""The schema of windows: a row for each window, tick and key.

``window``: the index of the window in the plan. ``tick``: the tick (ms) at which the window is
computed. ``moments`` lists the moments of each pane of the window, not yet merged. The module
``analytics.plan.functions`` describes the other contents.
"""


@dataclass(frozen=True, slots=True, eq=False)
class FunctionValues:
    """The values of a function, as columns with an entry for each row; None: all entries are null.

    ``value``: the value of the function. ``values``: the list of values of a function such as
    TOP_K. ``low``, ``high``: the bounds of an estimate or of a histogram. ``confidence``: the
    confidence of the bounds of an estimate. ``problems``: why an operator of another package gave
    no answer; null: the operator answered.
    """

    value: Any
    values: Any = None
    low: Any = None
    high: Any = None
    confidence: Any = None
    problems: Any = None

    def filter(self, chosen: Any) -> "FunctionValues":
        """Return the values of the rows that the mask ``chosen`` selects."""
        columns = (self.value, self.values, self.low, self.high, self.confidence, self.problems)
        return FunctionValues(*(None if each is None else each.filter(chosen) for each in columns))


def finalize(function: AnyFunction, rows: pa.Table, parameters: Parameters) -> FunctionValues:
    """Return the value of a function for each window of ``rows`` (``WINDOWED``).

    If the function has two arguments, the column ``points_of_other`` contains the points of the
    second argument.
    """
    if not isinstance(function, UserOperator):
        if function in _OF_CONTENTS:
            return _OF_CONTENTS[function](rows, parameters)
        if function in _OF_LISTS:
            return reduce_values(function, _values_of(rows["points"]), parameters)
    columns = [name for name in ("points", "points_of_other") if name in rows.column_names]
    windows = zip(*(points_of(rows[name]) for name in columns), strict=True)
    return finalize_points(function, windows, parameters, rows["tick"].to_pylist())


def finalize_aggregates(function: AnyFunction, merged: Aggregates) -> FunctionValues:
    """Return the value of a mergeable function for each aggregate; no aggregate is empty."""
    if isinstance(function, UserOperator):
        raise TypeError(f"{function} is not mergeable")
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is no result
        return FunctionValues(pa.array(_OF_AGGREGATES[function](merged), pa.float64()))


def reduce_values(
    function: AnyFunction, lists: Any, parameters: Parameters, ticks: Sequence[int] | None = None
) -> FunctionValues:
    """Return the value of a function for each list of values; lists are not empty and have no
    nulls.

    ``ticks``: the tick (ms) of each list, which only operators of other packages need.
    """
    if isinstance(function, UserOperator):
        return _call(function, [(values,) for values in _arrays(lists)], parameters, ticks)
    return _concat([_OF_LISTS[function](values, parameters) for values in _arrays(lists)])


def finalize_points(
    function: AnyFunction,
    windows: Iterable[Sequence[Points]],
    parameters: Parameters,
    ticks: Sequence[int] | None = None,
) -> FunctionValues:
    """Return the value of a function for each window, computed from the window's points.

    A window contains a series of points for each argument of the function; a series is not empty,
    and sorted by (ts, value). ``ticks``: the tick (ms) of each window, which only operators of
    other packages need.
    """
    if isinstance(function, UserOperator):
        values = [[points.values for points in window] for window in windows]
        return _call(function, values, parameters, ticks)
    return _concat([_of_window(function, points, parameters) for points in windows])


def _of_window(
    function: Function, points: Sequence[Points], parameters: Parameters
) -> "_ListValue":
    of_points = _OF_POINTS.get(function)
    if of_points is None:
        return _OF_LISTS[function](points[0].values, parameters)
    return _ListValue(of_points(points, parameters))


def _column(name: str) -> Callable[[pa.Table, Parameters], FunctionValues]:
    return lambda rows, _: FunctionValues(rows[name].cast(pa.float64()))


def _mean(rows: pa.Table, _: Parameters) -> FunctionValues:
    return FunctionValues(pc.divide(rows["sum"], rows["count"].cast(pa.float64())))


def _latest(rows: pa.Table, _: Parameters) -> FunctionValues:
    return FunctionValues(pc.struct_field(rows["latest"], "value"))


def _geometric_mean(rows: pa.Table, _: Parameters) -> FunctionValues:
    mean = pc.exp(pc.divide(rows["logs"], rows["count"].cast(pa.float64())))
    return FunctionValues(
        pc.if_else(pc.greater(rows["min"], 0.0), mean, pa.scalar(None, pa.float64()))
    )


def _of_moments(
    spread: Callable[[Moments], Floats],
) -> Callable[[pa.Table, Parameters], FunctionValues]:
    def finalize_moments(rows: pa.Table, _: Parameters) -> FunctionValues:
        lists = rows["moments"].combine_chunks()
        parts = pc.list_flatten(lists)
        count = pc.struct_field(parts, "count").to_numpy(zero_copy_only=False)
        means = pc.struct_field(parts, "sum").to_numpy(zero_copy_only=False) / count
        squares = pc.struct_field(parts, "moments").to_numpy(zero_copy_only=False)
        groups = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
        merged = merge(Moments(count, means, squares, np.zeros(len(count))), groups, len(lists))
        return FunctionValues(pa.array(spread(merged), pa.float64()))

    return finalize_moments


_OF_CONTENTS: dict[Function, Callable[[pa.Table, Parameters], FunctionValues]] = {
    "SUM": _column("sum"),
    "COUNT": _column("count"),
    "MIN": _column("min"),
    "MAX": _column("max"),
    "AVG": _mean,
    "LATEST": _latest,
    "SDEV": _of_moments(sdev),
    "VARIANCE": _of_moments(variance),
    "GEOMETRIC_MEAN": _geometric_mean,
}
"""Function -> the finalizer over columns of windows, for functions that need no list of points."""


_OF_AGGREGATES: dict[Function, Callable[[Aggregates], Floats]] = {
    "SUM": lambda merged: merged.sum,
    "COUNT": lambda merged: merged.count.astype(np.float64),
    "MIN": lambda merged: merged.min,
    "MAX": lambda merged: merged.max,
    "AVG": lambda merged: merged.sum / merged.count,
    "LATEST": lambda merged: merged.value,
    "SDEV": lambda merged: np.sqrt(merged.m2 / merged.count),
    "VARIANCE": lambda merged: merged.m2 / merged.count,
    "GEOMETRIC_MEAN": lambda merged: np.exp(merged.logs / merged.count),
}
"""Function -> the finalizer over merged aggregates of points, for mergeable functions."""


def _rate(points: Points) -> float | None:
    """Return the sum of the rates of all entities' counters, as increases per second.

    If several points have the same entity and time, only the greatest value is used. A value below
    the previous value means that the counter was reset; the increase is then the value itself, as
    in Prometheus. Return None if no entity has points at two times.
    """
    order = np.argsort(points.entities, kind="stable")  # each entity's by (ts, value), as before
    _, starts = np.unique(points.entities[order], return_index=True)
    rates = []
    for chosen in np.split(order, starts[1:]):
        ts, values = points.ts[chosen], points.values[chosen]
        greatest = np.append(ts[1:] != ts[:-1], True)
        ts, values = ts[greatest], values[greatest]
        if len(ts) > 1:
            with np.errstate(over="ignore"):  # what is not finite is no result
                increases = np.where(values[1:] < values[:-1], values[1:], np.diff(values))
                rates.append(increases.sum() / (int(ts[-1] - ts[0]) / 1000))
    return float(sum(rates)) if rates else None


_OF_POINTS: dict[Function, Callable[[Sequence[Points], Parameters], float | None]] = {
    "CORRELATION": lambda points, _: correlation(*points),
    "FORECAST": lambda points, parameters: forecast(
        points[0].ts, points[0].values, int(parameters[0])
    ),
    "LATEST": lambda points, _: float(points[0].values[-1]),
    "RATE": lambda points, _: _rate(points[0]),
}
"""Function -> the finalizer over points, for functions that need times, order or entities.

A finalizer receives, for each argument of the function, the points of a window, sorted by (ts,
value).
"""


@dataclass(frozen=True, slots=True, eq=False)
class _ListValue:
    """The value of a function for one list or window; ``FunctionValues`` describes the fields."""

    value: float | None
    values: Floats | None = None
    low: float | None = None
    high: float | None = None


def _top_k(values: Floats, parameters: Parameters) -> _ListValue:
    top = top_k(values, int(parameters[0]))
    return _ListValue(float(top[-1]), top)


def _histogram(values: Floats, parameters: Parameters) -> _ListValue:
    counts, edges = histogram(values, int(parameters[0]))
    return _ListValue(
        float(len(values)), counts.astype(np.float64), float(edges[0]), float(edges[-1])
    )


def _outliers(values: Floats, parameters: Parameters) -> _ListValue:
    k, r = parameters
    outlying = np.sort(values[pmcod(values, int(k), r)])
    return _ListValue(float(len(outlying)), outlying)


_OF_LISTS: dict[Function, Callable[[Floats, Parameters], _ListValue]] = {
    "SUM": lambda values, _: _ListValue(math.fsum(values)),
    "COUNT": lambda values, _: _ListValue(float(len(values))),
    "MIN": lambda values, _: _ListValue(float(values.min())),
    "MAX": lambda values, _: _ListValue(float(values.max())),
    "AVG": lambda values, _: _ListValue(float(values.mean())),
    "SDEV": lambda values, _: _ListValue(float(sdev(moments_of(values))[0])),
    "VARIANCE": lambda values, _: _ListValue(float(variance(moments_of(values))[0])),
    "GEOMETRIC_MEAN": lambda values, _: _ListValue(float(geometric_mean(moments_of(values))[0])),
    "MEDIAN": lambda values, _: _ListValue(median(values)),
    "MODE": lambda values, _: _ListValue(mode(values)),
    "PERCENTILE": lambda values, parameters: _ListValue(percentile(values, parameters[0])),
    "TOP_K": _top_k,
    "HISTOGRAM": _histogram,
    "OUTLIER_DETECTION": _outliers,
}
"""Function -> the finalizer over the values in a window, or over the values of keys at a tick."""


def _call(
    operator: UserOperator,
    windows: Sequence[Sequence[Floats]],
    parameters: Parameters,
    ticks: Sequence[int] | None,
) -> FunctionValues:
    answers = call(operator.name, operator.version, parameters, windows, ticks=ticks)
    problems = pa.array([answer.problem for answer in answers], pa.string())
    return FunctionValues(
        pa.array([answer.value for answer in answers], pa.float64()), problems=problems
    )


def _concat(results: list[_ListValue]) -> FunctionValues:
    return FunctionValues(
        pa.array([one.value for one in results], pa.float64()),
        pa.array([one.values for one in results], pa.list_(pa.float64())),
        pa.array([one.low for one in results], pa.float64()),
        pa.array([one.high for one in results], pa.float64()),
    )


def _arrays(lists: Any) -> Iterator[Floats]:
    array = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    offsets = array.offsets.to_numpy()
    values = array.values.to_numpy(zero_copy_only=False)
    for start, end in itertools.pairwise(offsets):
        yield values[start:end]


def _values_of(points: pa.ChunkedArray) -> pa.ListArray:
    lists = points.combine_chunks()
    values = pc.struct_field(lists.values, "value")
    return pa.ListArray.from_arrays(lists.offsets, values, mask=pc.is_null(lists))


def points_of(lists: pa.ChunkedArray) -> Iterator[Points]:
    """Yield, for each list of points (``POINT``), the points sorted by (ts, value)."""
    array = lists.combine_chunks()
    offsets = array.offsets.to_numpy()
    ts = pc.struct_field(array.values, "ts").to_numpy(zero_copy_only=False)
    values = pc.struct_field(array.values, "value").to_numpy(zero_copy_only=False)
    entities = pc.struct_field(array.values, "entity").to_numpy(zero_copy_only=False)
    for start, end in itertools.pairwise(offsets):
        order = np.lexsort((values[start:end], ts[start:end]))
        yield Points(ts[start:end][order], values[start:end][order], entities[start:end][order])
