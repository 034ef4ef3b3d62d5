"""Collection and checks of FUNCTION definitions."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from analytics.plan.functions import BUILT_IN
from analytics_enabler.limits import MAX_PARAMETERS
from analytics_enabler.semantics.dependency_order import dependency_order
from analytics_enabler.semantics.diagnostics import (
    Diagnostics,
    Suggestions,
    did_you_mean,
    error,
    head,
    warning,
)
from grammar import Diagnostic, Script, Span, ast
from grammar.functions import ALIASES, OPERATORS, SCALAR
from grammar.trees import children, walk

_RESERVED = BUILT_IN | ALIASES.keys() | OPERATORS.keys()


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions that a text defines: name -> definition.

    ``sound``: the names of functions whose calls can be expanded. A sound function has no errors
    and calls only sound functions of the text.
    """

    definitions: Mapping[str, ast.FunctionDefinition]
    sound: frozenset[str]


def functions_of(
    script: Script,
    diagnostics: Diagnostics,
    suggestions: Suggestions,
    broken: frozenset[str] = frozenset(),
) -> Functions:
    """Return the functions that a script defines; report errors in their definitions.

    ``broken``: the names that may be defined by statements with syntax errors; calls of these names
    cannot be expanded.
    """
    definitions: dict[str, ast.FunctionDefinition] = {}
    faulty: set[str] = set()
    for each in script.statements:
        if not isinstance(each, ast.FunctionDefinition):
            continue
        if each.name in definitions:
            hint = "Give each function of a submission a name of its own."
            diagnostics.error(_head(each), f"there are two functions `{each.name}`", hint)
        definitions.setdefault(each.name, each)
        errors = list(_check_definition(each))
        if errors:
            faulty.add(each.name)
        diagnostics.extend(errors)
        diagnostics.extend(_check_likely_parameters(each, suggestions))
    for name in {name.upper() for name in broken} - definitions.keys() - _RESERVED:
        definitions[name] = ast.FunctionDefinition(name, (), ast.Number(0))
        faulty.add(name)
    uses = {name: _called(each.body, definitions) for name, each in definitions.items()}
    order, cycles = dependency_order(uses)
    for cycle in cycles:
        path = " → ".join(cycle)
        hint = "Remove one of these calls: each call is replaced by the function's body."
        diagnostics.error(_head(definitions[cycle[0]]), f"`{cycle[0]}` calls itself: {path}", hint)
    diagnostics.extend(_check_unused(script, definitions))
    return Functions(definitions, _sound(order, uses, faulty))


def _sound(order: list[str], uses: Mapping[str, list[str]], faulty: set[str]) -> frozenset[str]:
    sound: set[str] = set()
    for name in order:
        if name not in faulty and sound.issuperset(uses[name]):
            sound.add(name)
    return frozenset(sound)


def _called(node: ast.SyntaxNode, definitions: Mapping[str, ast.FunctionDefinition]) -> list[str]:
    names = (each.function for each in walk(node) if isinstance(each, ast.FunctionCall))
    return [name for name in dict.fromkeys(names) if name in definitions]


def _check_unused(
    script: Script, definitions: Mapping[str, ast.FunctionDefinition]
) -> Iterator[Diagnostic]:
    if not definitions:
        return
    called = {name for each in script.statements for name in _called(each, definitions)}
    for name, definition in definitions.items():
        if name not in called:
            hint = "Call the function, or remove it."
            yield warning(_head(definition), f"nothing calls the function `{name}`", hint)


def _check_definition(definition: ast.FunctionDefinition) -> Iterator[Diagnostic]:
    name, parameters = definition.name, definition.parameters
    if name in _RESERVED:
        message = f"there is a function `{name}` already"
        yield error(_head(definition), message, "Choose another name.")
    if len(parameters) > MAX_PARAMETERS:
        message = f"`{name}` has {len(parameters):,} parameters"
        yield error(_head(definition), message, f"Use at most {MAX_PARAMETERS} parameters.")
    for parameter, count in Counter(parameters).items():
        if count > 1:
            message = f"`{name}` has two parameters `{parameter}`"
            yield error(_head(definition), message, "Give each parameter a name of its own.")


def _check_likely_parameters(
    definition: ast.FunctionDefinition, suggestions: Suggestions
) -> Iterator[Diagnostic]:
    parameters = frozenset(definition.parameters)
    for value in _value_names(definition.body):
        near = [] if value.name in parameters else suggestions.nearest(value.name, parameters)
        if near:
            message = (
                f"`{value.name}` is a metric, because `{definition.name}` has no such parameter"
            )
            yield warning(value.span, message, did_you_mean(near))


def _value_names(node: ast.SyntaxNode) -> Iterator[ast.Name]:
    """Yield the names that stand for values in the body of a function.

    The names of entities and attributes, and the arguments of aggregate functions, are omitted.
    """
    match node:
        case ast.Name():
            yield node
        case ast.FunctionCall(function) if function not in SCALAR:
            return
        case ast.Negate() | ast.Binary() | ast.FunctionCall():
            for child in children(node):
                yield from _value_names(child)
        case ast.Scoped(expression):
            yield from _value_names(expression)
        case _:
            return


def _head(definition: ast.FunctionDefinition) -> Span:
    return head(definition.span, len(f"FUNCTION {definition.name}"))
