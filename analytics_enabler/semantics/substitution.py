"""Calls of a text's own functions, replaced by the bodies of these functions.

An argument is expanded where it stands and put in whole, so a body's names never take an argument's
for their own. What comes of the calls is bounded: a few functions that each call the one before
twice would fill any memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from analytics_enabler.semantics.findings import Findings, beginning
from analytics_enabler.semantics.functions import Functions
from analytics_enabler.semantics.trees import all_of, extent, rebuilt
from grammar import ast, format_node

MOST_NODES = 10_000
"""Nodes of an insight that calls functions, once these are replaced."""

MOST_NODES_IN_ALL = 100_000
"""Nodes that come of all the calls of a text."""

MOST_DEPTH = 100
"""Levels of an insight that calls functions: whatever reads it recurses."""

Arguments = Mapping[str, ast.Expression]
_NONE: Arguments = {}


class Substitution:
    """Replaces the calls in the insights of one text."""

    def __init__(self, functions: Functions, findings: Findings) -> None:
        self._functions = functions
        self._findings = findings
        self._in_all = 0

    def of(self, insight: ast.Insight) -> ast.Insight | None:
        """Return an insight without calls of own functions; None where one means nothing."""
        if not self._functions.definitions:
            return insight
        room = max(MOST_NODES_IN_ALL - self._in_all, 0)
        expansion = _Expansion(self._functions, self._findings, room)
        expanded = expansion.insight(insight)
        if not expansion.sound or not expansion.grown:
            return expanded if expansion.sound else None
        size, depth = extent(expanded, MOST_NODES)
        self._in_all += max(size, expansion.grown)
        too_much = size > MOST_NODES or self._in_all > MOST_NODES_IN_ALL
        if expansion.exhausted or too_much or depth > MOST_DEPTH:
            self._findings.error(
                beginning(insight.span, len(insight.name)),
                f"the functions that `{insight.name}` calls make too much of it: "
                f"over {MOST_NODES:,} parts or {MOST_DEPTH} levels",
                f"Call fewer within each other; all calls of a text may make "
                f"{MOST_NODES_IN_ALL:,} parts.",
            )
            return None
        return expanded


@dataclass(slots=True)
class _Expansion:
    """The calls of one insight. ``grown``: how many nodes of bodies have come of them."""

    functions: Functions
    findings: Findings
    room: int
    grown: int = 0
    too_deep: bool = False
    sound: bool = True

    @property
    def exhausted(self) -> bool:
        return self.too_deep or self.grown > min(MOST_NODES, self.room)

    def insight(self, insight: ast.Insight) -> ast.Insight:
        return rebuilt(insight, lambda part: self._expand(part, _NONE, 1))

    def _expand(
        self, node: ast.Node, arguments: Arguments, depth: int, *, compared: bool = False
    ) -> Any:
        """Return ``node`` with the ``arguments`` of the body that it stands in.

        ``compared``: it is a side of a condition, where a name alone is an attribute.
        """
        if arguments:
            self.grown += 1
            self.too_deep |= depth > MOST_DEPTH
        if self.exhausted:
            return node
        match node:
            case ast.Name(name):
                return self._argument(arguments[name], compared) if name in arguments else node
            case ast.Call() if node.function in self.functions.definitions:
                return self._own(node, arguments, depth, compared)
            case ast.MetricStream():
                return self._stream(node, arguments, depth)
            case ast.Call(parameters=given):
                self._check_parameters(given, arguments)
            case ast.Scoped():
                node = replace(node, by=self._names(node.by, arguments))
            case _:
                pass
        below = isinstance(node, ast.Compare | ast.Membership) or (
            compared and isinstance(node, ast.Binary | ast.Negate)
        )
        return rebuilt(node, lambda part: self._expand(part, arguments, depth + 1, compared=below))

    def _own(self, call: ast.Call, arguments: Arguments, depth: int, compared: bool) -> ast.Node:
        given = [self._expand(each, arguments, depth + 1) for each in call.arguments]
        definition = self.functions.definitions[call.function]
        if call.function not in self.functions.sound or not self._fits(call, definition):
            self.sound = False
            return call
        bound = dict(zip(definition.parameters, given, strict=True))
        body = self._expand(definition.body, bound, depth + 1, compared=compared)
        # What is calculated stands for the call; a name or a function is best shown by itself.
        return replace(body, span=call.span) if isinstance(body, ast.Binary) else body

    def _fits(self, call: ast.Call, definition: ast.FunctionDefinition) -> bool:
        """Return whether a call gives a sound function what it takes."""
        takes, gives = len(definition.parameters), len(call.arguments)
        extra = [*call.parameters, *(each for each in (call.window, call.offset) if each)]
        for each in extra[:1]:
            self._refuse(
                each,
                f"`{call.function}` takes no window, offset or [parameter]",
                "Write it into the body of the function.",
            )
        if takes != gives:
            named = ", ".join(definition.parameters)
            self._refuse(
                call,
                f"`{call.function}` takes {_so_many(takes)}, not {gives}",
                f"Call it as `{call.function}({named})`.",
            )
        return takes == gives and not extra

    def _argument(self, argument: ast.Expression, compared: bool) -> ast.Expression:
        if compared and isinstance(argument, ast.Name):
            self._refuse(
                argument,
                f"`{argument.name}` comes to stand in a condition, "
                "which could mean an attribute or a text",
                "Write it into the body of the function; pass numbers, metrics and values.",
            )
        return argument

    def _stream(self, stream: ast.MetricStream, arguments: Arguments, depth: int) -> ast.Node:
        members = self._names(stream.members, arguments)
        when = stream.when and self._expand(stream.when, arguments, depth + 1)
        match arguments.get(stream.metric):
            case None:
                return replace(stream, members=members, when=when)
            case ast.Name(metric):
                return replace(stream, metric=metric, members=members, when=when)
            case ast.MetricStream() as given if not (given.members and members):
                both = [each for each in (given.when, when) if each is not None]
                chosen = given.members or members
                return replace(given, members=chosen, when=all_of(both) if both else None)
            case given if members:
                message = f"`{format_node(given)}` cannot be taken FROM anything"
                self._refuse(given, message, "Pass a metric without a FROM of its own.")
                return given
            case given:
                return ast.Scoped(given, (), when, span=given.span)

    def _names(self, names: tuple[str, ...], arguments: Arguments) -> tuple[str, ...]:
        return tuple(self._name(arguments[name]) if name in arguments else name for name in names)

    def _name(self, given: ast.Expression) -> str:
        if isinstance(given, ast.Name):
            return given.name
        message = f"`{format_node(given)}` stands for a name in this function"
        self._refuse(given, message, "Pass a name: of an entity, a STREAM or an attribute.")
        return ""

    def _check_parameters(self, given: tuple[ast.Parameter, ...], arguments: Arguments) -> None:
        for each in given:
            argument = arguments.get(each.name) if isinstance(each, ast.Name) else None
            if argument is not None and not isinstance(argument, ast.Number):
                message = f"`{format_node(argument)}` stands for a parameter in brackets"
                self._refuse(argument, message, "Pass a number.")

    def _refuse(self, node: ast.Node, message: str, hint: str) -> None:
        self.sound = False
        self.findings.error(node.span, message, hint)


def _so_many(count: int) -> str:
    return "1 value" if count == 1 else f"{count} values"
