"""The evaluation of predicates over batches of points.

Many points have the same attributes. Expressions over attributes alone are evaluated once for each
distinct set of attributes; only expressions that read the value are evaluated for every row.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.operators.interface import Derivation
from analytics.plan.expressions import (
    And,
    Arithmetic,
    Attribute,
    Comparison,
    Derived,
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
    Within,
    walk,
)
from analytics.plan.scalar_operators import ARITHMETIC, COMPARE
from analytics_worker.operators.caller import derive
from analytics_worker.operators.geohash import geohash
from analytics_worker.panes.mathematics import MATHEMATICAL
from mistbow.telemetry import get_logger

log = get_logger(__name__)

Attributes = Mapping[str, Scalar]

COMPARE_ARRAYS: dict[str, Callable[[Any, Any], Any]] = {
    "==": pc.equal,
    "!=": pc.not_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "<": pc.less,
    "<=": pc.less_equal,
}


def _divide(left: Any, right: Any) -> Any:
    """Divide arrays; the result is null where the divisor is zero."""
    nothing = pa.scalar(None, pa.float64())
    return pc.divide(left, pc.if_else(pc.equal(right, 0.0), nothing, right))


ARITHMETIC_ARRAYS: dict[str, Callable[[Any, Any], Any]] = {
    "+": pc.add,
    "-": pc.subtract,
    "*": pc.multiply,
    "/": _divide,
}


def parse_attributes(rows: pa.RecordBatch) -> list[dict[str, Scalar]]:
    """Return the distinct attributes (name -> value) of a batch of points.

    The list has the order of the dictionary of the column ``attributes``.
    """
    decoder = msgspec.json.Decoder(dict[str, Scalar])
    dictionary = rows.column("attributes").dictionary
    return [decoder.decode(text) for text in dictionary.to_pylist()]


def mask(predicate: Expression, rows: pa.RecordBatch, attributes: list[dict[str, Scalar]]) -> Any:
    """Return a boolean array without nulls: whether a predicate is true for each row.

    ``attributes``: the result of ``parse_attributes(rows)``.
    """
    if not _reads_value(predicate):
        results = pa.array([holds_for(predicate, one) for one in attributes], pa.bool_())
        return results.take(rows.column("attributes").indices)
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
            raise TypeError(f"{type(predicate).__name__} is not a predicate")


def holds_for(predicate: Expression, attributes: Attributes) -> bool:
    """Return whether a predicate is true for the attributes of a point.

    The predicate must not read the value of the point.
    """
    match predicate:
        case And():
            return holds_for(predicate.left, attributes) and holds_for(predicate.right, attributes)
        case Or():
            return holds_for(predicate.left, attributes) or holds_for(predicate.right, attributes)
        case Not():
            return not holds_for(predicate.operand, attributes)
        case Comparison():
            return compare(
                predicate.operator,
                _scalar(predicate.left, attributes),
                _scalar(predicate.right, attributes),
            )
        case Membership():
            operand = _scalar(predicate.operand, attributes)
            if isinstance(operand, str):
                # A text equals texts only. There may be 100,000 options.
                return operand in predicate.options
            return any(compare("==", operand, option) for option in predicate.options)
        case Within():
            return _is_within(predicate, attributes)
        case Literal(bool() as truth):
            return truth
        case _:
            raise TypeError(f"{type(predicate).__name__} is not a predicate")


def _is_within(predicate: Within, attributes: Attributes) -> bool:
    operand = _scalar(predicate.operand, attributes)
    return is_among(operand, derived_list(predicate.options, attributes), predicate.negated)


def derived_list(expression: Derived, attributes: Attributes) -> tuple[Scalar, ...] | None:
    """Return the list that an operator derives; None if it derives none."""
    options = _derive(expression, attributes)
    return options if isinstance(options, tuple) else None


def is_among(operand: Scalar | None, options: tuple[Scalar, ...] | None, negated: bool) -> bool:
    """Return whether a value is, or is not, in a derived list; False if one of them is missing."""
    if operand is None or options is None:
        return False
    if not negated:
        return any(compare("==", operand, option) for option in options)
    # Like any comparison, NOT IN is false for a value of another type.
    alike = [option for option in options if _kind(option) is _kind(operand)]
    return not options or (bool(alike) and operand not in alike)


def _derive(expression: Derived, attributes: Attributes) -> Derivation:
    """Return the value that an operator derives; None if an operand is missing or the operator
    fails.
    """
    operands = [_scalar(each, attributes) for each in expression.operands]
    given = tuple(each for each in operands if each is not None)
    if len(given) < len(operands):
        return None
    answer = derive(expression.function.name, expression.function.version, given)
    if answer.problem is not None:
        _report_failure(str(expression.function), answer.problem)
    return answer.derived


@lru_cache(maxsize=100)
def _report_failure(operator: str, reason: str) -> None:
    """Log the failure of an operator, once for each reason: many points may have the same one."""
    log.warning("operator_failed", operator=operator, reason=reason)


def number_for(expression: Expression, attributes: Attributes) -> float | None:
    """Return the value of an expression over attributes; None if missing or not a number."""
    return _number(_scalar(expression, attributes))


def text_for(expression: Expression, attributes: Attributes) -> str | None:
    """Return the value of an expression over attributes; None if missing or not a text."""
    value = _scalar(expression, attributes)
    return value if isinstance(value, str) else None


def compare(symbol: str, left: Scalar | None, right: Scalar | None) -> bool:
    """Return whether a comparison of two scalars is true.

    A comparison is false if a scalar is missing, if the types differ, or if the comparison needs an
    order and the scalars are not numbers.
    """
    if left is None or right is None or _kind(left) is not _kind(right):
        return False
    if not is_number(left) and symbol not in ("==", "!="):
        return False
    return COMPARE[symbol](left, right)


def _kind(value: Scalar) -> type:
    return float if is_number(value) else type(value)


def is_number(value: object) -> bool:
    """Return whether a value is a number; a boolean is not a number."""
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
        case Derived():
            derived = _derive(expression, attributes)
            return None if isinstance(derived, tuple) else derived
        case Geohash():
            latitude, longitude = (
                np.array([_number(_scalar(each, attributes))], np.float64)
                for each in (expression.latitude, expression.longitude)
            )
            return geohash(latitude, longitude, expression.characters)[0]
        case _:
            raise TypeError(f"{type(expression).__name__} cannot be computed from attributes")


def _numbers(
    expression: Expression, rows: pa.RecordBatch, attributes: list[dict[str, Scalar]]
) -> Any:
    """Return the value of an operand for each row, as floats; null: missing, or not a number.

    The value of a literal is returned as a scalar.
    """
    match expression:
        case Value():
            return rows.column("value")
        case Literal():
            number = float(expression.value) if is_number(expression.value) else None
            return pa.scalar(number, pa.float64())
        case Attribute():
            results = [one.get(expression.name) for one in attributes]
            floats = pa.array([v if is_number(v) else None for v in results], pa.float64())
            return floats.take(rows.column("attributes").indices)
        case Derived():
            derived = [number_for(expression, one) for one in attributes]
            return pa.array(derived, pa.float64()).take(rows.column("attributes").indices)
        case Negation():
            return pc.negate(_numbers(expression.operand, rows, attributes))
        case Arithmetic():
            left = _numbers(expression.left, rows, attributes)
            right = _numbers(expression.right, rows, attributes)
            return ARITHMETIC_ARRAYS[expression.operator](left, right)
        case _:
            raise TypeError(f"{type(expression).__name__} cannot be computed from a point")
