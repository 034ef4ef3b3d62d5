"""Functions over ranges, each for many windows at once.

Those that extrapolate do as Prometheus 2 does: over a range that is closed at both ends, up to its
ends if the samples reach that near, and for counters not below zero.
"""

from collections.abc import Callable, Mapping

import numpy as np

from storage_agent.promql.samples import Windows
from storage_agent.promql.vectors import Bools, Floats, Ints

RangeFunction = Callable[[Windows], tuple[Floats, Bools]]

_NEAR = 1.1
"""A range's end is near if it is not further than so many times the samples' mean distance."""


def _plain(function: Callable[[Windows], Floats]) -> RangeFunction:
    """Return a function that has a value wherever there is a sample."""

    def applied(windows: Windows) -> tuple[Floats, Bools]:
        return function(windows), windows.counts > 0

    return applied


def _reduced(ufunc: np.ufunc, values: Floats, low: Ints, high: Ints) -> Floats:
    """Reduce the values of each window; what is returned of an empty one means nothing."""
    bounds = np.stack([low, high], axis=1).ravel()
    # With one more value, an index may be the end of all.
    reduced: Floats = ufunc.reduceat(np.append(values, 0.0), bounds)[::2]
    return reduced


def _sum_between(each: Floats, windows: Windows) -> Floats:
    """Sum up what is said of each sample and the one before it, both in the window."""
    low = np.minimum(windows.low + 1, windows.high)
    sums = _reduced(np.add, each, low, windows.high)
    return np.where(windows.counts > 1, sums, 0.0)


def _before_each(values: Floats) -> Floats:
    return np.concatenate([values[:1], values[:-1]])


def _sum(windows: Windows) -> Floats:
    return _reduced(np.add, windows.values, windows.low, windows.high)


def _avg(windows: Windows) -> Floats:
    return _sum(windows) / windows.counts


def _min(windows: Windows) -> Floats:
    return _reduced(np.fmin, windows.values, windows.low, windows.high)


def _max(windows: Windows) -> Floats:
    return _reduced(np.fmax, windows.values, windows.low, windows.high)


def _count(windows: Windows) -> Floats:
    return windows.counts.astype(np.float64)


def _present(windows: Windows) -> Floats:
    return np.ones(len(windows.low))


def _last(windows: Windows) -> Floats:
    return windows.values[np.maximum(windows.high - 1, 0)]


def _changes(windows: Windows) -> Floats:
    before = _before_each(windows.values)
    same = (windows.values == before) | (np.isnan(windows.values) & np.isnan(before))
    return _sum_between((~same).astype(np.float64), windows)


def _resets(windows: Windows) -> Floats:
    return _sum_between((windows.values < _before_each(windows.values)).astype(np.float64), windows)


def _spread(windows: Windows) -> tuple[Ints, Ints]:
    """Return the sample and the window of each place in all windows, one after the other."""
    counts = windows.counts
    number = np.repeat(np.arange(len(counts)), counts)
    begin = np.cumsum(counts) - counts
    sample = np.arange(len(number)) - begin[number] + windows.low[number]
    return sample, number


def _stdvar(windows: Windows) -> Floats:
    sample, number = _spread(windows)
    values = windows.values[sample]
    count = len(windows.low)
    mean = np.bincount(number, values, count) / windows.counts
    squares = np.bincount(number, (values - mean[number]) ** 2, count)
    return squares / windows.counts


def _stddev(windows: Windows) -> Floats:
    return np.sqrt(_stdvar(windows))


def _quantile(windows: Windows) -> Floats:
    sample, number = _spread(windows)
    values = windows.values[sample]
    values = values[np.lexsort((values, ~np.isnan(values), number))]
    counts = windows.counts
    begin = np.cumsum(counts) - counts
    return quantile_of_sorted(values, begin, counts, windows.param)


