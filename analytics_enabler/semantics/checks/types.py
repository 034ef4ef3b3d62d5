"""Checks of types: numbers, texts and booleans."""

from collections.abc import Iterator

from analytics.plan.scalar_operators import ARITHMETIC
from analytics_enabler.semantics.bind.bound_tree import (
    AttributeRead,
    BoundArithmetic,
    BoundComparison,
    BoundInsight,
    BoundMembership,
    BoundNegation,
    BoundReduction,
    BoundTickSeries,
    BoundValue,
    Constant,
    ScalarCall,
    Type,
)
from analytics_enabler.semantics.checks.context import Context
from analytics_enabler.semantics.diagnostics import error, warning
from grammar import Diagnostic, ast


def check_types(insight: BoundInsight, _context: Context) -> Iterator[Diagnostic]:
    """Yield errors for operands of wrong types, and a warning for each division by zero."""
    for node in insight.nodes:
        match node:
            case BoundNegation(operand):
                yield from _check_number(operand)
            case BoundArithmetic():
                yield from _check_number(node.left)
                yield from _check_number(node.right)
                yield from _check_divisor(node)
            case ScalarCall("GEOHASH", (_,)):  # a position is a text
                pass
            case (
                ScalarCall(_, operands) | BoundReduction(_, operands) | BoundTickSeries(_, operands)
            ):
                for operand in operands:
                    yield from _check_number(operand)
            case BoundComparison():
                yield from _check_comparison(node)
            case BoundMembership():
                yield from _check_membership(node)


def _check_number(operand: BoundValue) -> Iterator[Diagnostic]:
    kind = "an attribute" if isinstance(operand, AttributeRead) else operand.type
    if kind not in (None, "a number"):
        yield error(operand.span, f"{kind} cannot be part of a calculation", "Use a number.")


def _check_divisor(node: BoundArithmetic) -> Iterator[Diagnostic]:
    if node.operator == "/" and _constant(node.right) == 0:
        yield warning(
            node.right.span,
            "a division by zero has no value: there will be no result",
            "Divide by something else.",
        )


def _constant(node: BoundValue) -> float | None:
    """Return the number that an expression of literal numbers yields; None for other expressions.

    Also return None for a division by zero.
    """
    match node:
        case Constant(float() | int() as value):
            return None if isinstance(value, bool) else value
        case BoundNegation(operand):
            negated = _constant(operand)
            return None if negated is None else -negated
        case BoundArithmetic(operator, left, right):
            one, other = _constant(left), _constant(right)
            if one is None or other is None or (operator == "/" and other == 0):
                return None
            return ARITHMETIC[operator](one, other)
        case _:
            return None


def _check_comparison(node: BoundComparison) -> Iterator[Diagnostic]:
    left, right = node.left.type, node.right.type
    if left is not None and right is not None and left != right:
        yield error(
            node.span,
            f"{left} is compared with {right}",
            "Compare a number with a number, and a text with a text or an attribute.",
        )
    elif node.operator not in ("==", "!=") and {left, right} & {"a text", "a boolean"}:
        unordered = left if left in ("a text", "a boolean") else right
        yield error(
            node.span,
            f"{node.operator} cannot compare {unordered}, which has no order",
            "Use ==, != or IN.",
        )


def _check_membership(node: BoundMembership) -> Iterator[Diagnostic]:
    kind = node.operand.type
    for member in node.members:
        if kind is not None and member_type(member) != kind:
            yield error(
                member.span,
                f"{kind} is never {member_type(member)}",
                f"List values that are each {kind}.",
            )


def member_type(member: ast.Value) -> Type:
    """Return the type of a value in the list of an IN condition."""
    match member:
        case ast.Boolean():
            return "a boolean"
        case ast.Text():
            return "a text"
        case ast.Number():
            return "a number"
