"""Syntax trees as JSON."""

from dataclasses import fields
from typing import Any

from grammar import ast
from grammar.units import in_words


def tree_of(node: ast.Node) -> dict[str, Any]:
    """Return a node as a JSON object: its kind and its fields, without those that are empty."""
    values = {f.name: _json(getattr(node, f.name)) for f in fields(node) if f.name != "span"}
    kept = {name: value for name, value in values.items() if value not in (None, [])}
    return {"node": type(node).__name__, **kept}


def _json(value: Any) -> Any:
    match value:
        case ast.Interval(millis):
            return in_words(millis)
        case ast.Node():
            return tree_of(value)
        case tuple():
            return [_json(item) for item in value]
        case _:
            return value


def tree_lines(tree: dict[str, Any], *, label: str = "", depth: int = 0) -> list[str]:
    """Return a tree for reading: a node a line, its parts indented below it."""
    line = f"{'  ' * depth}{label}{tree['node']}"
    below: list[str] = []
    for name, value in tree.items():
        parts = value if isinstance(value, list) else [value]
        if all(isinstance(part, dict) for part in parts):
            for part in parts:
                below += tree_lines(part, label=f"{name}: ", depth=depth + 1)
        elif name != "node":
            line += f" {name}={', '.join(str(part) for part in parts)}"
    return [line, *below]