def quantile_of_sorted(values: Floats, begin: Ints, counts: Ints, quantile: Floats) -> Floats:
    """Return a quantile of each stretch of ``counts`` sorted values, not a number first."""
    if not len(values):
        return np.full(len(counts), np.nan)
    rank = quantile * (counts - 1)
    usable = np.isfinite(rank) & (counts > 0) & (quantile >= 0) & (quantile <= 1)
    rank = np.where(usable, rank, 0)
    lower = np.floor(rank)
    weight = rank - lower
    low = np.where(usable, begin + lower.astype(np.int64), 0)
    high = np.where(usable, np.minimum(low + 1, begin + counts - 1), 0)
    found = values[low] * (1 - weight) + values[high] * weight
    beyond = np.where(quantile < 0, -np.inf, np.where(quantile > 1, np.inf, np.nan))
    return np.where(usable, found, beyond)


def _ends(windows: Windows) -> tuple[Bools, Ints, Ints]:
    """Return where there are two samples at least, and the numbers of the first and the last."""
    enough = windows.counts >= 2
    return enough, np.where(enough, windows.low, 0), np.where(enough, windows.high - 1, 0)


def _extrapolated(counter: bool, per_second: bool) -> RangeFunction:
    def applied(windows: Windows) -> tuple[Floats, Bools]:
        enough, first, last = _ends(windows)
        ts, values = windows.ts, windows.values
        gain = values[last] - values[first]
        if counter:
            before = _before_each(values)
            gain = gain + _sum_between(np.where(values < before, before, 0.0), windows)
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
            span = span + np.where(to_edge < distance * _NEAR, to_edge, distance / 2)
        factor = span / sampled
        if per_second:
            factor = factor / (windows.range_ms / 1000)
        return gain * factor, enough

    return applied


def _of_last_two(per_second: bool) -> RangeFunction:
    def applied(windows: Windows) -> tuple[Floats, Bools]:
        enough, _, last = _ends(windows)
        before = np.maximum(last - 1, 0)
        now, then = windows.values[last], windows.values[before]
        if not per_second:
            return now - then, enough
        seconds = (windows.ts[last] - windows.ts[before]) / 1000
        return np.where(now < then, now, now - then) / seconds, enough

    return applied


def _line(windows: Windows, origin: Ints) -> tuple[Floats, Floats]:
    """Return slope (per second) and value at ``origin`` (ms) of the line nearest to the samples."""
    sample, number = _spread(windows)
    count = len(windows.low)
    x = (windows.ts[sample] - origin[number]) / 1000
    y = windows.values[sample]
    n = windows.counts

    def summed(each: Floats) -> Floats:
        sums: Floats = np.bincount(number, each, count).astype(np.float64)
        return sums

    sum_x, sum_y = summed(x), summed(y)
    slope = (summed(x * y) - sum_x * sum_y / n) / (summed(x * x) - sum_x * sum_x / n)
    start = sum_y / n - slope * sum_x / n
    first = windows.values[np.minimum(windows.low, len(windows.values) - 1)]
    level = _max(windows) == _min(windows)
    unknown = np.where(np.isfinite(first), 0.0, np.nan)
    return np.where(level, unknown, slope), np.where(level, first + unknown, start)


def _deriv(windows: Windows) -> tuple[Floats, Bools]:
    enough, first, _ = _ends(windows)
    return _line(windows, windows.ts[first])[0], enough


def _predict_linear(windows: Windows) -> tuple[Floats, Bools]:
    slope, start = _line(windows, windows.end)
    return slope * windows.param + start, windows.counts >= 2


RANGE_FUNCTIONS: Mapping[str, RangeFunction] = {
    "avg_over_time": _plain(_avg),
    "min_over_time": _plain(_min),
    "max_over_time": _plain(_max),
    "sum_over_time": _plain(_sum),
    "count_over_time": _plain(_count),
    "last_over_time": _plain(_last),
    "present_over_time": _plain(_present),
    "stddev_over_time": _plain(_stddev),
    "stdvar_over_time": _plain(_stdvar),
    "quantile_over_time": _plain(_quantile),
    "changes": _plain(_changes),
    "resets": _plain(_resets),
    "rate": _extrapolated(counter=True, per_second=True),
    "increase": _extrapolated(counter=True, per_second=False),
    "delta": _extrapolated(counter=False, per_second=False),
    "irate": _of_last_two(per_second=True),
    "idelta": _of_last_two(per_second=False),
    "deriv": _deriv,
    "predict_linear": _predict_linear,
}
