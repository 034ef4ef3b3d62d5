"""Functions of instant vectors and scalars, at all times at once."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from storage_agent.promql.labels import NAME, is_label_name, make_labels
from storage_agent.promql.matching import Matcher, replace_all
from storage_agent.promql.problems import PromqlError
from storage_agent.promql.vectors import Bools, Floats, Vector, distinct, without_name

EACH: Mapping[str, Callable[[Floats], Floats]] = {
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
"""Functions of each value alone."""


def _round(values: Floats, to: Floats | None = None) -> Floats:
    inverse = 1.0 / (np.ones(1) if to is None else to)
    return np.floor(values * inverse + 0.5) / inverse


WITH_SCALARS: Mapping[str, Callable[..., Floats]] = {
    "round": _round,
    "clamp": lambda values, least, most: np.maximum(least, np.minimum(most, values)),
    "clamp_min": lambda values, least: np.maximum(least, values),
    "clamp_max": lambda values, most: np.minimum(most, values),
}
"""Functions of each value and of scalars."""


def each_changed(vector: Vector, function: Callable[[Floats], Floats]) -> Vector:
    """Return what a function makes of each value; it is no longer that metric."""
    labels = [without_name(each) for each in vector.labels]
    return distinct(Vector(labels, function(vector.values), vector.present))


def with_scalars(name: str, vector: Vector, scalars: Sequence[Floats]) -> Vector:
    """Return what one of ``WITH_SCALARS`` makes of each value."""
    if name == "clamp":
        least, most = scalars
        vector = Vector(vector.labels, vector.values, vector.present & ~(most < least))
    return each_changed(vector, lambda values: WITH_SCALARS[name](values, *scalars))


def scalar(vector: Vector) -> Floats:
    """Return the value of the only series there is, else not a number."""
    if not vector.labels:
        return np.full(vector.values.shape[1], np.nan)
    alone = vector.present.sum(axis=0) == 1
    values = np.where(vector.present, vector.values, 0.0).sum(axis=0)
    return np.where(alone, values, np.nan)


def absent(vector: Vector, matchers: Sequence[Matcher]) -> Vector:
    """Return one where there is no series, with the labels that were asked for."""
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


def in_order(vector: Vector, *, descending: bool) -> Vector:
    """Sort the series of a single time by value; what is not a number comes last."""
    if vector.values.shape[1] != 1:
        return vector
    values = -vector.values[:, 0] if descending else vector.values[:, 0]
    return vector.rows(np.argsort(values, kind="stable"))


def label_replace(vector: Vector, texts: Sequence[str]) -> Vector:
    """Set a label to what a template makes of another one, where that matches."""
    target, template, source, pattern = texts
    check_label("label_replace", target)
    sources = [dict(labels).get(source, "") for labels in vector.labels]
    made = replace_all(pattern, template, sources)
    labels = [
        given if text is None else make_labels({**dict(given), target: text})
        for given, text in zip(vector.labels, made, strict=True)
    ]
    return distinct(Vector(labels, vector.values, vector.present))


def label_join(vector: Vector, texts: Sequence[str]) -> Vector:
    """Set a label to others, joined."""
    target, separator, *sources = texts
    for name in (target, *sources):
        check_label("label_join", name)
    labels = []
    for given in vector.labels:
        known = dict(given)
        text = separator.join(known.get(name, "") for name in sources)
        labels.append(make_labels({**known, target: text}))
    return distinct(Vector(labels, vector.values, vector.present))


def check_label(function: str, name: str) -> None:
    """Refuse what cannot name a label."""
    if not is_label_name(name):
        raise PromqlError(f"invalid label name in {function}(): {name}")


def histogram_quantile(quantile: Floats, vector: Vector) -> Vector:
    """Return a quantile of each classic histogram: series that differ in their bound ``le``."""
    histograms: dict[tuple[tuple[str, str], ...], dict[float, int]] = {}
    for row, labels in enumerate(vector.labels):
        bound = _bound(dict(labels).get("le", ""))
        if bound is not None:
            rest = tuple(pair for pair in labels if pair[0] not in (NAME, "le"))
            histograms.setdefault(rest, {})[bound] = row
    if not histograms:
        return vector.rows(np.zeros(0, np.int64))
    values, present = [], []
    for rows in histograms.values():
        bounds = np.array(sorted(rows))
        chosen = vector.rows(np.array([rows[bound] for bound in bounds]))
        columns = zip(quantile, chosen.values.T, chosen.present.T, strict=True)
        values.append(
            [_in_buckets(q, bounds[there], counts[there]) for q, counts, there in columns]
        )
        present.append(chosen.present.any(axis=0))
    return distinct(Vector(list(histograms), np.array(values), np.array(present)))


def _bound(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _in_buckets(quantile: float, bounds: Floats, counts: Floats) -> float:
    """Return the quantile of one histogram, evenly spread within its buckets."""
    if np.isnan(quantile) or len(bounds) < 2 or bounds[-1] != np.inf:
        return np.nan
    if not 0 <= quantile <= 1:
        return -np.inf if quantile < 0 else np.inf
    # Buckets that were read one after the other may shrink; each holds at least the one before.
    counts = np.fmax.accumulate(counts)
    rank = quantile * counts[-1]
    if counts[-1] == 0 or np.isnan(counts[-1]):
        return np.nan
    bucket = int(np.searchsorted(counts[:-1], rank, "left"))
    if bucket == len(bounds) - 1:
        return float(bounds[-2])
    if bucket == 0 and bounds[0] <= 0:
        return float(bounds[0])
    low, below = (bounds[bucket - 1], counts[bucket - 1]) if bucket else (0.0, 0.0)
    share = (rank - below) / (counts[bucket] - below)
    return float(low + (bounds[bucket] - low) * share)
