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
