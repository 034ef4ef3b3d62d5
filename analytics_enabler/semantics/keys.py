"""Which attributes the keys of an expression have, and whether two operands can meet."""

from collections.abc import Collection, Iterator

from analytics_enabler.semantics.findings import Findings
from grammar import ast
from mistbow.plan.expressions import (
    Aggregate,
    Expression,
    Label,
    Reduction,
    children,
    is_condition,
    walk,
)


def keys_of(expression: Expression) -> frozenset[str]:
    """Return the attributes of an expression's keys; where operands differ, those of all."""
    found: set[str] = set()
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Aggregate | Reduction | Label):
            found.update(node.by)
        else:
            waiting += [child for child in children(node) if not is_condition(child)]
    return frozenset(found)


def check_meeting(node: ast.Node, left: Expression, right: Expression, findings: Findings) -> None:
    """Refuse two operands of which neither has all attributes of the other's keys."""
    if not (reads(left) and reads(right)):
        return
    one, other = keys_of(left), keys_of(right)
    if not (one <= other or other <= one):
        findings.error(
            node.span,
            f"a value by {_words(one)} has no single partner among those by {_words(other)}",
            "Let the keys of one side have all attributes of the other's, or reduce one of them.",
        )


def check_filter(
    node: ast.Node, filtered: Expression, condition: Expression, findings: Findings
) -> None:
    """Refuse a condition on results that reads values with further keys than the results have."""
    keys = keys_of(filtered)
    for part in _read(condition):
        if not keys_of(part) <= keys:
            findings.error(
                node.span,
                f"this condition has values by {_words(keys_of(part))}, the results are by "
                f"{_words(keys) or 'nothing'}",
                "Reduce them, as in `WHEN > MAX(AVG(x) BY node)`.",
            )
            return


def _read(expression: Expression) -> Iterator[Expression]:
    """Yield the values that an expression is made of; what one reduces is its own affair."""
    if isinstance(expression, Aggregate | Reduction | Label):
        yield expression
        return
    for child in children(expression):
        yield from _read(child)


def check_by(
    node: ast.Node, value: Expression, by: Collection[str], without: str, findings: Findings
) -> bool:
    """Return whether a value has keys with all attributes of a BY, which ``without`` says it lacks.

    Only what an insight that is referred to has may lack some: that has its own keys.
    """
    lacking = frozenset(by) - keys_of(value)
    if lacking and reads(value):
        findings.error(
            node.span,
            f"{without} by {_words(lacking)}",
            "Leave that out of BY, or let the insight that is referred to have it in its own.",
        )
        return False
    return True


def reads(expression: Expression) -> bool:
    """Return whether an expression reads points at all."""
    return any(isinstance(node, Aggregate) for node in walk(expression))


def _words(keys: frozenset[str]) -> str:
    return ", ".join(sorted(keys))
