"""Fold constants: replace operations on literals by their values, if the values are finite.

``x + 0`` and ``x * 0`` are not folded: ``x + 0`` changes the sign of a zero, and ``x * 0`` has a
value where ``x`` has none. ``x * 1`` and ``--x`` are not folded if ``x`` is an aggregate that may
have several values or error bounds: only an expression without further operations can have several
values or error bounds, so folding would change the results.
"""

import math

import msgspec

from analytics.plan.expressions import (
    Aggregate,
    And,
    Arithmetic,
    Comparison,
    Expression,
    Filtered,
    Literal,
    Membership,
    Negation,
    Not,
    Or,
    Reduction,
    Source,
    TickSeries,
    rewrite,
)
from analytics.plan.functions import spec_of
from analytics.plan.nodes import Insight, Plan, rewrite_insight
from analytics.plan.scalar_operators import ARITHMETIC, COMPARE
from analytics_enabler.optimizer.content_names import counted


def apply(plan: Plan) -> Plan | None:
    """Return the plan with folded expressions, filters and predicates; None if nothing changes."""
    insights = tuple(_fold_insight(insight) for insight in plan.insights)
    return None if insights == plan.insights else msgspec.structs.replace(plan, insights=insights)


def describe(before: Plan, after: Plan) -> str:
    """Return a phrase with the number of insights that were simplified."""
    pairs = zip(before.insights, after.insights, strict=True)
    changed = sum(insight != folded for insight, folded in pairs)
    return f"{counted(changed, 'insight')} of {len(after.insights)} simplified"


def fold(expression: Expression) -> Expression:
    """Return a simpler expression with the same value at every tick."""
    return rewrite(expression, _fold_node)


def _fold_insight(insight: Insight) -> Insight:
    folded = rewrite_insight(insight, _fold_node)
    always = folded.filter is not None and _is_truth(folded.filter, True)
    return msgspec.structs.replace(folded, filter=None) if always else folded


def _fold_condition(condition: Expression | None) -> Expression | None:
    """Return the folded condition; None if the condition is absent or always true."""
    if condition is None:
        return None
    folded = fold(condition)
    return None if _is_truth(folded, True) else folded


def _fold_node(node: Expression) -> Expression:
    match node:
        case Arithmetic():
            return _fold_arithmetic(node)
        case Negation(Literal(float() as value)):
            return Literal(-value)
        case Not(Not(operand)):
            return operand
        case Negation(Negation(operand)) if not _has_several_values(operand):
            return operand
        case Comparison(comparator, Literal(left), Literal(right)) if type(left) is type(right):
            return Literal(COMPARE[comparator](left, right))
        case Membership(Literal(value), options):
            return Literal(any(type(o) is type(value) and o == value for o in options))
        case And() | Or():
            return _fold_junction(node)
        case Not(Literal(bool() as truth)):
            return Literal(not truth)
        case Aggregate():
            other = None if node.other is None else _fold_source(node.other)
            return msgspec.structs.replace(node, source=_fold_source(node.source), other=other)
        case Filtered(operand, condition) if _is_truth(condition, True):
            return operand
        case _:
            return node


def _fold_source(source: Source) -> Source:
    return msgspec.structs.replace(source, predicate=_fold_condition(source.predicate))


def _fold_arithmetic(node: Arithmetic) -> Expression:
    match node:
        case Arithmetic("/", _, Literal(0.0)):
            return node
        case Arithmetic(sign, Literal(float() as left), Literal(float() as right)):
            value = ARITHMETIC[sign](left, right)
            return Literal(value) if math.isfinite(value) else node
        case Arithmetic("*" | "/", operand, Literal(1.0)) | Arithmetic("*", Literal(1.0), operand):
            return node if _has_several_values(operand) else operand
        case _:
            return node


def _has_several_values(node: Expression) -> bool:
    """Return whether an expression may have several values, or values with error bounds."""
    match node:
        case Aggregate():
            sampled = node.source.sampling is not msgspec.UNSET
            return sampled or spec_of(node.function).several
        case Reduction() | TickSeries():
            return spec_of(node.function).several
        case Filtered():
            return _has_several_values(node.operand)
        case _:
            return False


def _fold_junction(node: And | Or) -> Expression:
    neutral = isinstance(node, And)
    for one, other in ((node.left, node.right), (node.right, node.left)):
        if _is_truth(one, neutral):
            return other
        if _is_truth(one, not neutral):
            return one
    return node


def _is_truth(node: Expression, truth: bool) -> bool:
    # ``is``, because 1.0 == True.
    return isinstance(node, Literal) and node.value is truth
