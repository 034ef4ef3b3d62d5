"""Aggregations over series, at all times at once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from storage_agent.promql.labels import NAME, Labels, make_labels, text_of_number
from storage_agent.promql.problems import PromqlError
from storage_agent.promql.ranges import quantile_of_sorted
from storage_agent.promql.vectors import Bools, Floats, Ints, Vector, empty, numbered


@dataclass(frozen=True, slots=True)
class Grouping:
    """The labels by which series are grouped, or without which."""

    names: frozenset[str]
    by: bool

    def key(self, labels: Labels) -> Labels:
        """Return the labels of a series' group."""
        if self.by:
            return tuple(pair for pair in labels if pair[0] in self.names)
        return tuple(pair for pair in labels if pair[0] not in self.names and pair[0] != NAME)

    def also(self, name: str) -> "Grouping":
        """Return a grouping that keeps one more label."""
        return Grouping(self.names | {name}, True) if self.by else self


@dataclass(frozen=True, slots=True)
class _Groups:
    """Rows sorted by group, and the first row of each group."""

    keys: list[Labels]
    begin: Ints
    number: Ints
    values: Floats
    present: Bools
    labels: list[Labels]

    @property
    def counts(self) -> Ints:
        """How many rows of each group are there, at each time."""
        counts: Ints = np.add.reduceat(self.present.astype(np.int64), self.begin, axis=0)
        return counts

    def reduce(self, ufunc: np.ufunc, each: Floats, absent: float) -> Floats:
        """Reduce the values of the rows of each group that are there."""
        reduced: Floats = ufunc.reduceat(np.where(self.present, each, absent), self.begin, axis=0)
        return reduced

    def slices(self) -> list[slice]:
        """Return the rows of each group."""
        ends = [*self.begin[1:], len(self.labels)]
        return [slice(int(begin), int(end)) for begin, end in zip(self.begin, ends, strict=True)]


def aggregated(op: str, vector: Vector, grouping: Grouping, param: Floats | str | None) -> Vector:
    """Aggregate a vector; ``param`` is the scalar or text that some operators take."""
    if not vector.labels:
        return empty(vector.values.shape[1])
    if op == "count_values":
        return _count_values(vector, grouping, str(param))
    groups = _grouped(vector, grouping)
    if op in ("topk", "bottomk"):
        return _best(groups, np.asarray(param), most=op == "topk")
    if op == "quantile":
        values = _quantile(groups, np.asarray(param))
    else:
        values = AGGREGATIONS[op](groups)
    return Vector(groups.keys, values, groups.counts > 0)


def _grouped(vector: Vector, grouping: Grouping) -> _Groups:
    keys, number = numbered(grouping.key(labels) for labels in vector.labels)
    order = np.argsort(number, kind="stable")
    rows = vector.rows(order)
    begin = np.searchsorted(number[order], np.arange(len(keys)))
    return _Groups(keys, begin, number[order], rows.values, rows.present, rows.labels)


def _mean(groups: _Groups) -> Floats:
    return groups.reduce(np.add, groups.values, 0.0) / groups.counts


def _stdvar(groups: _Groups) -> Floats:
    deviation = groups.values - _mean(groups)[groups.number]
    squares = groups.reduce(np.add, deviation**2, 0.0)
    # One alone does not vary, whatever it is.
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

WITH_PARAM = frozenset({"topk", "bottomk", "quantile", "count_values"})


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


def _best(groups: _Groups, k: Floats, *, most: bool) -> Vector:
    """Keep the ``k`` rows of each group that are greatest, or least; not a number is neither."""
    if not (np.abs(k) < 2**63).all():
        raise PromqlError("topk() and bottomk() take a whole number, not NaN or one over 2^63")
    whole = np.where(k >= 1, np.floor(k), 0)
    present = groups.present.copy()
    order: list[Ints] = []
    for rows in groups.slices():
        values = -groups.values[rows] if most else groups.values[rows]
        ranked = np.lexsort((values, np.isnan(values), ~groups.present[rows]), axis=0)
        rank = np.argsort(ranked, axis=0)
        present[rows] &= rank < whole
        order.append(ranked[:, 0] + rows.start)
    # At one time, they are told best first.
    kept = Vector(groups.labels, groups.values, present)
    return kept.rows(np.concatenate(order)) if present.shape[1] == 1 else kept


def _count_values(vector: Vector, grouping: Grouping, label: str) -> Vector:
    keys, counts = [], []
    for labels, values, present in zip(vector.labels, vector.values, vector.present, strict=True):
        told = np.where(present, values, 0.0)
        for value in np.unique(told[present]):
            same = np.isnan(told) if np.isnan(value) else told == value
            keys.append(make_labels({**dict(labels), label: text_of_number(float(value))}))
            counts.append(same & present)
    if not keys:
        return empty(vector.values.shape[1])
    there = np.array(counts)
    each = Vector(keys, there.astype(np.float64), there)
    return aggregated("sum", each, grouping.also(label), None)
