"""Aggregation operators, which process all series and timestamps at once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from storage_agent.promql.errors import PromqlError
from storage_agent.promql.labels import NAME, Labels, format_decimal, format_number, make_labels
from storage_agent.promql.range_functions import quantile_of_sorted
from storage_agent.promql.vectors import Bools, Floats, Ints, Vector, empty, group_keys

CheckSamples = Callable[[int], None]
"""A function that raises an error if a number of samples is above the limit of the query."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """The clause of an aggregation that determines the groups of series.

    ``by``: True for ``by (names)``, False for ``without (names)``.
    """

    names: frozenset[str]
    by: bool

    def key(self, labels: Labels) -> Labels:
        """Return the labels that identify the group of a series."""
        if self.by:
            return tuple(pair for pair in labels if pair[0] in self.names)
        return tuple(pair for pair in labels if pair[0] not in self.names and pair[0] != NAME)

    def including(self, name: str) -> "Grouping":
        """Return the grouping for series that have the additional label ``name``.

        In a ``by`` grouping, ``name`` is added to the names; a ``without`` grouping is unchanged.
        """
        return Grouping(self.names | {name}, True) if self.by else self


@dataclass(frozen=True, slots=True)
class _Groups:
    """The rows of a vector, sorted by group.

    ``keys``: the labels of each group. ``begin``: the index of the first row of each group.
    ``number``: for each row, the index of its group in ``keys``. ``values``, ``present`` and
    ``labels``: the fields of the vector.
    """

    keys: list[Labels]
    begin: Ints
    number: Ints
    values: Floats
    present: Bools
    labels: list[Labels]

    @property
    def counts(self) -> Ints:
        """The number of present rows of each group at each timestamp."""
        counts: Ints = np.add.reduceat(self.present.astype(np.int64), self.begin, axis=0)
        return counts

    def reduce(self, ufunc: np.ufunc, each: Floats, absent: float) -> Floats:
        """Apply ``ufunc`` to the rows of each group; return an array (groups, timestamps).

        ``each``: a value for each row and timestamp. ``absent``: the value that is used in place of
        values that are not present.
        """
        reduced: Floats = ufunc.reduceat(np.where(self.present, each, absent), self.begin, axis=0)
        return reduced

    def slices(self) -> list[slice]:
        """Return a list with the slice of rows of each group."""
        ends = [*self.begin[1:], len(self.labels)]
        return [slice(int(begin), int(end)) for begin, end in zip(self.begin, ends, strict=True)]


def aggregate(
    op: str,
    vector: Vector,
    grouping: Grouping,
    param: Floats | str | None,
    check_samples: CheckSamples,
) -> Vector:
    """Apply an aggregation operator to a vector; return a row for each group.

    ``topk`` and ``bottomk`` return rows of the vector instead. ``param``: the parameter of the
    operator: a number for each timestamp, the label name for ``count_values``, or None.
    ``check_samples``: called for ``count_values``, whose result can be larger than the vector.
    """
    if not vector.labels:
        return empty(vector.values.shape[1])
    if op == "count_values":
        return _count_values(vector, grouping, str(param), check_samples)
    groups = _group(vector, grouping)
    if op in ("topk", "bottomk"):
        return _top_k(groups, np.asarray(param), largest=op == "topk")
    if op == "quantile":
        values = _quantile(groups, np.asarray(param))
    else:
        values = AGGREGATIONS[op](groups)
    return Vector(groups.keys, values, groups.counts > 0)


def _group(vector: Vector, grouping: Grouping) -> _Groups:
    keys, number = group_keys(grouping.key(labels) for labels in vector.labels)
    order = np.argsort(number, kind="stable")
    rows = vector.rows(order)
    begin = np.searchsorted(number[order], np.arange(len(keys)))
    return _Groups(keys, begin, number[order], rows.values, rows.present, rows.labels)


def _mean(groups: _Groups) -> Floats:
    sums = groups.reduce(np.add, groups.values, 0.0)
    means = sums / groups.counts
    if np.isfinite(sums).all():
        return means
    # The sum of finite values may overflow, the sum of their shares cannot.
    shares = groups.reduce(np.add, groups.values / groups.counts[groups.number], 0.0)
    return np.where(np.isfinite(sums), means, shares)


def _stdvar(groups: _Groups) -> Floats:
    # The distance from one of the values is exact where all values are equal.
    last = len(groups.labels) - 1
    rows = np.where(groups.present, np.arange(last + 1)[:, None], last)
    first = np.minimum.reduceat(rows, groups.begin, axis=0)
    distance = groups.values - np.take_along_axis(groups.values, first, axis=0)[groups.number]
    mean = groups.reduce(np.add, distance, 0.0) / groups.counts
    squares = groups.reduce(np.add, (distance - mean[groups.number]) ** 2, 0.0)
    # The variance of a single value is 0, also of an infinite one.
    return np.where(groups.counts == 1, 0.0, squares / groups.counts)


AGGREGATIONS: Mapping[str, Callable[[_Groups], Floats]] = {
    "sum": lambda groups: groups.reduce(np.add, groups.values, 0.0),
    "avg": _mean,
    "min": lambda groups: groups.reduce(np.fmin, groups.values, np.nan),
    "max": lambda groups: groups.reduce(np.fmax, groups.values, np.nan),
    "count": lambda groups: groups.counts.astype(np.float64),
    "group": lambda groups: np.ones((len(groups.keys), groups.values.shape[1])),
    "stdvar": _stdvar,
    "stddev": lambda groups: np.sqrt(_stdvar(groups)),
}

WITH_PARAMETER = frozenset({"topk", "bottomk", "quantile", "count_values"})


def _quantile(groups: _Groups, quantile: Floats) -> Floats:
    found = []
    for rows in groups.slices():
        values, present = groups.values[rows], groups.present[rows]
        order = np.lexsort((values, ~np.isnan(values), ~present), axis=0)
        columns = np.take_along_axis(values, order, axis=0).T.ravel()
        times = values.shape[1]
        begin = np.arange(times) * len(values)
        found.append(quantile_of_sorted(columns, begin, present.sum(axis=0), quantile))
    return np.array(found)


def _top_k(groups: _Groups, k: Floats, *, largest: bool) -> Vector:
    """Return, for each group and timestamp, the ``k`` rows with the largest or smallest values.

    NaN ranks last. ``k``: a number for each timestamp.
    """
    is_integer = np.abs(k) < 2**63
    if not is_integer.all():
        wrong = format_number(float(k[~is_integer].flat[0]))
        raise PromqlError(
            f"topk() and bottomk() take an integer between -2^63 and 2^63, not {wrong}"
        )
    limit = np.where(k >= 1, np.floor(k), 0)
    present = groups.present.copy()
    order: list[Ints] = []
    for rows in groups.slices():
        values = -groups.values[rows] if largest else groups.values[rows]
        ranked = np.lexsort((values, np.isnan(values), ~groups.present[rows]), axis=0)
        rank = np.argsort(ranked, axis=0)
        present[rows] &= rank < limit
        order.append(ranked[:, 0] + rows.start)
    top = Vector(groups.labels, groups.values, present)
    # The result of an instant query is sorted.
    return top.rows(np.concatenate(order)) if present.shape[1] == 1 else top


def _count_values(
    vector: Vector, grouping: Grouping, label: str, check_samples: CheckSamples
) -> Vector:
    grouping = grouping.including(label)
    times = vector.values.shape[1]
    counts: dict[Labels, Floats] = {}
    for labels, values, present in zip(vector.labels, vector.values, vector.present, strict=True):
        # By bits, since -0 and 0 are different labels.
        bits = np.where(present, values, 0.0).view(np.int64)
        for pattern in np.unique(bits[present]):
            value = format_decimal(float(pattern.view(np.float64)))
            key = grouping.key(make_labels({**dict(labels), label: value}))
            if key not in counts:
                check_samples((len(counts) + 1) * times)
                counts[key] = np.zeros(times)
            counts[key] += (bits == pattern) & present
    if not counts:
        return empty(times)
    found = np.array(list(counts.values()))
    return Vector(list(counts), found, found > 0)
