"""PromQL functions of range vectors; each call processes many windows.

``rate``, ``increase`` and ``delta`` extrapolate as in Prometheus 2: a range includes both of its
ends; if samples are near an end of the range, values are extrapolated up to this end; counters are
not extrapolated below zero.
"""

from collections.abc import Callable, Mapping

import numpy as np

from storage_agent.promql.errors import PromqlError
from storage_agent.promql.samples import Windows
from storage_agent.promql.vectors import Bools, Floats, Ints

RangeFunction = Callable[[Windows], tuple[Floats, Bools]]

_EXTRAPOLATION_FACTOR = 1.1
"""The distance up to which a sample counts as near an end of the range.

The unit is the mean interval between the samples in the range.
"""

_STEPS_BETWEEN_CHECKS = 1000
"""The number of samples of a window that are smoothed between two checks of the deadline."""


def _over_samples(function: Callable[[Windows], Floats]) -> RangeFunction:
    """Return a range function whose result is present for each window that contains samples.

    ``function``: returns a value for each window.
    """

    def apply(windows: Windows) -> tuple[Floats, Bools]:
        return function(windows), windows.counts > 0

    return apply


def _reduce(ufunc: np.ufunc, values: Floats, low: Ints, high: Ints) -> Floats:
    """Apply ``ufunc`` to ``values[low[i]:high[i]]`` for each window i; return an array of results.

    The result for an empty window is undefined.
    """
    bounds = np.stack([low, high], axis=1).ravel()
    # One more value, since a bound may be the length of the array.
    reduced: Floats = ufunc.reduceat(np.append(values, 0.0), bounds)[::2]
    return reduced


def _sum_steps(steps: Floats, windows: Windows) -> Floats:
    """Return, for each window, the sum of the steps between its samples.

    ``steps[i]``: the step from sample i - 1 to sample i.
    """
    low = np.minimum(windows.low + 1, windows.high)
    sums = _reduce(np.add, steps, low, windows.high)
    return np.where(windows.counts > 1, sums, 0.0)


def _previous(values: Floats) -> Floats:
    return np.concatenate([values[:1], values[:-1]])


def _sum(windows: Windows) -> Floats:
    return _reduce(np.add, windows.values, windows.low, windows.high)


def _avg(windows: Windows) -> Floats:
    sums = _sum(windows)
    means = sums / windows.counts
    if np.isfinite(sums).all():
        return means
    # The sum of finite values may overflow, the sum of their shares cannot.
    sample, number = _expand(windows)
    shares = windows.values[sample] / windows.counts[number]
    return np.where(np.isfinite(sums), means, np.bincount(number, shares, len(sums)))


def _min(windows: Windows) -> Floats:
    return _reduce(np.fmin, windows.values, windows.low, windows.high)


def _max(windows: Windows) -> Floats:
    return _reduce(np.fmax, windows.values, windows.low, windows.high)


def _count(windows: Windows) -> Floats:
    return windows.counts.astype(np.float64)


def _present(windows: Windows) -> Floats:
    return np.ones(len(windows.low))


def _last(windows: Windows) -> Floats:
    return windows.values[np.maximum(windows.high - 1, 0)]


def _changes(windows: Windows) -> Floats:
    before = _previous(windows.values)
    same = (windows.values == before) | (np.isnan(windows.values) & np.isnan(before))
    return _sum_steps((~same).astype(np.float64), windows)


def _resets(windows: Windows) -> Floats:
    return _sum_steps((windows.values < _previous(windows.values)).astype(np.float64), windows)


def _expand(windows: Windows) -> tuple[Ints, Ints]:
    """Return two arrays with an item for each sample of each window.

    The items are the index of the sample, and the index of the window.
    """
    counts = windows.counts
    number = np.repeat(np.arange(len(counts)), counts)
    begin = np.cumsum(counts) - counts
    sample = np.arange(len(number)) - begin[number] + windows.low[number]
    return sample, number


