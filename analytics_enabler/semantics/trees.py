"""Syntax trees, whatever their nodes: what they are made of, and the same with other parts."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from grammar import ast

N = TypeVar("N", bound=ast.Node)


def parts(node: ast.Node) -> list[ast.Node]:
    """Return the nodes directly below ``node``, from left to right."""
    found: list[ast.Node] = []
    for name in _fields(node):
        value = getattr(node, name)
        if isinstance(value, ast.Node):
            found.append(value)
        elif isinstance(value, tuple):
            found += [each for each in value if isinstance(each, ast.Node)]
    return found


def walk(node: ast.Node) -> Iterator[ast.Node]:
    """Yield a node and all below it, parents first, from left to right."""
    waiting = [node]
    while waiting:
        yield (last := waiting.pop())
        waiting.extend(reversed(parts(last)))


def references(node: ast.Node) -> Iterator[ast.InsightReference]:
    """Yield the references to insights in a tree, from left to right."""
    return (each for each in walk(node) if isinstance(each, ast.InsightReference))


def rebuilt(node: N, change: Callable[[ast.Node], ast.Node]) -> N:
    """Return ``node`` with ``change`` applied to those directly below it."""
    changes: dict[str, Any] = {}
    for name in _fields(node):
        old = getattr(node, name)
        if isinstance(old, ast.Node):
            new: Any = change(old)
            same = new is old
        elif isinstance(old, tuple):
            new = tuple(change(each) if isinstance(each, ast.Node) else each for each in old)
            same = all(one is other for one, other in zip(old, new, strict=True))
        else:
            continue
        if not same:
            changes[name] = new
    return replace(node, **changes) if changes else node


def extent(node: ast.Node, most: int) -> tuple[int, int]:
    """Return how many nodes a tree has, and how many levels; it is given up over ``most`` nodes.

    A node in several places counts in each of them.
    """
    waiting, count, depth = [(node, 1)], 0, 0
    while waiting and count <= most:
        last, level = waiting.pop()
        count, depth = count + 1, max(depth, level)
        waiting.extend((part, level + 1) for part in parts(last))
    return count, depth


def all_of(conditions: Iterable[ast.Condition]) -> ast.Condition:
    """Return that all of one or more conditions hold."""
    terms = tuple(_terms(ast.And, conditions))
    return terms[0] if len(terms) == 1 else ast.And(terms, span=terms[0].span)


def any_of(conditions: Iterable[ast.Condition]) -> ast.Condition:
    """Return that at least one of one or more conditions holds."""
    terms = tuple(_terms(ast.Or, conditions))
    return terms[0] if len(terms) == 1 else ast.Or(terms, span=terms[0].span)


def _terms(
    join: type[ast.And | ast.Or], conditions: Iterable[ast.Condition]
) -> Iterator[ast.Condition]:
    # No And is directly in an And, nor an Or in an Or.
    for each in conditions:
        yield from each.terms if isinstance(each, join) else (each,)


def _fields(node: ast.Node) -> tuple[str, ...]:
    # All but the span, which is given by keyword only.
    names: tuple[str, ...] = node.__match_args__
    return names
