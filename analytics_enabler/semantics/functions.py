"""FUNCTION definitions: which there are, and what is wrong with them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from analytics_enabler.limits import MOST_PARAMETERS
from analytics_enabler.semantics.cycles import ordered
from analytics_enabler.semantics.findings import Findings, beginning, did_you_mean
from analytics_enabler.semantics.trees import parts, walk
from grammar import Script, Span, ast
from grammar.functions import ALIASES, FUNCTIONS, OPERATORS, SCALAR

_BUILT_IN = FUNCTIONS | ALIASES.keys() | OPERATORS.keys()


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions that a text defines, by name; a call of one not ``sound`` means nothing."""

    definitions: Mapping[str, ast.FunctionDefinition]
    sound: frozenset[str]


def functions_of(
    script: Script, findings: Findings, broken: frozenset[str] = frozenset()
) -> Functions:
    """Return the functions that a text defines, and say what is wrong with them.

    ``broken`` are names of what it may define too, but wrongly.
    """
    definitions: dict[str, ast.FunctionDefinition] = {}
    faulty: set[str] = set()
    for each in script.statements:
        if not isinstance(each, ast.FunctionDefinition):
            continue
        if each.name in definitions:
            hint = "Give each function of a submission a name of its own."
            findings.error(_head(each), f"there are two functions `{each.name}`", hint)
        definitions.setdefault(each.name, each)
        for span, message, hint in _faults(each):
            faulty.add(each.name)
            findings.error(span, message, hint)
        _warn_of_likely_parameters(each, findings)
    for name in {name.upper() for name in broken} - definitions.keys() - _BUILT_IN:
        definitions[name] = ast.FunctionDefinition(name, (), ast.Number(0))
        faulty.add(name)
    uses = {name: _called(each.body, definitions) for name, each in definitions.items()}
    order, cycles = ordered(uses)
    for cycle in cycles:
        way = " → ".join(cycle)
        hint = "A call is replaced by the body, which must end: leave one of these calls out."
        findings.error(_head(definitions[cycle[0]]), f"`{cycle[0]}` calls itself: {way}", hint)
    _warn_of_unused(script, definitions, findings)
    return Functions(definitions, _sound(order, uses, faulty))


def _sound(order: list[str], uses: Mapping[str, list[str]], faulty: set[str]) -> frozenset[str]:
    sound: set[str] = set()
    for name in order:
        if name not in faulty and sound.issuperset(uses[name]):
            sound.add(name)
    return frozenset(sound)


def _called(node: ast.Node, definitions: Mapping[str, ast.FunctionDefinition]) -> list[str]:
    names = (each.function for each in walk(node) if isinstance(each, ast.Call))
    return [name for name in dict.fromkeys(names) if name in definitions]


def _warn_of_unused(
    script: Script, definitions: Mapping[str, ast.FunctionDefinition], findings: Findings
) -> None:
    if not definitions:
        return
    called = {name for each in script.statements for name in _called(each, definitions)}
    for name, definition in definitions.items():
        if name not in called:
            findings.warning(
                _head(definition), f"nothing calls the function `{name}`", "Call it, or remove it."
            )


def _faults(definition: ast.FunctionDefinition) -> Iterator[tuple[Span, str, str]]:
    name, parameters = definition.name, definition.parameters
    if name in _BUILT_IN:
        yield _head(definition), f"there is a function `{name}` already", "Name yours otherwise."
    if len(parameters) > MOST_PARAMETERS:
        message = f"`{name}` has {len(parameters):,} parameters"
        yield _head(definition), message, f"Give it {MOST_PARAMETERS} at most."
    for parameter, count in Counter(parameters).items():
        if count > 1:
            message = f"`{name}` has two parameters `{parameter}`"
            yield _head(definition), message, "Give each parameter a name of its own."


def _warn_of_likely_parameters(definition: ast.FunctionDefinition, findings: Findings) -> None:
    parameters = frozenset(definition.parameters)
    for value in _values(definition.body):
        near = [] if value.name in parameters else findings.nearest(value.name, parameters)
        if near:
            message = f"`{value.name}` is no parameter of `{definition.name}`, so it is a metric"
            findings.warning(value.span, message, did_you_mean(near))


def _values(node: ast.Node) -> Iterator[ast.Name]:
    """Yield the names that stand for a value: not for a metric, an entity or an attribute."""
    match node:
        case ast.Name():
            yield node
        case ast.Call(function) if function not in SCALAR:
            return
        case ast.Negate() | ast.Binary() | ast.Call():
            for part in parts(node):
                yield from _values(part)
        case ast.Scoped(expression):
            yield from _values(expression)
        case _:
            return


def _head(definition: ast.FunctionDefinition) -> Span:
    return beginning(definition.span, len(f"FUNCTION {definition.name}"))
