"""Composition: from the windows of a tick to the results of insights.

All windows of a tick close together, so composing them needs no state: it is a function of the
rows at hand, the same in a stream and in a batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.panes.predicates import (
    ARITHMETIC_ARRAYS,
    COMPARE_ARRAYS,
    is_number,
    number_for_all,
    same_for_all,
)
from mistbow.plan.expressions import (
    And,
    Arithmetic,
    Attribute,
    Comparison,
    Expression,
    Measure,
    Membership,
    Negation,
    Not,
    Or,
    Scalar,
    is_condition,
    walk,
)
from mistbow.plan.nodes import Insight, Plan

WINDOWED = pa.schema(
    [
        pa.field("window", pa.int32()),
        pa.field("tick", pa.int64()),
        pa.field("key", pa.string()),
        pa.field("sum", pa.float64()),
        pa.field("count", pa.int64()),
        pa.field("min", pa.float64()),
        pa.field("max", pa.float64()),
    ]
)
"""Aggregates of windows; ``window`` is the window's place in the plan, ``tick`` its end in ms."""

COMPOSED = pa.schema(
    [
        pa.field("insight", pa.string()),
        pa.field("key", pa.string()),
        pa.field("ts", pa.int64()),
        pa.field("value", pa.float64()),
    ]
)
"""The results of insights; rows without a value are left out."""

Operation = Callable[[Any, Any], Any]

_MEASURES: dict[str, Callable[[pa.Table], Any]] = {
    "SUM": lambda rows: rows["sum"],
    "COUNT": lambda rows: rows["count"].cast(pa.float64()),
    "MIN": lambda rows: rows["min"],
    "MAX": lambda rows: rows["max"],
    "AVG": lambda rows: pc.divide(rows["sum"], rows["count"].cast(pa.float64())),
}


def compose(windows: pa.Table, plan: Plan) -> pa.Table:
    """Return what the plan's insights say of these windows (``WINDOWED``); shape ``COMPOSED``."""
    scope = _Scope(windows, plan)
    parts = [_compose_one(scope, insight) for insight in plan.insights]
    return pa.concat_tables([COMPOSED.empty_table(), *parts])


def _compose_one(scope: "_Scope", insight: Insight) -> pa.Table:
    result = scope.evaluate(insight.expression)
    shown = pc.and_(_finite(result.values), pc.greater(result.rows["tick"], insight.since))
    if insight.filter is not None:
        condition = scope.evaluate(insight.filter)
        result, condition = _meet(result, condition)
        shown = pc.and_(_finite(result.values), pc.greater(result.rows["tick"], insight.since))
        shown = pc.and_(shown, condition.values)
    rows = result.rows.append_column("value", result.values).filter(shown)
    return pa.table(
        {
            "insight": pa.repeat(insight.uid, rows.num_rows),
            "key": rows["key"],
            "ts": rows["tick"],
            "value": rows["value"],
        },
        schema=COMPOSED,
    )


@dataclass(frozen=True, slots=True)
class _Keyed:
    """A value for each (tick, key) in ``rows``."""

    rows: pa.Table
    values: Any


