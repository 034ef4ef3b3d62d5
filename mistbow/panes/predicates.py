"""Which points a predicate holds for, over whole batches at once.

Attributes repeat from point to point, so what depends on them alone is decided once for each
distinct set of attributes; only what depends on the value looks at every row.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.operators.geohash import geohash
from mistbow.panes.mathematical import MATHEMATICAL
from mistbow.plan.expressions import (
    And,
    Arithmetic,
    Attribute,
    Comparison,
    Expression,
    Geohash,
    Literal,
    Mapped,
    Membership,
    Negation,
    Not,
    Or,
    Scalar,
    Value,
    walk,
)

Attributes = Mapping[str, Scalar]

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
COMPARE_ARRAYS: dict[str, Callable[[Any, Any], Any]] = {
    "==": pc.equal,
    "!=": pc.not_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "<": pc.less,
    "<=": pc.less_equal,
}
ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def _divide(left: Any, right: Any) -> Any:
    """Divide arrays; without a value where the divisor is zero."""
    nothing = pa.scalar(None, pa.float64())
    return pc.divide(left, pc.if_else(pc.equal(right, 0.0), nothing, right))


ARITHMETIC_ARRAYS: dict[str, Callable[[Any, Any], Any]] = {
    "+": pc.add,
    "-": pc.subtract,
    "*": pc.multiply,
    "/": _divide,
}


def parse_attributes(rows: pa.RecordBatch) -> list[dict[str, Scalar]]:
    """Return the distinct attributes of a batch of points, in the order of their dictionary."""
    decoder = msgspec.json.Decoder(dict[str, Scalar])
    dictionary = rows.column("attributes").dictionary
    return [decoder.decode(text) for text in dictionary.to_pylist()]


def mask(predicate: Expression, rows: pa.RecordBatch, attributes: list[dict[str, Scalar]]) -> Any:
    """Return for each row whether the predicate holds, as a boolean array without nulls.

    ``attributes`` is what ``parse_attributes(rows)`` returns.
    """
    if not _reads_value(predicate):
        known = pa.array([same_for_all(predicate, one) for one in attributes], pa.bool_())
        return known.take(rows.column("attributes").indices)
    match predicate:
        case And():
            return pc.and_(
                mask(predicate.left, rows, attributes), mask(predicate.right, rows, attributes)
            )
        case Or():
            return pc.or_(
                mask(predicate.left, rows, attributes), mask(predicate.right, rows, attributes)
            )
        case Not():
            return pc.invert(mask(predicate.operand, rows, attributes))
        case Comparison():
            left = _numbers(predicate.left, rows, attributes)
            right = _numbers(predicate.right, rows, attributes)
            holds = COMPARE_ARRAYS[predicate.operator](left, right)
            return pc.fill_null(holds, False)
        case Membership():
            numbers = [one for one in predicate.options if is_number(one)]
            operand = _numbers(predicate.operand, rows, attributes)
            return pc.is_in(operand, pa.array(numbers, pa.float64()))
        case _:
            raise TypeError(f"{type(predicate).__name__} is no predicate")


def same_for_all(predicate: Expression, attributes: Attributes) -> bool:
    """Return whether a predicate that does not read the value holds for these attributes."""
    match predicate:
        case And():
            return same_for_all(predicate.left, attributes) and same_for_all(
                predicate.right, attributes
            )
        case Or():
            return same_for_all(predicate.left, attributes) or same_for_all(
                predicate.right, attributes
            )
        case Not():
            return not same_for_all(predicate.operand, attributes)
        case Comparison():
            return compare(
                predicate.operator,
                _scalar(predicate.left, attributes),
                _scalar(predicate.right, attributes),
            )
        case Membership():
            operand = _scalar(predicate.operand, attributes)
            return any(compare("==", operand, option) for option in predicate.options)
        case Literal(bool() as truth):
            return truth
        case _:
            raise TypeError(f"{type(predicate).__name__} is no predicate")


def number_for_all(expression: Expression, attributes: Attributes) -> float | None:
    """Return the value of what does not read points; None where it is missing or no number."""
    return _number(_scalar(expression, attributes))


def text_for_all(expression: Expression, attributes: Attributes) -> str | None:
    """Return the text of what does not read points; None where it is missing or no text."""
    value = _scalar(expression, attributes)
    return value if isinstance(value, str) else None


def compare(symbol: str, left: Scalar | None, right: Scalar | None) -> bool:
    """Compare two scalars; false where one is missing, their types differ or have no order."""
    if left is None or right is None or _kind(left) is not _kind(right):
        return False
    if not is_number(left) and symbol not in ("==", "!="):
        return False
    return COMPARE[symbol](left, right)


def _kind(value: Scalar) -> type:
    return float if is_number(value) else type(value)


def is_number(value: object) -> bool:
    """Return whether a scalar is a number; a truth value is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Scalar | None) -> float | None:
    return float(value) if value is not None and is_number(value) else None


def _calculate(symbol: str, left: float | None, right: float | None) -> float | None:
    if left is None or right is None or (symbol == "/" and right == 0):
        return None
    return ARITHMETIC[symbol](left, right)


def _reads_value(expression: Expression) -> bool:
    return any(isinstance(node, Value) for node in walk(expression))


def _scalar(expression: Expression, attributes: Attributes) -> Scalar | None:
    match expression:
        case Literal():
            return expression.value
        case Attribute():
            return attributes.get(expression.name)
        case Negation():
            operand = _number(_scalar(expression.operand, attributes))
            return None if operand is None else -operand
        case Arithmetic():
            left = _number(_scalar(expression.left, attributes))
            right = _number(_scalar(expression.right, attributes))
            return _calculate(expression.operator, left, right)
        case Mapped():
            number = pa.scalar(_number(_scalar(expression.operand, attributes)), pa.float64())
            mapped: float | None = MATHEMATICAL[expression.function](number).as_py()
            return mapped
        case Geohash():
            latitude, longitude = (
                np.array([_number(_scalar(each, attributes))], np.float64)
                for each in (expression.latitude, expression.longitude)
            )
            return geohash(latitude, longitude, expression.characters)[0]
        case _:
            raise TypeError(f"{type(expression).__name__} has no value over attributes")


def _numbers(
    expression: Expression, rows: pa.RecordBatch, attributes: list[dict[str, Scalar]]
) -> Any:
    """Return an operand as an array of floats; null where it is missing or no number."""
    match expression:
        case Value():
            return rows.column("value")
        case Literal():
            number = float(expression.value) if is_number(expression.value) else None
            return pa.scalar(number, pa.float64())
        case Attribute():
            known = [one.get(expression.name) for one in attributes]
            floats = pa.array([v if is_number(v) else None for v in known], pa.float64())
            return floats.take(rows.column("attributes").indices)
        case Negation():
            return pc.negate(_numbers(expression.operand, rows, attributes))
        case Arithmetic():
            left = _numbers(expression.left, rows, attributes)
            right = _numbers(expression.right, rows, attributes)
            return ARITHMETIC_ARRAYS[expression.operator](left, right)
        case _:
            raise TypeError(f"{type(expression).__name__} has no value over points")