def _stdvar(windows: Windows) -> Floats:
    sample, number = _expand(windows)
    # The distance from the first value is exact where all values are equal.
    values = windows.values[sample] - windows.values[windows.low[number]]
    count = len(windows.low)
    mean = np.bincount(number, values, count) / windows.counts
    squares = np.bincount(number, (values - mean[number]) ** 2, count)
    return squares / windows.counts


def _stddev(windows: Windows) -> Floats:
    return np.sqrt(_stdvar(windows))


def _quantile(windows: Windows) -> Floats:
    sample, number = _expand(windows)
    values = windows.values[sample]
    values = values[np.lexsort((values, ~np.isnan(values), number))]
    counts = windows.counts
    begin = np.cumsum(counts) - counts
    return quantile_of_sorted(values, begin, counts, windows.params[0])


def quantile_of_sorted(values: Floats, begin: Ints, counts: Ints, quantile: Floats) -> Floats:
    """Return a quantile of each group of values.

    Group i consists of ``counts[i]`` values, which begin at ``values[begin[i]]`` and are sorted
    with NaN first. ``quantile``: a number for each group.
    """
    if not len(values):
        return np.full(len(counts), np.nan)
    rank = quantile * (counts - 1)
    usable = np.isfinite(rank) & (counts > 0) & (quantile >= 0) & (quantile <= 1)
    rank = np.where(usable, rank, 0)
    lower = np.floor(rank)
    weight = rank - lower
    low = np.where(usable, begin + lower.astype(np.int64), 0)
    high = np.where(usable, np.minimum(low + 1, begin + counts - 1), 0)
    interpolated = values[low] * (1 - weight) + values[high] * weight
    beyond = np.where(quantile < 0, -np.inf, np.where(quantile > 1, np.inf, np.nan))
    return np.where(usable, interpolated, beyond)


def _first_and_last(windows: Windows) -> tuple[Bools, Ints, Ints]:
    """Return a mask of the windows with two or more samples, and the first and last samples.

    The samples are given as two arrays of indices, which contain 0 for the other windows.
    """
    enough = windows.counts >= 2
    return enough, np.where(enough, windows.low, 0), np.where(enough, windows.high - 1, 0)


def _extrapolate(counter: bool, per_second: bool) -> RangeFunction:
    def apply(windows: Windows) -> tuple[Floats, Bools]:
        enough, first, last = _first_and_last(windows)
        ts, values = windows.ts, windows.values
        gain = values[last] - values[first]
        if counter:
            before = _previous(values)
            gain = gain + _sum_steps(np.where(values < before, before, 0.0), windows)
        to_start = (ts[first] - (windows.end - windows.range_ms)) / 1000
        to_end = (windows.end - ts[last]) / 1000
        sampled = (ts[last] - ts[first]) / 1000
        if counter:
            to_zero = sampled * (values[first] / gain)
            nearer = (gain > 0) & (values[first] >= 0) & (to_zero < to_start)
            to_start = np.where(nearer, to_zero, to_start)
        distance = sampled / (windows.counts - 1)
        span = sampled
        for to_edge in (to_start, to_end):
            span = span + np.where(
                to_edge < distance * _EXTRAPOLATION_FACTOR, to_edge, distance / 2
            )
        factor = span / sampled
        if per_second:
            factor = factor / (windows.range_ms / 1000)
        return gain * factor, enough

    return apply


def _last_two(per_second: bool) -> RangeFunction:
    def apply(windows: Windows) -> tuple[Floats, Bools]:
        enough, _, last = _first_and_last(windows)
        before = np.maximum(last - 1, 0)
        now, then = windows.values[last], windows.values[before]
        if not per_second:
            return now - then, enough
        seconds = (windows.ts[last] - windows.ts[before]) / 1000
        return np.where(now < then, now, now - then) / seconds, enough

    return apply


