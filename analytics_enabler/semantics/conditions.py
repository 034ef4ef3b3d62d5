"""Translation of expressions and conditions; what their leaves mean, a scope says."""

from analytics_enabler.optimizer.rules.fold_constants import fold
from analytics_enabler.semantics.findings import Findings
from analytics_enabler.semantics.keys import check_meeting
from analytics_enabler.semantics.scopes import STAND_IN, Scope
from grammar import ast
from mistbow.plan.expressions import (
    And,
    Arithmetic,
    Comparison,
    Expression,
    Literal,
    Membership,
    Negation,
    Not,
    Or,
    is_text,
    joined,
)


def translate_value(node: ast.Expression, scope: Scope, findings: Findings) -> Expression:
    """Return what an expression means."""
    match node:
        case ast.Number(value) | ast.Text(value) | ast.Boolean(value):
            return Literal(value)
        case ast.Negate(operand):
            negated = translate_value(operand, scope, findings)
            check_number(operand, negated, scope, findings)
            return Negation(negated)
        case ast.Binary():
            return _translate_arithmetic(node, scope, findings)
        case _:
            return scope.meaning(node)


def translate_condition(node: ast.Condition, scope: Scope, findings: Findings) -> Expression:
    """Return what a condition means."""
    match node:
        case ast.Compare():
            left = translate_value(node.left, scope, findings)
            right = translate_value(node.right, scope, findings)
            _check_comparison(node, _kind(node.left, left), _kind(node.right, right), findings)
            return Comparison(node.operator, left, right)
        case ast.Membership():
            return _translate_membership(node, scope, findings)
        case ast.And(terms):
            return conjunction([translate_condition(term, scope, findings) for term in terms])
        case ast.Or(terms):
            return joined(Or, [translate_condition(term, scope, findings) for term in terms])
        case ast.Not(operand):
            return Not(translate_condition(operand, scope, findings))


def conjunction(terms: list[Expression]) -> Expression:
    """Return that all of one or more conditions hold."""
    return joined(And, terms)


def _translate_arithmetic(node: ast.Binary, scope: Scope, findings: Findings) -> Expression:
    left = translate_value(node.left, scope, findings)
    right = translate_value(node.right, scope, findings)
    for operand, meaning in ((node.left, left), (node.right, right)):
        check_number(operand, meaning, scope, findings)
    if node.operator == "/" and right is not STAND_IN and fold(right) == Literal(0.0):
        findings.warning(
            node.right.span,
            "a division by zero has no value: there will be no result",
            "Divide by something else.",
        )
    check_meeting(node, left, right, findings)
    return Arithmetic(node.operator, left, right)


def _translate_membership(node: ast.Membership, scope: Scope, findings: Findings) -> Expression:
    operand = translate_value(node.operand, scope, findings)
    kind = _kind(node.operand, operand)
    members = [(member, Literal(member.value)) for member in node.members]
    for member, literal in members:
        if kind is not None and _kind(member, literal) != kind:
            findings.error(
                member.span,
                f"{kind} is never {_kind(member, literal)}",
                f"List values that are each {kind}.",
            )
    if not node.negated:
        return Membership(operand, tuple(member.value for member in node.members))
    # Like any comparison, this one does not hold for what is missing or of another type.
    by_kind: dict[str | None, list[Expression]] = {}
    for member, literal in members:
        by_kind.setdefault(_kind(member, literal), []).append(Comparison("!=", operand, literal))
    return joined(Or, [conjunction(others) for others in by_kind.values()])


def check_number(
    node: ast.Expression, meaning: Expression, scope: Scope, findings: Findings
) -> None:
    """Refuse what cannot be calculated with."""
    kind = _kind(node, meaning) or ("a number" if scope.names_metrics else "an attribute")
    if kind != "a number":
        findings.error(node.span, f"{kind} cannot be calculated with", "Use a number.")


def _check_comparison(
    node: ast.Compare, left: str | None, right: str | None, findings: Findings
) -> None:
    if left is not None and right is not None and left != right:
        findings.error(
            node.span,
            f"{left} is compared with {right}",
            "Compare a number with a number, a text with an attribute that is a text.",
        )
    elif node.operator not in ("==", "!=") and {left, right} & {"a text", "a truth value"}:
        ordered = left if left in ("a text", "a truth value") else right
        findings.error(
            node.span,
            f"{ordered} has no order: {node.operator} cannot be used with it",
            "Use ==, != or IN.",
        )


def _kind(node: ast.Expression, meaning: Expression) -> str | None:
    """Return what an expression yields; an attribute may be anything."""
    match node:
        case ast.Name():
            return None
        case ast.Boolean():
            return "a truth value"
        case _:
            return "a text" if is_text(meaning) else "a number"
