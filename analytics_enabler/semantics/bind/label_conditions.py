"""The types of attributes at latest points in conditions on results.

An attribute can have values of any type, but the values of an expression have one type. So a
comparison that several types can satisfy becomes one comparison for each type.
"""

from collections.abc import Iterable
from dataclasses import replace

from analytics_enabler.semantics.bind.bound_tree import (
    AttributeRead,
    BoundComparison,
    BoundCondition,
    BoundDerivation,
    BoundMembership,
    BoundValue,
    BoundWithin,
    Complement,
    Conjunction,
    Constant,
    Disjunction,
    LabelRead,
    Type,
)
from grammar import ast

_DERIVED: tuple[Type, ...] = ("a number", "a text")
"""The types of the values that operators derive, and of the attributes of keys."""


def with_types(condition: BoundCondition) -> BoundCondition:
    """Return a condition in which each attribute at a latest point has the type it is compared
    with.
    """
    match condition:
        case BoundComparison():
            return _comparison(condition)
        case BoundMembership(LabelRead() as label):
            return _membership(condition, label)
        case BoundWithin(LabelRead() as label):
            return _any_of(
                condition,
                [replace(condition, operand=_typed(label, kind)) for kind in _DERIVED],
            )
        case Conjunction(terms) | Disjunction(terms):
            return replace(condition, terms=tuple(map(with_types, terms)))
        case Complement(operand):
            return replace(condition, operand=with_types(operand))
        case _:
            return condition


def _comparison(node: BoundComparison) -> BoundCondition:
    labels = [each for each in (node.left, node.right) if isinstance(each, LabelRead)]
    if not labels:
        return node
    kinds: tuple[Type, ...] = ("a number",)
    others = [each for each in (node.left, node.right) if not isinstance(each, LabelRead)]
    match others:
        case [AttributeRead() | BoundDerivation()] if node.operator in ("==", "!="):
            kinds = _DERIVED
        case [] if node.operator in ("==", "!="):
            kinds = ("a number", "a text", "a boolean")
        case [BoundValue(properties=properties)] if properties.type is not None:
            kinds = (properties.type,)
    return _any_of(
        node,
        [
            replace(node, left=_typed(node.left, kind), right=_typed(node.right, kind))
            for kind in kinds
        ],
    )


def _membership(node: BoundMembership, label: LabelRead) -> BoundCondition:
    by_kind: dict[Type, list[ast.Value]] = {}
    for member in node.members:
        match member:
            case ast.Boolean(truth):
                kind: Type = "a boolean"
                member = ast.Text(_text_of(truth), span=member.span)
            case _:
                kind = "a text" if isinstance(member, ast.Text) else "a number"
        by_kind.setdefault(kind, []).append(member)
    return _any_of(
        node,
        [
            replace(node, operand=_typed(label, kind), members=tuple(members))
            for kind, members in by_kind.items()
        ],
    )


def _any_of(node: ast.SyntaxNode, terms: Iterable[BoundCondition]) -> BoundCondition:
    """Return the condition that one of the terms is true, or the only term."""
    first, *others = terms
    return Disjunction((first, *others), span=node.span) if others else first


def _typed(node: BoundValue, kind: Type) -> BoundValue:
    """Return one side of a comparison of values of a type; a boolean is compared as a text."""
    match node:
        case LabelRead():
            written: Type = "a number" if kind == "a number" else "a text"
            return replace(node, kind=kind, properties=replace(node.properties, type=written))
        case Constant(bool() as truth):
            properties = replace(node.properties, type="a text")
            return Constant(_text_of(truth), span=node.span, properties=properties)
        case _:
            return node


def _text_of(truth: bool) -> str:
    return str(truth).lower()
