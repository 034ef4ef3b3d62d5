"""Binary operators on scalars and vectors, evaluated at all timestamps at once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from storage_agent.promql.errors import PromqlError
from storage_agent.promql.labels import NAME, Labels, make_labels
from storage_agent.promql.vectors import (
    Bools,
    Floats,
    Ints,
    Vector,
    distinct,
    empty,
    group_keys,
    merge_rows,
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
_DROPS_NAME = frozenset(_ARITHMETIC) - {"atan2"}
"""The arithmetic operators whose results have no metric name: all except ``atan2``."""

SET_OPERATORS = frozenset({"and", "or", "unless"})


@dataclass(frozen=True, slots=True)
class VectorMatching:
    """The rule that decides which series of two vectors match.

    Series with the same key form a match group. ``on``: True for ``on (names)``, False for
    ``ignoring (names)``. ``many``: the side that may have several series in a match group; None:
    neither side. ``include``: the labels that the result copies from the series of the other side.
    """

    names: frozenset[str] = frozenset()
    on: bool = False
    many: Literal["left", "right"] | None = None
    include: tuple[str, ...] = ()

    def key(self, labels: Labels) -> Labels:
        """Return the key of a series' match group: the labels by which the series is matched."""
        if self.on:
            return tuple(pair for pair in labels if pair[0] in self.names)
        return tuple(pair for pair in labels if pair[0] not in self.names and pair[0] != NAME)


def scalar_binop(op: str, left: Floats, right: Floats) -> Floats:
    """Apply an arithmetic operator or a comparison to two scalars; a comparison returns 0 or 1."""
    if op in _ARITHMETIC:
        return _ARITHMETIC[op](left, right)
    return _COMPARISON[op](left, right).astype(np.float64)


def vector_scalar_binop(
    op: str, vector: Vector, scalar: Floats, *, scalar_first: bool, as_bool: bool
) -> Vector:
    """Apply an arithmetic operator or a comparison to a scalar and each value of a vector.

    ``scalar_first``: whether the scalar is the left operand. ``as_bool``: whether a comparison
    returns 0 or 1; if False, the result has those values of the vector for which the comparison is
    true.
    """
    left, right = (scalar, vector.values) if scalar_first else (vector.values, scalar)
    if op in _ARITHMETIC:
        return _replace_values(vector, _ARITHMETIC[op](left, right), op in _DROPS_NAME)
    matches = _COMPARISON[op](left, right)
    if as_bool:
        return _replace_values(vector, matches.astype(np.float64), drops_name=True)
    return distinct(Vector(vector.labels, vector.values, vector.present & matches))


def vector_set_op(op: str, left: Vector, right: Vector, matching: VectorMatching) -> Vector:
    """Apply ``and``, ``or`` or ``unless`` to two vectors."""
    keys, number = group_keys(matching.key(labels) for labels in (*left.labels, *right.labels))
    of_left, of_right = number[: len(left.labels)], number[len(left.labels) :]
    if op == "or":
        extra = right.present & ~_present_keys(left, of_left, len(keys))[of_right]
        return distinct(
            Vector(
                left.labels + right.labels,
                np.concatenate([left.values, right.values]),
                np.concatenate([left.present, extra]),
            )
        )
    matched = _present_keys(right, of_right, len(keys))[of_left]
    present = left.present & (matched if op == "and" else ~matched)
    return distinct(Vector(left.labels, left.values, present))


def vector_binop(
    op: str, left: Vector, right: Vector, matching: VectorMatching, *, as_bool: bool
) -> Vector:
    """Apply an arithmetic operator or a comparison to the matching series of two vectors.

    ``as_bool``: whether a comparison returns 0 or 1; if False, the result has the left values for
    which the comparison is true. Raises ``PromqlError`` if the matches are not unique.
    """
    many, one = (right, left) if matching.many == "right" else (left, right)
    keys, number = group_keys(matching.key(labels) for labels in (*many.labels, *one.labels))
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
        matches = _COMPARISON[op](first, second)
        values = matches.astype(np.float64) if as_bool else first
        present = present if as_bool else present & matches
    drops_name = as_bool or op in _DROPS_NAME
    labels = [
        _result_labels(many.labels[row], one.labels[partner], matching, drops_name)
        for row, partner in zip(rows, partners, strict=True)
    ]
    result = Vector(labels, values, present)
    _check_many(result, of_many[rows], matching)
    return distinct(result)


def _replace_values(vector: Vector, values: Floats, drops_name: bool) -> Vector:
    labels = [without_name(each) for each in vector.labels] if drops_name else vector.labels
    return distinct(Vector(labels, values, vector.present))


def _present_keys(vector: Vector, number: Ints, count: int) -> Bools:
    """Return a mask of shape (keys, timestamps): whether a row with the key is present.

    ``number``: the key of each row of the vector, as an index. ``count``: the number of keys.
    """
    present = np.zeros((count, vector.present.shape[1]), np.bool_)
    np.logical_or.at(present, number, vector.present)
    return present


def _pairs(of_many: Ints, of_one: Ints) -> tuple[Ints, Ints]:
    """Return all pairs of rows with equal keys, as two arrays of row indices.

    ``of_many``, ``of_one``: the key of each row of the two vectors, as an index.
    """
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
    """Raise ``PromqlError`` if several present series of ``one`` are in the same match group.

    ``number``: for each row of ``one``, the index of its group in ``keys``. ``side``: the side of
    ``one`` (left or right), for the message.
    """
    used = one.present & many.present.any(axis=0)
    count = np.zeros((len(keys), used.shape[1]), np.int64)
    np.add.at(count, number, used)
    if (count > 1).any():
        key = keys[int(np.argmax((count > 1).any(axis=1)))]
        group = ", ".join(f'{name}="{value}"' for name, value in key)
        raise PromqlError(
            f"found duplicate series for the match group {{{group}}} on the {side} hand-side of "
            "the operation;many-to-many matching not allowed: matching labels must be unique on "
            "one side"
        )


def _check_many(result: Vector, number: Ints, matching: VectorMatching) -> None:
    """Raise ``PromqlError`` if the matches are not unique at some timestamp.

    With ``group_left`` or ``group_right``, the results in a match group must have different labels.
    Otherwise, a match group may have one result only. ``number``: the match group of each row of
    the result.
    """
    if matching.many is None:
        keys, message = (
            number,
            (
                "multiple matches for labels: many-to-one matching must be explicit "
                "(group_left/group_right)"
            ),
        )
    else:
        _, of_labels = group_keys(result.labels)
        keys = number * (int(of_labels.max(initial=0)) + 1) + of_labels
        message = "multiple matches for labels: grouping labels must ensure unique matches"
    distinct_keys, dense = np.unique(keys, return_inverse=True)
    merge_rows(result, [()] * len(distinct_keys), dense, message)


def _result_labels(many: Labels, one: Labels, matching: VectorMatching, drops_name: bool) -> Labels:
    labels = dict(many)
    if drops_name:
        labels.pop(NAME, None)
    if matching.many is None:
        labels = {
            name: value for name, value in labels.items() if (name in matching.names) == matching.on
        }
    included = dict(one)
    for name in matching.include:
        labels[name] = included.get(name, "")
    return make_labels(labels)
