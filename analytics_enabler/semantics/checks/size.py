"""The check that the plan of an insight is not too large.

In a plan, each WHEN repeats the value that it restricts, so a short text can have a large plan.
"""

from collections.abc import Iterator

from analytics_enabler.limits import MAX_PLAN_NODES
from analytics_enabler.semantics.bind.bound_tree import (
    BoundInsight,
    BoundInsightReference,
    BoundScope,
    Conditions,
    PointSource,
    Subject,
)
from analytics_enabler.semantics.checks.context import Context
from analytics_enabler.semantics.diagnostics import error
from grammar import Diagnostic, ast
from grammar.trees import children, extent


def check_size(insight: BoundInsight, _context: Context) -> Iterator[Diagnostic]:
    """Yield an error for an insight whose plan has too many nodes."""
    if not any(isinstance(node, Subject) for node in insight.nodes):
        return  # it expands to no more than its text
    value = _size(insight.value, 1)
    whole = value + _size(insight.when, value)
    # A long list is as long in the text: the bound of the text applies to it.
    if whole > MAX_PLAN_NODES and whole > 4 * extent(insight.syntax, whole)[0]:
        yield error(
            insight.head,
            f"`{insight.syntax.name}` has a plan of over {MAX_PLAN_NODES:,} expression nodes: each "
            "WHEN repeats the complete value that it restricts",
            "Nest fewer WHENs, or join their conditions by AND.",
        )


def _size(node: ast.SyntaxNode, subject: int) -> int:
    """Return the number of nodes in the plan of a bound node.

    ``subject``: the number of nodes in the plan of an omitted side of a comparison.
    """
    match node:
        case Subject():
            return subject
        case BoundInsightReference(symbol):
            return symbol.extent[0]
        case BoundScope(value, _, when):
            size = _size(value, subject)
            return size + _size(when, size)
        case PointSource():
            return 1 + sum(_size(child, 1) for child in children(node))
        case Conditions():
            return sum(_size(child, subject) for child in children(node))
        case _:
            return 1 + sum(_size(child, subject) for child in children(node))
