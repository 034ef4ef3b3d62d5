"""The evaluator of expressions over measures (functions of windows), and of conditions."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.plan.expressions import (
    And,
    Arithmetic,
    Comparison,
    Expression,
    Filtered,
    Geohash,
    Label,
    Mapped,
    Measure,
    Membership,
    Negation,
    Not,
    Or,
    PositionGeohash,
    Reduction,
    TickSeries,
    Within,
)
from analytics.plan.functions import UserOperator
from analytics.plan.nodes import Insight, expressions_of
from analytics.positions import position_of
from analytics_worker.evaluate.finalize import finalize_points, reduce_values
from analytics_worker.evaluate.key_expressions import (
    constant,
    is_constant,
    is_of_kind,
    kind_of,
    lists_of_keys,
    reads_windows,
    values_of_keys,
)
from analytics_worker.evaluate.keyed_values import (
    NUMBER,
    TEXT,
    KeyedValues,
    group_series,
    group_values,
)
from analytics_worker.evaluate.measures import Measures
from analytics_worker.evaluate.operator_failures import OperatorFailure, failure_of
from analytics_worker.operators.geohash import geohash
from analytics_worker.operators.points import Floats
from analytics_worker.panes.mathematics import MATHEMATICAL
from analytics_worker.panes.predicates import ARITHMETIC_ARRAYS, COMPARE_ARRAYS, is_among


class ExpressionEvaluator:
    """Evaluates expressions over measures; each distinct expression is evaluated only once."""

    def __init__(self, measures: Measures) -> None:
        self._measures = measures
        self._evaluated: dict[Expression, KeyedValues] = {}

    def evaluate(self, expression: Expression) -> KeyedValues:
        """Return the values of an expression that reads windows; NaN and infinities become null."""
        values = self._evaluated.get(expression)
        if values is None:
            values = self._evaluated[expression] = self._evaluate(expression).finite()
        return values

    def failure(self, insight: Insight) -> OperatorFailure | None:
        """Return the failure of the operators of other packages that an insight calls.

        None: no operator was called. If ``missing`` is 0, the operators gave all answers.
        """
        calls = [
            (str(node.function), values.rows, values.result.problems)
            for node in expressions_of(insight)
            if isinstance(node, Measure | Reduction | TickSeries)
            and isinstance(node.function, UserOperator)
            if (values := self._evaluated.get(node)) is not None
        ]
        return failure_of(calls)

    def holds(self, condition: Expression, base: KeyedValues) -> Any:
        """Return a mask, without nulls, of the rows of ``base`` for which a condition is true."""
        if not reads_windows(condition):
            return values_of_keys(condition, base.rows)
        match condition:
            case And():
                return pc.and_(self.holds(condition.left, base), self.holds(condition.right, base))
            case Or():
                return pc.or_(self.holds(condition.left, base), self.holds(condition.right, base))
            case Not():
                return pc.invert(self.holds(condition.operand, base))
            case Comparison():
                kind = kind_of(condition.left, condition.right)
                left = self._values_at(condition.left, base, kind)
                right = self._values_at(condition.right, base, kind)
                return pc.fill_null(COMPARE_ARRAYS[condition.operator](left, right), False)
            case Membership():
                kind = kind_of(condition.operand)
                options = [option for option in condition.options if is_of_kind(option, kind)]
                values = self._values_at(condition.operand, base, kind)
                return pc.is_in(values, pa.array(options, kind))
            case Within():
                values = self._values_at(condition.operand, base, kind_of(condition.operand))
                lists = lists_of_keys(condition.options, base.rows)
                pairs = zip(values.to_pylist(), lists, strict=True)
                found = [is_among(value, options, condition.negated) for value, options in pairs]
                return pa.array(found, pa.bool_())
            case _:
                raise TypeError(f"{type(condition).__name__} is not a condition")

    def _evaluate(self, expression: Expression) -> KeyedValues:
        match expression:
            case Measure():
                return self._measures.values(expression)
            case Label():
                return self._measures.labels(expression)
            case Negation():
                operand = self.evaluate(expression.operand)
                return operand.with_values(pc.negate(operand.values))
            case Mapped():
                operand = self.evaluate(expression.operand)
                return operand.with_values(MATHEMATICAL[expression.function](operand.values))
            case Arithmetic():
                base, left, right = self._meet(expression.left, expression.right)
                return base.with_values(ARITHMETIC_ARRAYS[expression.operator](left, right))
            case Geohash():
                return self._geohash(expression)
            case PositionGeohash():
                return self._position_geohash(expression)
            case Reduction():
                return self._reduction(expression)
            case TickSeries():
                return self._tick_series(expression)
            case Filtered():
                operand = self.evaluate(expression.operand)
                return operand.filter(self.holds(expression.condition, operand))
            case _:
                raise TypeError(f"{type(expression).__name__} cannot be evaluated at a tick")

    def _values_at(
        self, expression: Expression, base: KeyedValues, kind: pa.DataType = NUMBER
    ) -> Any:
        """Return a column with the value of an expression for each row of ``base``, null if
        missing.

        The value of a constant expression is returned as a scalar. Constants, and expressions that
        depend only on the key, are null if the type of their value is not ``kind``.
        """
        if is_constant(expression):
            return constant(expression, kind)
        if not reads_windows(expression):
            return values_of_keys(expression, base.rows, kind)
        return self.evaluate(expression).at(base)

    def _meet(self, left: Expression, right: Expression) -> tuple[KeyedValues, Any, Any]:
        """Join the values of two operands by tick and key.

        Return (the operand whose rows the result has, values of ``left``, values of ``right``).
        """
        # An operand that depends on the key alone has a value for every row of the other.
        if not reads_windows(left):
            other = self.evaluate(right)
            return other, self._values_at(left, other), other.values
        if not reads_windows(right):
            one = self.evaluate(left)
            return one, one.values, self._values_at(right, one)
        one, other = self.evaluate(left), self.evaluate(right)
        if other.by <= one.by:
            return one, one.values, other.at(one)
        return other, one.at(other), other.values

    def _geohash(self, node: Geohash) -> KeyedValues:
        base, *degrees = self._meet(node.latitude, node.longitude)
        latitudes, longitudes = (_floats(each, base.rows.num_rows) for each in degrees)
        return base.with_values(pa.array(geohash(latitudes, longitudes, node.characters), TEXT))

    def _position_geohash(self, node: PositionGeohash) -> KeyedValues:
        base = self.evaluate(node.position)
        positions = [position_of(text) for text in base.values.to_pylist()]
        degrees = np.array(positions, np.float64).reshape(-1, 2)
        hashes = geohash(degrees[:, 0], degrees[:, 1], node.characters)
        return base.with_values(pa.array(hashes, TEXT))

    def _reduction(self, node: Reduction) -> KeyedValues:
        by = frozenset(node.by)
        rows, lists = group_values(self.evaluate(node.operand), by)
        ticks = rows["tick"].to_pylist()
        return KeyedValues(rows, reduce_values(node.function, lists, node.parameters, ticks), by)

    def _tick_series(self, node: TickSeries) -> KeyedValues:
        by = frozenset(node.by)
        given = [each for each in (node.operands, node.others) if each]
        series = [
            group_series([self.evaluate(one) for one in operands], node.step_ms, by)
            for operands in given
        ]
        found = sorted(set(series[0]).intersection(*series))
        windows = [[each[where] for each in series] for where in found]
        ticks = [tick for tick, _ in found]
        rows = pa.table(
            {
                "tick": pa.array(ticks, pa.int64()),
                "key": pa.array([key for _, key in found], pa.string()),
            }
        )
        return KeyedValues(
            rows, finalize_points(node.function, windows, node.parameters, ticks), by
        )


def _floats(values: Any, rows: int) -> Floats:
    """Return numbers as an array with ``rows`` elements and NaN for null; a scalar is repeated."""
    array = pa.repeat(values, rows) if isinstance(values, pa.Scalar) else values
    return np.asarray(pc.fill_null(array, math.nan), np.float64)
