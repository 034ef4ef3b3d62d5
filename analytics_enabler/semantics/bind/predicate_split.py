"""The split of a WHEN into conditions on points and conditions on results."""

from collections.abc import Collection, Iterable, Iterator

from analytics_enabler.semantics.bind.bound_tree import (
    AttributeRead,
    BoundArithmetic,
    BoundComparison,
    BoundCondition,
    BoundDerivation,
    BoundMembership,
    BoundNegation,
    BoundValue,
    BoundWithin,
    Complement,
    Conditions,
    Conjunction,
    Constant,
    Disjunction,
    Subject,
)
from analytics_enabler.semantics.diagnostics import Diagnostics


def split(
    terms: Iterable[BoundCondition], keys: Collection[str], diagnostics: Diagnostics
) -> Conditions:
    """Split the terms of a WHEN into conditions on points and conditions on results.

    ``keys``: the attributes that form the keys of results; other attributes belong to points. A
    term that combines attributes of points with results is an error.
    """
    on_points: list[BoundCondition] = []
    on_results: list[BoundCondition] = []
    for term in terms:
        leaves = list(_leaves(term))
        of_points = [
            leaf for leaf in leaves if isinstance(leaf, AttributeRead) and leaf.name not in keys
        ]
        if not of_points:
            on_results.append(term)
        elif len(of_points) == len(leaves):
            on_points.append(term)
        else:
            name = of_points[0].written
            hint = (
                f"Add `{name}` to BY, or write two conditions joined by AND. "
                f"If `{name}` is a metric, write an aggregate: `AVG({name})`."
            )
            match term:
                case BoundComparison("==" | "!=" as operator, Subject()):
                    hint = (
                        "If the text is meant, write the condition inside a function: "
                        f"`COUNT(x WHEN {operator} {name})`."
                    )
            diagnostics.error(
                of_points[0].span,
                f"`{name}` is an attribute of points; the rest of this condition is about results",
                hint,
            )
    return Conditions(tuple(on_points), tuple(on_results))


def _leaves(node: BoundCondition | BoundValue) -> Iterator[BoundValue]:
    """Yield the innermost operands in a condition, from left to right, without constants."""
    match node:
        case Constant():
            return
        case BoundArithmetic() | BoundComparison():
            yield from _leaves(node.left)
            yield from _leaves(node.right)
        case BoundWithin():
            yield from _leaves(node.operand)
            yield from _leaves(node.options)
        case BoundDerivation(_, operands):
            for operand in operands:
                yield from _leaves(operand)
        case BoundNegation() | Complement() | BoundMembership():
            yield from _leaves(node.operand)
        case Conjunction(terms) | Disjunction(terms):
            for term in terms:
                yield from _leaves(term)
        case _:
            yield node
