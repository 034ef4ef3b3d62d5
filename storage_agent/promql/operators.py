"""Binary operators between scalars and vectors, at all times at once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from storage_agent.promql.labels import NAME, Labels, make_labels
from storage_agent.promql.problems import PromqlError
from storage_agent.promql.vectors import (
    Bools,
    Floats,
    Ints,
    Vector,
    distinct,
    empty,
    joined,
    numbered,
    without_name,
)

_ARITHMETIC: Mapping[str, Callable[[Any, Any], Floats]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
    "^": np.power,
    "atan2": np.arctan2,
}
_COMPARISON: Mapping[str, Callable[[Any, Any], Bools]] = {
    "==": np.equal,
    "!=": np.not_equal,
    ">": np.greater,
    "<": np.less,
    ">=": np.greater_equal,
    "<=": np.less_equal,
}
SET_OPERATORS = frozenset({"and", "or", "unless"})


@dataclass(frozen=True, slots=True)
class Matching:
    """How series of two sides find each other, and what becomes of their labels.

    ``many``: the side of which several may have one and the same partner, which gives ``include``.
    """

    names: frozenset[str] = frozenset()
    on: bool = False
    many: Literal["left", "right"] | None = None
    include: tuple[str, ...] = ()

    def key(self, labels: Labels) -> Labels:
        """Return what partners have in common."""
        if self.on:
            return tuple(pair for pair in labels if pair[0] in self.names)
        return tuple(pair for pair in labels if pair[0] not in self.names and pair[0] != NAME)


def between_scalars(op: str, left: Floats, right: Floats) -> Floats:
    """Return what an operator makes of scalars; a comparison, of which is wanted a number."""
    if op in _ARITHMETIC:
        return _ARITHMETIC[op](left, right)
    return _COMPARISON[op](left, right).astype(np.float64)


def with_scalar(
    op: str, vector: Vector, scalar: Floats, *, scalar_first: bool, as_bool: bool
) -> Vector:
    """Return what an operator makes of each value of a vector and a scalar."""
    left, right = (scalar, vector.values) if scalar_first else (vector.values, scalar)
    if op in _ARITHMETIC:
        return _renamed(vector, _ARITHMETIC[op](left, right))
    holds = _COMPARISON[op](left, right)
    if as_bool:
        return _renamed(vector, holds.astype(np.float64))
    return distinct(Vector(vector.labels, vector.values, vector.present & holds))


def between_sets(op: str, left: Vector, right: Vector, matching: Matching) -> Vector:
    """Return ``and``, ``or`` or ``unless`` of vectors."""
    keys, number = numbered(matching.key(labels) for labels in (*left.labels, *right.labels))
    of_left, of_right = number[: len(left.labels)], number[len(left.labels) :]
    if op == "or":
        extra = right.present & ~_there(left, of_left, len(keys))[of_right]
        return distinct(
            Vector(
                left.labels + right.labels,
                np.concatenate([left.values, right.values]),
                np.concatenate([left.present, extra]),
            )
        )
    partner = _there(right, of_right, len(keys))[of_left]
    present = left.present & (partner if op == "and" else ~partner)
    return distinct(Vector(left.labels, left.values, present))


def between_vectors(
    op: str, left: Vector, right: Vector, matching: Matching, *, as_bool: bool
) -> Vector:
    """Return what an operator makes of the values of partners."""
    many, one = (right, left) if matching.many == "right" else (left, right)
    keys, number = numbered(matching.key(labels) for labels in (*many.labels, *one.labels))
    of_many, of_one = number[: len(many.labels)], number[len(many.labels) :]
    _check_one(one, of_one, keys, many, "left" if matching.many == "right" else "right")
    rows, partners = _pairs(of_many, of_one)
    if not len(rows):
        return empty(left.values.shape[1])
    present = many.present[rows] & one.present[partners]
    first, second = many.values[rows], one.values[partners]
    if matching.many == "right":
        first, second = second, first
    if op in _ARITHMETIC:
        values = _ARITHMETIC[op](first, second)
    else:
        holds = _COMPARISON[op](first, second)
        values = holds.astype(np.float64) if as_bool else first
        present = present if as_bool else present & holds
    drops_name = as_bool or op in _ARITHMETIC
    labels = [
        _result_labels(many.labels[row], one.labels[partner], matching, drops_name)
        for row, partner in zip(rows, partners, strict=True)
    ]
    result = Vector(labels, values, present)
    _check_many(result, of_many[rows], matching)
    return distinct(result)


def _renamed(vector: Vector, values: Floats) -> Vector:
    labels = [without_name(each) for each in vector.labels]
    return distinct(Vector(labels, values, vector.present))


def _there(vector: Vector, number: Ints, count: int) -> Bools:
    """Return of each key whether any of its rows is there, at each time."""
    there = np.zeros((count, vector.present.shape[1]), np.bool_)
    np.logical_or.at(there, number, vector.present)
    return there


def _pairs(of_many: Ints, of_one: Ints) -> tuple[Ints, Ints]:
    """Return the rows with equal keys, as pairs."""
    by_key: dict[int, list[int]] = {}
    for partner, key in enumerate(of_one.tolist()):
        by_key.setdefault(key, []).append(partner)
    found = [
        (row, partner)
        for row, key in enumerate(of_many.tolist())
        for partner in by_key.get(key, ())
    ]
    pairs = np.array(found, np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _check_one(one: Vector, number: Ints, keys: Sequence[Labels], many: Vector, side: str) -> None:
    """Raise where two on the side of the one have the same key, and the other side has any."""
    asked = one.present & many.present.any(axis=0)
    count = np.zeros((len(keys), asked.shape[1]), np.int64)
    np.add.at(count, number, asked)
    if (count > 1).any():
        key = keys[int(np.argmax((count > 1).any(axis=1)))]
        told = ", ".join(f'{name}="{value}"' for name, value in key)
        raise PromqlError(
            f"found duplicate series for the match group {{{told}}} on the {side} hand-side of the "
            "operation;many-to-many matching not allowed: matching labels must be unique on one "
            "side"
        )


def _check_many(result: Vector, number: Ints, matching: Matching) -> None:
    """Raise where two results would be one."""
    if matching.many is None:
        keys, message = (
            number,
            (
                "multiple matches for labels: many-to-one matching must be explicit "
                "(group_left/group_right)"
            ),
        )
    else:
        _, of_labels = numbered(result.labels)
        keys = number * (int(of_labels.max(initial=0)) + 1) + of_labels
        message = "multiple matches for labels: grouping labels must ensure unique matches"
    distinct_keys, dense = np.unique(keys, return_inverse=True)
    joined(result, [()] * len(distinct_keys), dense, message)


def _result_labels(many: Labels, one: Labels, matching: Matching, drops_name: bool) -> Labels:
    kept = dict(many)
    if drops_name:
        kept.pop(NAME, None)
    if matching.many is None:
        kept = {
            name: value for name, value in kept.items() if (name in matching.names) == matching.on
        }
    given = dict(one)
    for name in matching.include:
        kept[name] = given.get(name, "")
    return make_labels(kept)
