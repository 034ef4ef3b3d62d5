"""Calculate at once what does not depend on any point; only what is exact in floating point.

``x + 0`` and ``x * 0`` stay: the first changes the sign of a zero, the second makes a value
where ``x`` has none. So do ``x * 1`` and ``--x`` where ``x`` may have several values or bounds:
these are of what stands by itself.
"""

import math

import msgspec

from analytics_enabler.optimizer.naming import these
from mistbow.panes.predicates import ARITHMETIC, COMPARE
from mistbow.plan.expressions import (
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
    rewrite,
)
from mistbow.plan.nodes import Insight, Plan, rewritten

_OF_SEVERAL_VALUES = frozenset({"TOP_K", "HISTOGRAM", "OUTLIER_DETECTION"})


def apply(plan: Plan) -> Plan | None:
    """Fold every insight's expression, filter and point predicates."""
    insights = tuple(_fold_insight(insight) for insight in plan.insights)
    return None if insights == plan.insights else msgspec.structs.replace(plan, insights=insights)


def did(before: Plan, after: Plan) -> str:
    """Say what the rule did."""
    pairs = zip(before.insights, after.insights, strict=True)
    changed = sum(insight != folded for insight, folded in pairs)
    return f"{these(changed, 'insight')} of {len(after.insights)} with less to calculate"


def fold(expression: Expression) -> Expression:
    """Return an expression of the same value at every tick, with less to calculate."""
    return rewrite(expression, _fold_node)


def _fold_insight(insight: Insight) -> Insight:
    folded = rewritten(insight, _fold_node)
    always = folded.filter is not None and _is_truth(folded.filter, True)
    return msgspec.structs.replace(folded, filter=None) if always else folded


def _fold_condition(condition: Expression | None) -> Expression | None:
    """Fold a condition; one that always holds is none."""
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
        case Negation(Negation(operand)) if not _tells_more(operand):
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
            return node if _tells_more(operand) else operand
        case _:
            return node


def _tells_more(node: Expression) -> bool:
    """Return whether an expression by itself has several values, or bounds."""
    match node:
        case Aggregate():
            sampled = node.source.sampling is not msgspec.UNSET
            return sampled or node.function in _OF_SEVERAL_VALUES
        case Reduction():
            return node.function in _OF_SEVERAL_VALUES
        case Filtered():
            return _tells_more(node.operand)
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
    # ``is``, for 1.0 == True.
    return isinstance(node, Literal) and node.value is truth
