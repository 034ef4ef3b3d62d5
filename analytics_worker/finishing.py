"""Finishing: from what windows carry to the values of functions; one table, total."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.operators.calling import call
from mistbow.operators.forecast import forecast
from mistbow.operators.moments import (
    Moments,
    geometric_mean,
    merge,
    moments_of,
    sdev,
    variance,
)
from mistbow.operators.order import correlation, histogram, median, mode, percentile, top_k
from mistbow.operators.outliers import pmcod
from mistbow.operators.points import Floats, Points
from mistbow.plan.expressions import AnyFunction, Function, Parameters, UserOperator
from mistbow.streams.schemas import DRAWN, POINT

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
        pa.field("sample", pa.list_(DRAWN)),
    ]
)
"""What windows carry; ``window`` is the window's place in the plan, ``tick`` its end in ms.

The moments are those of its panes, each by itself; see ``mistbow.plan.contents`` for the rest.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """A value for each row, null for none; of some functions also several values, and bounds.

    ``problems``: where an operator of another package gave no answer, why.
    """

    value: Any
    values: Any = None
    low: Any = None
    high: Any = None
    confidence: Any = None
    problems: Any = None

    def filter(self, chosen: Any) -> "Finished":
        """Return the same of the chosen rows."""
        columns = (self.value, self.values, self.low, self.high, self.confidence, self.problems)
        return Finished(*(None if each is None else each.filter(chosen) for each in columns))


def finish(function: AnyFunction, rows: pa.Table, parameters: Parameters) -> Finished:
    """Return what a function says of windows (``WINDOWED``).

    Rows of a function of two arguments have the points of the second as ``points_of_other``.
    """
    if isinstance(function, UserOperator):
        held = [name for name in ("points", "points_of_other") if name in rows.column_names]
        windows = zip(*(points_of(rows[name]) for name in held), strict=True)
        return finish_points(function, windows, parameters, rows["tick"].to_pylist())
    return _OF_WINDOWS[function](rows, parameters)


def reduce_values(
    function: AnyFunction, lists: Any, parameters: Parameters, ticks: Sequence[int] | None = None
) -> Finished:
    """Return what a function says of each list of values, none of which is empty or has nulls.

    ``ticks``: that of each list.
    """
    if isinstance(function, UserOperator):
        return _told_by(function, [(values,) for values in _arrays(lists)], parameters, ticks)
    said = [_OF_LISTS[function](values, parameters) for values in _arrays(lists)]
    return _together(said)


def finish_points(
    function: AnyFunction,
    windows: Iterable[Sequence[Points]],
    parameters: Parameters,
    ticks: Sequence[int] | None = None,
) -> Finished:
    """Return what a function says of the points of each window, none empty, by (ts, value).

    Those of a function of two arguments are two for each window. ``ticks``: that of each.
    """
    if isinstance(function, UserOperator):
        values = [[points.values for points in window] for window in windows]
        return _told_by(function, values, parameters, ticks)
    return _together([_of_window(function, points, parameters) for points in windows])


def _of_window(function: Function, points: Sequence[Points], parameters: Parameters) -> "_One":
    match function:
        case "CORRELATION":
            return _One(correlation(*points))
        case "FORECAST":
            return _One(forecast(points[0].ts, points[0].values, int(parameters[0])))
        case "LATEST":
            return _One(float(points[0].values[-1]))
        case _:
            return _OF_LISTS[function](points[0].values, parameters)


def _column(name: str) -> Callable[[pa.Table, Parameters], Finished]:
    return lambda rows, _: Finished(rows[name].cast(pa.float64()))


def _mean(rows: pa.Table, _: Parameters) -> Finished:
    return Finished(pc.divide(rows["sum"], rows["count"].cast(pa.float64())))


def _latest(rows: pa.Table, _: Parameters) -> Finished:
    return Finished(pc.struct_field(rows["latest"], "value"))


def _geometric_mean(rows: pa.Table, _: Parameters) -> Finished:
    mean = pc.exp(pc.divide(rows["logs"], rows["count"].cast(pa.float64())))
    return Finished(pc.if_else(pc.greater(rows["min"], 0.0), mean, pa.scalar(None, pa.float64())))


def _of_moments(
    spread: Callable[[Moments], Floats],
) -> Callable[[pa.Table, Parameters], Finished]:
    def finished(rows: pa.Table, _: Parameters) -> Finished:
        lists = rows["moments"].combine_chunks()
        parts = pc.list_flatten(lists)
        count = pc.struct_field(parts, "count").to_numpy(zero_copy_only=False)
        means = pc.struct_field(parts, "sum").to_numpy(zero_copy_only=False) / count
        away = pc.struct_field(parts, "moments").to_numpy(zero_copy_only=False)
        groups = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
        merged = merge(Moments(count, means, away, np.zeros(len(count))), groups, len(lists))
        return Finished(pa.array(spread(merged), pa.float64()))

    return finished


