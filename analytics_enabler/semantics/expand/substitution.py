"""Substitution of FUNCTION calls by the bodies of the functions.

An argument is expanded in the scope of the call, before the argument is inserted. So a parameter of
the body cannot capture a name in an argument. The size of the expansion is limited: without a
limit, a few functions that each call the previous one twice would exhaust the memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from analytics_enabler.semantics.diagnostics import Diagnostics, head
from analytics_enabler.semantics.expand.functions import Functions
from grammar import ast, format_node
from grammar.trees import all_of, extent, map_children

MAX_NODES = 10_000
"""The maximum number of nodes in an insight after the expansion of its calls."""

MAX_TOTAL_NODES = 100_000
"""The maximum number of nodes that all calls in a text expand to."""

MAX_DEPTH = 100
"""The maximum number of levels of an insight after the expansion of its calls.

The number is limited because all later passes over the insight recurse.
"""

Arguments = Mapping[str, ast.Expression]
_NONE: Arguments = {}


class Substitution:
    """Replaces the FUNCTION calls in the insights of one text by the bodies of the functions."""

    def __init__(self, functions: Functions, diagnostics: Diagnostics) -> None:
        self._functions = functions
        self._diagnostics = diagnostics
        self._total = 0

    def apply(self, insight: ast.InsightStatement) -> ast.InsightStatement | None:
        """Return an insight with all calls of FUNCTIONs replaced; None after an error.

        An expansion that is too large is an error, too.
        """
        if not self._functions.definitions:
            return insight
        budget = max(MAX_TOTAL_NODES - self._total, 0)
        expansion = _Expansion(self._functions, self._diagnostics, budget)
        expanded = expansion.insight(insight)
        if not expansion.sound or not expansion.grown:
            return expanded if expansion.sound else None
        size, depth = extent(expanded, MAX_NODES)
        self._total += max(size, expansion.grown)
        too_much = size > MAX_NODES or self._total > MAX_TOTAL_NODES
        if expansion.exhausted or too_much or depth > MAX_DEPTH:
            self._diagnostics.error(
                head(insight.span, len(insight.name)),
                f"the calls in `{insight.name}` expand to over {MAX_NODES:,} expression nodes "
                f"or {MAX_DEPTH} levels",
                "Nest fewer calls; all calls of a text may expand to "
                f"{MAX_TOTAL_NODES:,} expression nodes.",
            )
            return None
        return expanded


@dataclass(slots=True)
class _Expansion:
    """The expansion of the calls in one insight.

    ``budget``: the maximum number of nodes in the inserted bodies. ``grown``: the number of nodes
    in the bodies that have been inserted so far. ``sound``: False after an error.
    """

    functions: Functions
    diagnostics: Diagnostics
    budget: int
    grown: int = 0
    too_deep: bool = False
    sound: bool = True

    @property
    def exhausted(self) -> bool:
        return self.too_deep or self.grown > min(MAX_NODES, self.budget)

    def insight(self, insight: ast.InsightStatement) -> ast.InsightStatement:
        return map_children(insight, lambda part: self._expand(part, _NONE, 1))

    def _expand(
        self, node: ast.SyntaxNode, arguments: Arguments, depth: int, *, compared: bool = False
    ) -> Any:
        """Return ``node`` with its calls replaced and with arguments inserted for parameters.

        ``arguments``: parameter of the surrounding body -> argument. ``compared``: whether the node
        is a side of a condition, where a bare name is an attribute.
        """
        if arguments:
            self.grown += 1
            self.too_deep |= depth > MAX_DEPTH
        if self.exhausted:
            return node
        match node:
            case ast.Name(name):
                return self._argument(arguments[name], compared) if name in arguments else node
            case ast.FunctionCall() if node.function in self.functions.definitions:
                return self._call(node, arguments, depth, compared)
            case ast.MetricStream():
                return self._stream(node, arguments, depth)
            case ast.ListMembership(called=ast.FunctionCall() as called):
                return self._list(node, called, arguments, depth)
            case ast.FunctionCall(parameters=given):
                self._check_parameters(given, arguments)
            case ast.Scoped():
                node = replace(node, by=self._names(node.by, arguments))
            case _:
                pass
        below = isinstance(node, ast.Compare | ast.ListMembership) or (
            compared and isinstance(node, ast.Binary | ast.Negate)
        )
        return map_children(
            node, lambda part: self._expand(part, arguments, depth + 1, compared=below)
        )

    def _call(
        self, call: ast.FunctionCall, arguments: Arguments, depth: int, compared: bool
    ) -> ast.SyntaxNode:
        given = [self._expand(each, arguments, depth + 1) for each in call.arguments]
        definition = self.functions.definitions[call.function]
        if call.function not in self.functions.sound or not self._check_call(call, definition):
            self.sound = False
            return call
        bound = dict(zip(definition.parameters, given, strict=True))
        if isinstance(definition.body, ast.ValueList):
            self._refuse(
                call,
                f"`{call.function}` is a list, not a value",
                f"Write it after IN, as in `WHEN name IN {call.function}(…)`.",
            )
            return call
        body = self._expand(definition.body, bound, depth + 1, compared=compared)
        # Errors in arithmetic point at the call; errors of a name or a function point at the body.
        return replace(body, span=call.span) if isinstance(body, ast.Binary) else body

    def _list(
        self,
        node: ast.ListMembership,
        called: ast.FunctionCall,
        arguments: Arguments,
        depth: int,
    ) -> ast.ListMembership:
        """Return a condition with IN whose list is the body of the called FUNCTION."""
        operand = self._expand(node.operand, arguments, depth + 1, compared=True)
        node = replace(node, operand=operand)
        definition = self.functions.definitions.get(called.function)
        if definition is None:
            return node
        if called.function not in self.functions.sound or not self._check_call(called, definition):
            self.sound = False
        elif isinstance(definition.body, ast.ValueList):
            return replace(node, members=definition.body.values, called=None)
        else:
            self._refuse(
                called,
                f"`{called.function}` is a value, but IN needs a list",
                f"Compare it by `==`, or write `FUNCTION {called.function}(…) {{ (1, 2) }}`.",
            )
        return node

    def _check_call(self, call: ast.FunctionCall, definition: ast.FunctionDefinition) -> bool:
        """Return whether a call fits the definition of the function; if not, report an error."""
        takes, gives = len(definition.parameters), len(call.arguments)
        extra = [*call.parameters, *(each for each in (call.window, call.offset) if each)]
        for each in extra[:1]:
            self._refuse(
                each,
                f"`{call.function}` takes no window, offset or [parameter]",
                "Move it to the body of the function.",
            )
        if takes != gives:
            named = ", ".join(definition.parameters)
            self._refuse(
                call,
                f"`{call.function}` takes {_values(takes)}, not {gives}",
                f"Call it as `{call.function}({named})`.",
            )
        return takes == gives and not extra

    def _argument(self, argument: ast.Expression, compared: bool) -> ast.Expression:
        if compared and isinstance(argument, ast.Name):
            self._refuse(
                argument,
                f"in a condition, the argument `{argument.name}` could mean an attribute or a text",
                "Write the name in the body of the function; pass numbers, metrics and values.",
            )
        return argument

    def _stream(self, stream: ast.MetricStream, arguments: Arguments, depth: int) -> ast.SyntaxNode:
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
                message = f"the function adds a FROM, which `{format_node(given)}` cannot have"
                self._refuse(given, message, "Pass a metric without a FROM.")
                return given
            case given:
                return ast.Scoped(given, (), when, span=given.span)

    def _names(self, names: tuple[str, ...], arguments: Arguments) -> tuple[str, ...]:
        return tuple(self._name(arguments[name]) if name in arguments else name for name in names)

    def _name(self, given: ast.Expression) -> str:
        if isinstance(given, ast.Name):
            return given.name
        message = f"the function needs a name, not `{format_node(given)}`"
        self._refuse(given, message, "Pass the name of an entity, a STREAM or an attribute.")
        return ""

    def _check_parameters(self, given: tuple[ast.Parameter, ...], arguments: Arguments) -> None:
        for each in given:
            argument = arguments.get(each.name) if isinstance(each, ast.Name) else None
            if argument is not None and not isinstance(argument, ast.Number):
                message = f"the function needs a number for [ ], not `{format_node(argument)}`"
                self._refuse(argument, message, "Pass a number.")

    def _refuse(self, node: ast.SyntaxNode, message: str, hint: str) -> None:
        self.sound = False
        self.diagnostics.error(node.span, message, hint)


def _values(count: int) -> str:
    return "1 value" if count == 1 else f"{count} values"