def _linear_regression(windows: Windows, origin: Ints) -> tuple[Floats, Floats]:
    """Return the slopes (per second), and the values at ``origin`` (ms), by linear regression.

    Both results, and ``origin``, are arrays with an item for each window.
    """
    sample, number = _expand(windows)
    count = len(windows.low)
    x = (windows.ts[sample] - origin[number]) / 1000
    y = windows.values[sample]
    n = windows.counts

    def sum_by_window(each: Floats) -> Floats:
        sums: Floats = np.bincount(number, each, count).astype(np.float64)
        return sums

    sum_x, sum_y = sum_by_window(x), sum_by_window(y)
    slope = (sum_by_window(x * y) - sum_x * sum_y / n) / (sum_by_window(x * x) - sum_x * sum_x / n)
    start = sum_y / n - slope * sum_x / n
    first = windows.values[np.minimum(windows.low, len(windows.values) - 1)]
    # Unlike fmax and fmin these return NaN for windows with a NaN, which are not level.
    highest = _reduce(np.maximum, windows.values, windows.low, windows.high)
    level = highest == _reduce(np.minimum, windows.values, windows.low, windows.high)
    unknown = np.where(np.isfinite(first), 0.0, np.nan)
    return np.where(level, unknown, slope), np.where(level, first + unknown, start)


def _deriv(windows: Windows) -> tuple[Floats, Bools]:
    enough, first, _ = _first_and_last(windows)
    return _linear_regression(windows, windows.ts[first])[0], enough


def _predict_linear(windows: Windows) -> tuple[Floats, Bools]:
    slope, start = _linear_regression(windows, windows.at)
    return slope * windows.params[0] + start, windows.counts >= 2


def _double_exponential_smoothing(windows: Windows) -> tuple[Floats, Bools]:
    """Return, for each window, the last level of Holt's linear smoothing.

    Prometheus 2 calls the function ``holt_winters``.
    """
    smoothing, trend_factor = windows.params
    _check_factor("smoothing", smoothing[windows.counts > 0])
    _check_factor("trend", trend_factor[windows.counts > 0])
    enough, first, _ = _first_and_last(windows)
    values, counts = windows.values, windows.counts
    level = values[first]
    trend = values[np.where(enough, first + 1, 0)] - level
    active = np.flatnonzero(enough)
    for step in range(1, int(counts.max(initial=1))):
        if step % _STEPS_BETWEEN_CHECKS == 0:
            windows.check()
        active = active[counts[active] > step]
        share, before = smoothing[active], level[active]
        after = share * values[first[active] + step] + (1 - share) * (before + trend[active])
        weight = trend_factor[active]
        level[active] = after
        trend[active] = weight * (after - before) + (1 - weight) * trend[active]
    return level, enough


def _check_factor(name: str, factor: Floats) -> None:
    invalid = factor[(factor <= 0) | (factor >= 1)]
    if len(invalid):
        raise PromqlError(f"invalid {name} factor. Expected: 0 < factor < 1, got: {invalid[0]:f}")


RANGE_FUNCTIONS: Mapping[str, RangeFunction] = {
    "avg_over_time": _over_samples(_avg),
    "min_over_time": _over_samples(_min),
    "max_over_time": _over_samples(_max),
    "sum_over_time": _over_samples(_sum),
    "count_over_time": _over_samples(_count),
    "last_over_time": _over_samples(_last),
    "present_over_time": _over_samples(_present),
    "stddev_over_time": _over_samples(_stddev),
    "stdvar_over_time": _over_samples(_stdvar),
    "quantile_over_time": _over_samples(_quantile),
    "changes": _over_samples(_changes),
    "resets": _over_samples(_resets),
    "rate": _extrapolate(counter=True, per_second=True),
    "increase": _extrapolate(counter=True, per_second=False),
    "delta": _extrapolate(counter=False, per_second=False),
    "irate": _last_two(per_second=True),
    "idelta": _last_two(per_second=False),
    "deriv": _deriv,
    "predict_linear": _predict_linear,
    "double_exponential_smoothing": _double_exponential_smoothing,
}