def _of_points(function: Function) -> Callable[[pa.Table, Parameters], Finished]:
    def finished(rows: pa.Table, parameters: Parameters) -> Finished:
        lists = rows["points"].combine_chunks()
        values = pa.ListArray.from_arrays(
            lists.offsets, pc.struct_field(lists.values, "value"), mask=pc.is_null(lists)
        )
        return reduce_values(function, values, parameters)

    return finished


def _correlation(rows: pa.Table, parameters: Parameters) -> Finished:
    pairs = zip(points_of(rows["points"]), points_of(rows["points_of_other"]), strict=True)
    return finish_points("CORRELATION", pairs, parameters)


def _forecast(rows: pa.Table, parameters: Parameters) -> Finished:
    windows = ((points,) for points in points_of(rows["points"]))
    return finish_points("FORECAST", windows, parameters)


_OF_WINDOWS: dict[Function, Callable[[pa.Table, Parameters], Finished]] = {
    "SUM": _column("sum"),
    "COUNT": _column("count"),
    "MIN": _column("min"),
    "MAX": _column("max"),
    "AVG": _mean,
    "LATEST": _latest,
    "SDEV": _of_moments(sdev),
    "VARIANCE": _of_moments(variance),
    "GEOMETRIC_MEAN": _geometric_mean,
    "MEDIAN": _of_points("MEDIAN"),
    "MODE": _of_points("MODE"),
    "PERCENTILE": _of_points("PERCENTILE"),
    "TOP_K": _of_points("TOP_K"),
    "HISTOGRAM": _of_points("HISTOGRAM"),
    "OUTLIER_DETECTION": _of_points("OUTLIER_DETECTION"),
    "CORRELATION": _correlation,
    "FORECAST": _forecast,
}
"""What each function says of windows."""


@dataclass(frozen=True, slots=True, eq=False)
class _One:
    """What is said of one list."""

    value: float | None
    values: Floats | None = None
    low: float | None = None
    high: float | None = None


def _top_k(values: Floats, parameters: Parameters) -> _One:
    top = top_k(values, int(parameters[0]))
    return _One(float(top[-1]), top)


def _histogram(values: Floats, parameters: Parameters) -> _One:
    counts, edges = histogram(values, int(parameters[0]))
    return _One(float(len(values)), counts.astype(np.float64), float(edges[0]), float(edges[-1]))


def _outliers(values: Floats, parameters: Parameters) -> _One:
    k, r = parameters
    outlying = np.sort(values[pmcod(values, int(k), r)])
    return _One(float(len(outlying)), outlying)


_OF_LISTS: dict[Function, Callable[[Floats, Parameters], _One]] = {
    "SUM": lambda values, _: _One(math.fsum(values)),
    "COUNT": lambda values, _: _One(float(len(values))),
    "MIN": lambda values, _: _One(float(values.min())),
    "MAX": lambda values, _: _One(float(values.max())),
    "AVG": lambda values, _: _One(float(values.mean())),
    "SDEV": lambda values, _: _One(float(sdev(moments_of(values))[0])),
    "VARIANCE": lambda values, _: _One(float(variance(moments_of(values))[0])),
    "GEOMETRIC_MEAN": lambda values, _: _One(float(geometric_mean(moments_of(values))[0])),
    "MEDIAN": lambda values, _: _One(median(values)),
    "MODE": lambda values, _: _One(mode(values)),
    "PERCENTILE": lambda values, parameters: _One(percentile(values, parameters[0])),
    "TOP_K": _top_k,
    "HISTOGRAM": _histogram,
    "OUTLIER_DETECTION": _outliers,
}
"""What each function says of some values; those that need their times are not here."""


def _told_by(
    operator: UserOperator,
    windows: Sequence[Sequence[Floats]],
    parameters: Parameters,
    ticks: Sequence[int] | None,
) -> Finished:
    answers = call(operator.name, operator.version, parameters, windows, ticks=ticks)
    problems = pa.array([answer.problem for answer in answers], pa.string())
    return Finished(pa.array([answer.value for answer in answers], pa.float64()), problems=problems)


def _together(said: list[_One]) -> Finished:
    return Finished(
        pa.array([one.value for one in said], pa.float64()),
        pa.array([one.values for one in said], pa.list_(pa.float64())),
        pa.array([one.low for one in said], pa.float64()),
        pa.array([one.high for one in said], pa.float64()),
    )


def _arrays(lists: Any) -> Iterator[Floats]:
    held = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    offsets = held.offsets.to_numpy()
    values = held.values.to_numpy(zero_copy_only=False)
    for start, end in itertools.pairwise(offsets):
        yield values[start:end]


def points_of(lists: pa.ChunkedArray) -> Iterator[Points]:
    """Yield the points of each window, by (ts, value)."""
    held = lists.combine_chunks()
    offsets = held.offsets.to_numpy()
    ts = pc.struct_field(held.values, "ts").to_numpy(zero_copy_only=False)
    values = pc.struct_field(held.values, "value").to_numpy(zero_copy_only=False)
    entities = pc.struct_field(held.values, "entity").to_numpy(zero_copy_only=False)
    for start, end in itertools.pairwise(offsets):
        order = np.lexsort((values[start:end], ts[start:end]))
        yield Points(ts[start:end][order], values[start:end][order], entities[start:end][order])