class _Scope:
    """Evaluates expressions over the windows at hand, each distinct one once."""

    def __init__(self, windows: pa.Table, plan: Plan) -> None:
        self._windows = windows
        self._places = {window.id: place for place, window in enumerate(plan.windows)}
        self._rows: dict[str, pa.Table] = {}
        self._known: dict[Expression, _Keyed] = {}

    def evaluate(self, expression: Expression) -> _Keyed:
        known = self._known.get(expression)
        if known is None:
            known = self._known[expression] = self._evaluate(expression)
        return known

    def _evaluate(self, expression: Expression) -> _Keyed:
        if not _reads_windows(expression):
            rows = self._all_rows()
            return _Keyed(rows, _of_key(expression, rows))
        match expression:
            case Measure():
                rows = self._window(expression.window)
                return _Keyed(rows, _MEASURES[expression.function](rows))
            case Negation():
                operand = self.evaluate(expression.operand)
                return _Keyed(operand.rows, pc.negate(operand.values))
            case Arithmetic():
                return self._binary(expression, ARITHMETIC_ARRAYS[expression.operator])
            case Comparison():
                held = self._binary(expression, COMPARE_ARRAYS[expression.operator])
                return _Keyed(held.rows, pc.fill_null(held.values, False))
            case Membership():
                operand = self.evaluate(expression.operand)
                numbers = [option for option in expression.options if is_number(option)]
                return _Keyed(
                    operand.rows, pc.is_in(operand.values, pa.array(numbers, pa.float64()))
                )
            case And():
                left, right = _meet(self.evaluate(expression.left), self.evaluate(expression.right))
                return _Keyed(left.rows, pc.and_(left.values, right.values))
            case Or():
                left, right = self._everywhere(expression.left), self._everywhere(expression.right)
                return _Keyed(left.rows, pc.or_(left.values, right.values))
            case Not():
                operand = self._everywhere(expression.operand)
                return _Keyed(operand.rows, pc.invert(operand.values))
            case _:
                raise TypeError(f"{type(expression).__name__} has no value at a tick")

    def _binary(self, node: Comparison | Arithmetic, function: Operation) -> _Keyed:
        # A constant is the same for every row: it need not be met with the other side.
        if _is_constant(node.left):
            right = self.evaluate(node.right)
            return _Keyed(right.rows, function(_constant(node.left), right.values))
        if _is_constant(node.right):
            left = self.evaluate(node.left)
            return _Keyed(left.rows, function(left.values, _constant(node.right)))
        left, right = _meet(self.evaluate(node.left), self.evaluate(node.right))
        return _Keyed(left.rows, function(left.values, right.values))

    def _everywhere(self, expression: Expression) -> _Keyed:
        """Return a condition that is false where it is missing, as NOT and OR need it."""
        condition, rows = self.evaluate(expression), self._all_rows()
        if condition.rows is rows:
            return condition
        pairs = ["tick", "key"]
        known = condition.rows.select(pairs).append_column("held", condition.values)
        numbered = rows.append_column("at", pa.array(range(rows.num_rows), pa.int64()))
        joined = numbered.join(known, keys=pairs, use_threads=False).sort_by("at")
        return _Keyed(rows, pc.fill_null(joined["held"], False))

    def _window(self, window: str) -> pa.Table:
        rows = self._rows.get(window)
        if rows is None:
            mine = pc.equal(self._windows["window"], self._places[window])
            rows = self._rows[window] = self._windows.filter(mine)
        return rows

    def _all_rows(self) -> pa.Table:
        """Return every (tick, key) at hand: conditions hold or not, whatever the window."""
        pairs = self._rows.get("")
        if pairs is None:
            pairs = self._windows.group_by(["tick", "key"], use_threads=False).aggregate([])
            self._rows[""] = pairs
        return pairs


def _meet(left: _Keyed, right: _Keyed) -> tuple[_Keyed, _Keyed]:
    """Bring two operands to the ticks and keys that both have."""
    if left.rows is right.rows:
        return left, right
    pairs = ["tick", "key"]
    joined = (
        left.rows.select(pairs)
        .append_column("left", left.values)
        .join(
            right.rows.select(pairs).append_column("right", right.values),
            keys=pairs,
            join_type="inner",
            use_threads=False,
        )
    )
    rows = joined.select(pairs)
    return _Keyed(rows, joined["left"]), _Keyed(rows, joined["right"])


def _finite(values: Any) -> Any:
    return pc.fill_null(pc.is_finite(values), False)


def _reads_windows(expression: Expression) -> bool:
    return any(isinstance(node, Measure) for node in walk(expression))


def _is_constant(expression: Expression) -> bool:
    return not any(isinstance(node, Measure | Attribute) for node in walk(expression))


def _constant(expression: Expression) -> pa.Scalar:
    return pa.scalar(number_for_all(expression, {}), pa.float64())


def _of_key(expression: Expression, rows: pa.Table) -> Any:
    """Return what depends on the key alone, or on nothing: decided once a distinct key."""
    keys = rows["key"].combine_chunks().dictionary_encode()
    decoder = msgspec.json.Decoder(dict[str, Scalar | None])
    attributes = [
        {name: value for name, value in decoder.decode(key).items() if value is not None}
        for key in keys.dictionary.to_pylist()
    ]
    if is_condition(expression):
        known = pa.array([same_for_all(expression, one) for one in attributes], pa.bool_())
    else:
        known = pa.array([number_for_all(expression, one) for one in attributes], pa.float64())
    return known.take(keys.indices)
