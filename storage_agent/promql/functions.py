"""PromQL functions of instant vectors and scalars, evaluated at all timestamps at once."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from storage_agent.promql.errors import PromqlError
from storage_agent.promql.labels import NAME, Labels, is_label_name, make_labels
from storage_agent.promql.matchers import Matcher, check_characters, replace_all
from storage_agent.promql.vectors import Bools, Floats, Vector, distinct, without_name

ELEMENTWISE: Mapping[str, Callable[[Floats], Floats]] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "exp": np.exp,
    "ln": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "sqrt": np.sqrt,
    "sgn": np.sign,
    "deg": np.degrees,
    "rad": np.radians,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}
"""The PromQL functions that are applied to each value: name -> function of an array."""


def _round(values: Floats, to: Floats | None = None) -> Floats:
    inverse = 1.0 / (np.ones(1) if to is None else to)
    return np.floor(values * inverse + 0.5) / inverse


_MAX_SECONDS = 2.0**53
"""The greatest distance of a time from 1970 (s) for which the date functions return a number.

For other times, the functions return NaN; Prometheus returns a number that belongs to no date.
"""


def _date_part(part: Callable[[Any], Any]) -> Callable[[Floats], Floats]:
    """Return a function that converts times (seconds since 1970) to a part of their dates.

    ``part``: a function that converts times of the type ``datetime64[s]`` to this part.
    """

    def apply(values: Floats) -> Floats:
        valid = np.abs(values) < _MAX_SECONDS
        seconds = np.where(valid, values, 0).astype(np.int64).astype("datetime64[s]")
        return np.where(valid, part(seconds).astype(np.float64), np.nan)

    return apply


def _days(times: Any) -> Any:
    return times.astype("datetime64[D]")


DATE_PARTS: Mapping[str, Callable[[Floats], Floats]] = {
    "year": _date_part(lambda times: times.astype("datetime64[Y]").astype(np.int64) + 1970),
    "month": _date_part(lambda times: times.astype("datetime64[M]").astype(np.int64) % 12 + 1),
    "day_of_month": _date_part(
        lambda times: (_days(times) - _days(times.astype("datetime64[M]"))).astype(np.int64) + 1
    ),
    "day_of_year": _date_part(
        lambda times: (_days(times) - _days(times.astype("datetime64[Y]"))).astype(np.int64) + 1
    ),
    "day_of_week": _date_part(lambda times: (_days(times).astype(np.int64) + 4) % 7),
    "days_in_month": _date_part(
        lambda times: (
            _days(times.astype("datetime64[M]") + 1) - _days(times.astype("datetime64[M]"))
        ).astype(np.int64)
    ),
    "hour": _date_part(lambda times: times.astype(np.int64) // 3600 % 24),
    "minute": _date_part(lambda times: times.astype(np.int64) // 60 % 60),
}
"""The PromQL functions that return a part of a date in UTC: name -> function of times (s)."""


def _max(low: Floats, values: Floats) -> Floats:
    """Return the elementwise maximum of two arrays, with the rules of Go's ``math.Max``.

    If one of the values is NaN, the result is NaN, unless the other value is +Inf.
    """
    return np.where((low == np.inf) | (values == np.inf), np.inf, np.maximum(low, values))


def _min(high: Floats, values: Floats) -> Floats:
    return -_max(-high, -values)


WITH_SCALAR_ARGUMENTS: Mapping[str, Callable[..., Floats]] = {
    "round": _round,
    "clamp": lambda values, low, high: _max(low, _min(high, values)),
    "clamp_min": lambda values, low: _max(low, values),
    "clamp_max": lambda values, high: _min(high, values),
}
"""The PromQL functions that are applied to each value and have scalar arguments, by name."""


def map_values(vector: Vector, function: Callable[[Floats], Floats]) -> Vector:
    """Apply a function to the values of a vector; the result has no metric names."""
    labels = [without_name(each) for each in vector.labels]
    return distinct(Vector(labels, function(vector.values), vector.present))


def map_with_scalars(name: str, vector: Vector, scalars: Sequence[Floats]) -> Vector:
    """Apply the function ``name`` of ``WITH_SCALAR_ARGUMENTS`` to each value of a vector."""
    if name == "clamp":
        low, high = scalars
        vector = Vector(vector.labels, vector.values, vector.present & ~(high < low))
    return map_values(vector, lambda values: WITH_SCALAR_ARGUMENTS[name](values, *scalars))


def scalar(vector: Vector) -> Floats:
    """Convert a vector to a scalar: the value of the single series at each timestamp.

    At timestamps at which the vector has no series or several series, the scalar is NaN.
    """
    if not vector.labels:
        return np.full(vector.values.shape[1], np.nan)
    alone = vector.present.sum(axis=0) == 1
    values = np.where(vector.present, vector.values, 0.0).sum(axis=0)
    return np.where(alone, values, np.nan)


def absent(vector: Vector, matchers: Sequence[Matcher]) -> Vector:
    """Return a vector of one series, which has the value 1 wherever ``vector`` is empty.

    At timestamps at which ``vector`` is not empty, the series is not present. The labels of the
    series are taken from the matchers with the operator ``=``.
    """
    labels: dict[str, str] = {}
    named: set[str] = set()
    for matcher in matchers:
        if matcher.name == NAME:
            continue
        if matcher.op == "=" and matcher.name not in named:
            labels[matcher.name] = matcher.value
            named.add(matcher.name)
        else:
            labels.pop(matcher.name, None)
    missing: Bools = ~np.any(vector.present, axis=0)
    return distinct(Vector([make_labels(labels)], np.ones((1, len(missing))), missing[None, :]))


def sort_by_value(vector: Vector, *, descending: bool) -> Vector:
    """Sort the vector of an instant query by value, with NaN last.

    The vector of a range query is returned unchanged.
    """
    if vector.values.shape[1] != 1:
        return vector
    values = -vector.values[:, 0] if descending else vector.values[:, 0]
    return vector.rows(np.argsort(values, kind="stable"))


def label_replace(vector: Vector, texts: Sequence[str]) -> Vector:
    """Set a label of the series whose value of another label matches a pattern.

    The new value is a template, filled with the groups that the pattern captures. ``texts``: the
    label to set, the template, the label to match, the pattern (a regular expression).
    """
    target, template, source, pattern = texts
    check_label("label_replace", target)
    sources = [dict(labels).get(source, "") for labels in vector.labels]
    replaced = replace_all(pattern, template, sources)
    labels = [
        given if text is None else make_labels({**dict(given), target: text})
        for given, text in zip(vector.labels, replaced, strict=True)
    ]
    return distinct(Vector(labels, vector.values, vector.present))


def label_join(vector: Vector, arguments: Sequence[str]) -> Vector:
    """Set a label of each series to the joined values of other labels.

    ``arguments``: the label to set, the separator, the labels to join.
    """
    target, separator, *sources = arguments
    for name in (target, *sources):
        check_label("label_join", name)
    labels = []
    characters = 0
    for given in vector.labels:
        values = dict(given)
        texts = [values.get(name, "") for name in sources]
        characters += sum(map(len, texts)) + len(separator) * len(texts)
        check_characters("label_join", characters)
        text = separator.join(texts)
        labels.append(make_labels({**values, target: text}))
    return distinct(Vector(labels, vector.values, vector.present))


def check_label(function: str, name: str) -> None:
    """Raise ``PromqlError`` if ``name`` is an invalid label name.

    ``function``: the PromQL function that the error names.
    """
    if not is_label_name(name):
        raise PromqlError(f"invalid label name in {function}(): {name}")


def histogram_quantile(quantile: Floats, vector: Vector, check_time: Callable[[], None]) -> Vector:
    """Return a quantile of each classic histogram in a vector.

    The buckets of a histogram are series that differ only in ``le``, the label with the bucket's
    upper bound. ``quantile``: a number for each timestamp. ``check_time``: raises an error if the
    query has taken too long.
    """
    histograms: dict[Labels, list[tuple[float, int]]] = {}
    for row, labels in enumerate(vector.labels):
        bound = _bound(dict(labels).get("le", ""))
        if bound is not None:
            rest = tuple(pair for pair in labels if pair[0] != "le")
            histograms.setdefault(rest, []).append((bound, row))
    if not histograms:
        return vector.rows(np.zeros(0, np.int64))
    values, present = [], []
    for buckets in histograms.values():
        check_time()
        bounds, rows = (np.array(each) for each in zip(*sorted(buckets), strict=True))
        found = vector.rows(rows)
        columns = zip(quantile, found.values.T, found.present.T, strict=True)
        values.append(
            [_bucket_quantile(q, bounds[there], counts[there]) for q, counts, there in columns]
        )
        present.append(found.present.any(axis=0))
    # Histograms of several metrics may have the same labels but for the name.
    keys = [without_name(labels) for labels in histograms]
    return distinct(Vector(keys, np.array(values), np.array(present)))


def _never_decreasing(counts: Floats) -> Floats:
    """Return cumulative counts without decreases between adjacent buckets.

    A count that is less than an earlier count is replaced by the greatest earlier count. Such
    decreases occur if the buckets were scraped at different times. Counts that are NaN remain NaN.
    If the first count is NaN, all counts are returned unchanged, as in Prometheus.
    """
    highest = np.fmax.accumulate(counts)
    unchanged = np.isnan(counts) | np.isnan(counts[0])
    return np.where(unchanged, counts, highest)


def _bound(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _bucket_quantile(quantile: float, bounds: Floats, counts: Floats) -> float:
    """Return the quantile of a histogram by linear interpolation within its buckets.

    ``bounds``: the upper bound of each bucket, ascending. ``counts``: the cumulative count of each
    bucket; the counts of buckets with equal bounds are added. Returns NaN for an invalid histogram.
    """
    if np.isnan(quantile):
        return np.nan
    if not 0 <= quantile <= 1:
        return -np.inf if quantile < 0 else np.inf
    if not len(bounds) or bounds[-1] != np.inf:
        return np.nan
    bounds, begin = np.unique(bounds, return_index=True)
    counts = _never_decreasing(np.add.reduceat(counts, begin))
    rank = quantile * counts[-1]
    if len(bounds) < 2 or counts[-1] == 0:
        return np.nan
    bucket = bisect_left(range(len(bounds) - 1), True, key=lambda n: bool(counts[n] >= rank))
    if bucket == len(bounds) - 1:
        return float(bounds[-2])
    if bucket == 0 and bounds[0] <= 0:
        return float(bounds[0])
    low, below = (bounds[bucket - 1], counts[bucket - 1]) if bucket else (0.0, 0.0)
    share = (rank - below) / (counts[bucket] - below)
    return float(low + (bounds[bucket] - low) * share)
