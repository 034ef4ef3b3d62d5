"""Functions that walk syntax trees, measure them, and replace their children."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from grammar import ast

N = TypeVar("N", bound=ast.SyntaxNode)


def children(node: ast.SyntaxNode) -> list[ast.SyntaxNode]:
    """Return the child nodes of a node, from left to right."""
    found: list[ast.SyntaxNode] = []
    for name in _fields(node):
        value = getattr(node, name)
        if isinstance(value, ast.SyntaxNode):
            found.append(value)
        elif isinstance(value, tuple):
            found += [each for each in value if isinstance(each, ast.SyntaxNode)]
    return found


def walk(node: ast.SyntaxNode) -> Iterator[ast.SyntaxNode]:
    """Yield a node and its descendants, parents first, from left to right."""
    waiting = [node]
    while waiting:
        yield (last := waiting.pop())
        if below := children(last):
            below.reverse()
            waiting += below


def references(node: ast.SyntaxNode) -> Iterator[ast.InsightReference]:
    """Yield the references to insights in a tree, from left to right."""
    return (each for each in walk(node) if isinstance(each, ast.InsightReference))


def map_children(node: N, change: Callable[[ast.SyntaxNode], ast.SyntaxNode]) -> N:
    """Return a node with ``change`` applied to each of its children.

    Return the node itself if no child changes.
    """
    changes: dict[str, Any] = {}
    for name in _fields(node):
        old = getattr(node, name)
        if isinstance(old, ast.SyntaxNode):
            new: Any = change(old)
            same = new is old
        elif isinstance(old, tuple):
            new = tuple(change(each) if isinstance(each, ast.SyntaxNode) else each for each in old)
            same = all(one is other for one, other in zip(old, new, strict=True))
        else:
            continue
        if not same:
            changes[name] = new
    return replace(node, **changes) if changes else node


def extent(node: ast.SyntaxNode, limit: int) -> tuple[int, int]:
    """Return (number of nodes, number of levels) of a tree; stop above ``limit`` nodes.

    A node that occurs in several places is counted at each of these places.
    """
    waiting, count, depth = [(node, 1)], 0, 0
    while waiting and count <= limit:
        last, level = waiting.pop()
        count, depth = count + 1, max(depth, level)
        waiting.extend((part, level + 1) for part in children(last))
    return count, depth


def terms(condition: ast.Condition | None) -> tuple[ast.Condition, ...]:
    """Return the terms that a condition joins by AND; () for None.

    A condition without AND is a single term.
    """
    match condition:
        case None:
            return ()
        case ast.AndCondition(terms):
            return terms
        case _:
            return (condition,)


def all_of(conditions: Iterable[ast.Condition]) -> ast.Condition:
    """Return the conjunction of one or more conditions; a single condition stays unchanged."""
    terms = tuple(_terms(ast.AndCondition, conditions))
    return terms[0] if len(terms) == 1 else ast.AndCondition(terms, span=terms[0].span)


def any_of(conditions: Iterable[ast.Condition]) -> ast.Condition:
    """Return the disjunction of one or more conditions; a single condition stays unchanged."""
    terms = tuple(_terms(ast.OrCondition, conditions))
    return terms[0] if len(terms) == 1 else ast.OrCondition(terms, span=terms[0].span)


def _terms(
    join: type[ast.AndCondition | ast.OrCondition], conditions: Iterable[ast.Condition]
) -> Iterator[ast.Condition]:
    # The grammar has no And directly in an And, nor an Or in an Or.
    for each in conditions:
        yield from each.terms if isinstance(each, join) else (each,)


def _fields(node: ast.SyntaxNode) -> tuple[str, ...]:
    # All fields except the span, which is a keyword-only argument.
    names: tuple[str, ...] = node.__match_args__
    return names
