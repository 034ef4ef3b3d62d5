"""The units of the values of insights, from the units of their metrics."""

from collections.abc import Mapping

from analytics.plan.expressions import (
    Aggregate,
    Arithmetic,
    Expression,
    Filtered,
    Literal,
    Mapped,
    Negation,
    Reduction,
    TickSeries,
)
from analytics.plan.functions import spec_of


def unit_of(expression: Expression, units: Mapping[str, str]) -> str | None:
    """Return the unit of the values of an expression; None: none, or unknown.

    ``units``: metric -> unit. Sums and differences keep the unit; all other operations give values
    without a known unit, also products with a constant, which usually convert the unit.

    >>> from analytics_enabler.semantics.check import check
    >>> texts = ("MAX(delay) - delay + 2", "fare / delay", "COUNT(delay)")
    >>> checked = [check(f"a = COMPUTE {text} EVERY 1 s").definitions[0] for text in texts]
    >>> [unit_of(each.expression, {"delay": "s", "fare": "EUR"}) for each in checked]
    ['s', None, None]
    """
    match expression:
        case Aggregate(function=function) if spec_of(function).keeps_unit:
            return units.get(expression.source.metric)
        case Reduction(function=function) if spec_of(function).keeps_unit:
            return unit_of(expression.operand, units)
        case TickSeries(function=function) if spec_of(function).keeps_unit:
            return unit_of(expression.operands[0], units)
        case Filtered() | Negation():
            return unit_of(expression.operand, units)
        case Mapped(function="ABS"):
            return unit_of(expression.operand, units)
        case Arithmetic():
            return _of_operands(expression, units)
        case _:
            return None


def _of_operands(node: Arithmetic, units: Mapping[str, str]) -> str | None:
    left, right = unit_of(node.left, units), unit_of(node.right, units)
    if node.operator not in "+-":
        return None
    if isinstance(node.right, Literal):
        return left
    if isinstance(node.left, Literal):
        return right
    return left if left == right else None
