"""Hypothesis strategies of plans, and an evaluator of their expressions."""

import operator
from collections.abc import Callable, Mapping
from typing import Any, get_args

from hypothesis import strategies as st

from analytics.plan.expressions import (
    Aggregate,
    And,
    Arithmetic,
    Attribute,
    Comparison,
    Expression,
    Literal,
    Membership,
    Negation,
    Not,
    Or,
    Source,
    Value,
)
from analytics.plan.functions import ACCUMULATED, Function
from analytics.plan.nodes import Insight, Plan

_numbers = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, 0.1, 3.5, 1e308, 5e-324])
_sizes = st.sampled_from([100, 101, 500, 1000, 1500, 10_000, 60_000])


def _conditions(values: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    comparisons = st.builds(
        Comparison, st.sampled_from(["==", "!=", ">", ">=", "<", "<="]), values, values
    )
    memberships = st.builds(Membership, values, st.lists(_numbers, max_size=3).map(tuple))
    truths = st.booleans().map(Literal)
    return st.recursive(
        comparisons | memberships | truths,
        lambda inner: st.builds(And, inner, inner) | st.builds(Or, inner, inner) | inner.map(Not),
        max_leaves=5,
    )


def _values(leaves: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return st.recursive(
        leaves | _numbers.map(Literal),
        lambda inner: (
            st.builds(Arithmetic, st.sampled_from("+-*/"), inner, inner) | inner.map(Negation)
        ),
        max_leaves=6,
    )


_point_values = st.one_of(st.just(Value()), st.sampled_from(["rack", "site"]).map(Attribute))
sources = st.builds(
    Source,
    st.sampled_from(["cpu", "mem"]),
    st.sampled_from([(), ("a",)]),
    st.none() | _conditions(_values(_point_values)),
)
aggregates = st.builds(
    Aggregate,
    st.sampled_from(sorted(set(get_args(Function)) - ACCUMULATED)),
    sources,
    _sizes,
    _sizes,
    st.sampled_from([(), ("node",)]),
)
expressions = _values(aggregates)
conditions = _conditions(_values(aggregates))
point_conditions = _conditions(_values(_point_values))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Draw a plan before optimization."""
    count = draw(st.integers(1, 4))
    return Plan(
        insights=tuple(
            Insight(
                uid=f"d/{number}/1",
                expression=draw(expressions),
                by=draw(st.sampled_from([(), ("node",)])),
                every_ms=draw(_sizes),
                since=0,
                filter=draw(st.none() | conditions),
            )
            for number in range(count)
        )
    )


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


def is_leaf(node: Expression) -> bool:
    """Return whether a node is a leaf for ``evaluate``, which takes its value from ``given``."""
    inner = (Literal, Arithmetic, Negation, Comparison, Membership, And, Or, Not)
    return not isinstance(node, inner)


def evaluate(node: Expression, given: Mapping[str, float]) -> Any:
    """Return the value of an expression, as ``analytics.plan.expressions`` defines it.

    None: the value is missing. ``given``: ``repr`` of a leaf -> the value of the leaf.
    """
    match node:
        case Literal(value):
            return value
        case Arithmetic(sign, left, right):
            a, b = evaluate(left, given), evaluate(right, given)
            if a is None or b is None or (sign == "/" and b == 0):
                return None
            return _OPERATORS[sign](a, b)
        case Negation(operand):
            value = evaluate(operand, given)
            return None if value is None else -value
        case Comparison(comparator, left, right):
            a, b = evaluate(left, given), evaluate(right, given)
            return type(a) is type(b) and a is not None and _OPERATORS[comparator](a, b)
        case Membership(operand, options):
            return evaluate(operand, given) in options
        case And(left, right):
            return evaluate(left, given) and evaluate(right, given)
        case Or(left, right):
            return evaluate(left, given) or evaluate(right, given)
        case Not(operand):
            return not evaluate(operand, given)
        case _:
            return given.get(repr(node))
