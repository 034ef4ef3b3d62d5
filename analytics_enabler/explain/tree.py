"""Conversion of syntax trees to JSON and to text."""

from dataclasses import fields
from typing import Any

from grammar import ast
from grammar.units import in_words

_NAMES: dict[type[ast.SyntaxNode], str] = {
    ast.AdamOption: "Adam",
    ast.AndCondition: "And",
    ast.CostCapOption: "CostCap",
    ast.FunctionCall: "Call",
    ast.InsightStatement: "Insight",
    ast.ListMembership: "Membership",
    ast.NotCondition: "Not",
    ast.OrCondition: "Or",
    ast.PointCount: "Points",
    ast.SampleOption: "Sample",
    ast.SchedulerOption: "Scheduler",
}
"""The names of nodes in JSON; other nodes have the names of their classes."""


def tree_of(node: ast.SyntaxNode) -> dict[str, Any]:
    """Return a syntax node as a JSON object: its name and its non-empty fields."""
    values = {f.name: _json(getattr(node, f.name)) for f in fields(node) if f.name != "span"}
    filled = {name: value for name, value in values.items() if value not in (None, [])}
    return {"node": _NAMES.get(type(node), type(node).__name__), **filled}


def _json(value: Any) -> Any:
    match value:
        case ast.Interval(millis):
            return in_words(millis)
        case ast.SyntaxNode():
            return tree_of(value)
        case tuple():
            return [_json(item) for item in value]
        case _:
            return value


def tree_lines(tree: dict[str, Any], *, label: str = "", depth: int = 0) -> list[str]:
    """Return the lines of a tree: one for each node, with child nodes indented below their parent.

    ``tree``: a result of ``tree_of``. ``label``: the text before the name of the root node.
    """
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
