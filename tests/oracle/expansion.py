"""The expansion of the functions that a text defines, written from ``docs/language.md`` only."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from grammar import Script, ast

_Arguments = Mapping[str, ast.Expression]


def insights_of(script: Script) -> dict[str, ast.InsightStatement]:
    """Return the insights of a text: name -> statement.

    Calls of FUNCTIONs are replaced by the bodies of the definitions.
    """
    functions = {
        each.name: each for each in script.statements if isinstance(each, ast.FunctionDefinition)
    }
    return {
        each.name: _put_in(each, {}, functions)
        for each in script.statements
        if isinstance(each, ast.InsightStatement)
    }


def _put_in(node: Any, given: _Arguments, functions: Mapping[str, ast.FunctionDefinition]) -> Any:
    match node:
        case tuple():
            return tuple(_put_in(part, given, functions) for part in node)
        case ast.Name(name) if name in given:
            return given[name]
        case ast.FunctionCall() if node.function in functions:
            definition = functions[node.function]
            arguments = _put_in(node.arguments, given, functions)
            passed = dict(zip(definition.parameters, arguments, strict=True))
            return _put_in(definition.body, passed, functions)
        case ast.ListMembership(called=ast.FunctionCall(function)) if function in functions:
            listed = functions[function].body
            assert isinstance(listed, ast.ValueList), listed
            operand = _put_in(node.operand, given, functions)
            return replace(node, operand=operand, members=listed.values, called=None)
        case ast.MetricStream():
            members = tuple(_name(member, given) for member in node.members)
            when = _put_in(node.when, given, functions)
            return _metric(node.metric, given, members, when)
        case ast.Scoped():
            by = tuple(_name(name, given) for name in node.by)
            return replace(
                node,
                by=by,
                expression=_put_in(node.expression, given, functions),
                when=_put_in(node.when, given, functions),
            )
        case ast.SyntaxNode():
            parts = {
                each.name: _put_in(getattr(node, each.name), given, functions)
                for each in fields(node)
                if each.name != "span"
            }
            return replace(node, **parts)
        case _:
            return node


def _name(name: str, given: _Arguments) -> str:
    argument = given.get(name)
    return argument.name if isinstance(argument, ast.Name) else name


def _metric(
    metric: str, given: _Arguments, members: tuple[str, ...], when: ast.Condition | None
) -> ast.MetricStream:
    argument = given.get(metric, ast.Name(metric))
    if isinstance(argument, ast.Name):
        return ast.MetricStream(argument.name, members, when)
    assert isinstance(argument, ast.MetricStream), argument
    conditions = tuple(each for each in (argument.when, when) if each is not None)
    both = ast.AndCondition(conditions) if len(conditions) == 2 else next(iter(conditions), None)
    return ast.MetricStream(argument.metric, argument.members or members, both)


def _may_be_text(other: ast.Expression) -> bool:
    """Return whether a bare name beside ``other`` can be a text."""
    return isinstance(other, ast.Name | ast.Elided)


def with_texts(node: Any, names: frozenset[str], metric: str | None = None) -> Any:
    """Return a syntax tree in which bare names that mean texts are texts.

    ``names``: the names of metrics and attributes; in a comparison with a name, or with the value
    of a point, every other name is a text. ``metric``: the metric whose WHEN contains the node; the
    text of a point is its label with the name of the metric.
    """
    match node:
        case tuple():
            return tuple(with_texts(part, names, metric) for part in node)
        case ast.Compare("==" | "!=", left, right):
            if isinstance(right, ast.Name) and right.name not in names:
                right = ast.Text(right.name)
            elif isinstance(left, ast.Name) and left.name not in names and _may_be_text(right):
                left = ast.Text(left.name)
            if metric is not None and isinstance(left, ast.Elided) and isinstance(right, ast.Text):
                left = ast.Name(metric)
            return replace(node, left=left, right=right)
        case ast.ListMembership(ast.Elided(), (ast.Text(), *_)) if metric is not None:
            return replace(node, operand=ast.Name(metric))
        case ast.MetricStream(inner, _, when):
            return replace(node, when=with_texts(when, names, inner))
        case ast.SyntaxNode():
            parts = {
                each.name: with_texts(getattr(node, each.name), names, metric)
                for each in fields(node)
                if each.name != "span"
            }
            return replace(node, **parts)
        case _:
            return node
