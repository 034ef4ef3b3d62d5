"""What of the language is computed: one table, total; all else is refused where it stands."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, get_args

from grammar import Span, ast, format_node
from grammar.functions import FUNCTIONS
from mistbow.plan.expressions import Function

COMPUTED_FUNCTIONS: tuple[Function, ...] = get_args(Function)

COMPUTED = frozenset({
    ast.And, ast.Binary, ast.Boolean, ast.Call, ast.Compare, ast.Elided, ast.Insight, ast.Interval,
    ast.Membership, ast.MetricStream, ast.Name, ast.Negate, ast.Not, ast.Number, ast.Or,
    ast.Scheduler, ast.Script, ast.Text,
})  # fmt: skip
"""The nodes that have a meaning, at least somewhere."""

NOT_COMPUTED: dict[type[ast.Node], str] = {
    ast.Accuracy: "MAX_ERROR",
    ast.Adam: "ADAM",
    ast.Allow: "ALLOW",
    ast.Awareness: "AWARENESS",
    ast.CostCap: "COST_CAP",
    ast.Daily: "EVERY at a time of day",
    ast.FunctionDefinition: "a FUNCTION",
    ast.InsightReference: "INSIGHT",
    ast.Outliers: "ALGORITHM",
    ast.PlacementOn: "PLACEMENT_ON",
    ast.Points: "EVERY by data points",
    ast.Salience: "SALIENCE",
    ast.Sample: "SAMPLE",
    ast.Scoped: "BY or WHEN inside an expression",
    ast.Setting: "a setting of a scheduler",
    ast.Signature: "SIGNATURE",
    ast.StreamDefinition: "a STREAM definition",
}
"""The nodes that have none, and what people call them."""

_OMIT = "Leave it out for now."


@dataclass(frozen=True, slots=True)
class Refusal:
    """A part of a statement that is not computed."""

    span: Span
    what: str
    hint: str = _OMIT


def refusals(statement: ast.Statement, own: frozenset[str]) -> Iterator[Refusal]:
    """Yield the parts of a statement that are not computed, the outermost only.

    ``own`` are the functions that its text defines.
    """
    yield from _walk(statement, own, on_values=True)


def _walk(node: ast.Node, own: frozenset[str], *, on_values: bool) -> Iterator[Refusal]:
    match node:
        case ast.Call():
            yield from _call(node, own)
        case ast.MetricStream():
            yield _alone(node)
        case ast.Name():  # in a condition, it is an attribute
            if on_values:
                yield _alone(node)
        case _ if type(node) in NOT_COMPUTED:
            yield Refusal(node.span, NOT_COMPUTED[type(node)])
        case _:
            values = on_values and not isinstance(node, ast.Condition)
            for part in _parts(node):
                yield from _walk(part, own, on_values=values)


def _alone(node: ast.MetricStream | ast.Name) -> Refusal:
    text = format_node(node)
    return Refusal(
        node.span, f"`{text}` alone", f"Aggregate the metric: `AVG({text}, 10 SECONDS)`."
    )


def _call(call: ast.Call, own: frozenset[str]) -> Iterator[Refusal]:
    if call.function in own or call.function in FUNCTIONS - {*COMPUTED_FUNCTIONS}:
        hint = f"For now there are {', '.join(COMPUTED_FUNCTIONS)}."
        yield Refusal(call.span, f"`{call.function}`", hint)
    elif call.function in COMPUTED_FUNCTIONS:
        for parameter in call.parameters[:1]:
            yield Refusal(parameter.span, f"a parameter of {call.function}")
        if call.offset is not None:
            yield Refusal(call.offset.span, "an offset")
        for argument in call.arguments[1:2]:
            yield Refusal(argument.span, f"{call.function} of several values")
        yield from _argument(call.arguments[0], call.function, own)
    else:
        # That there is none of that name is told elsewhere; its conditions are looked at too.
        for argument in call.arguments:
            if isinstance(argument, ast.MetricStream) and argument.when is not None:
                yield from _walk(argument.when, own, on_values=False)


def _argument(node: ast.Expression, function: str, own: frozenset[str]) -> Iterator[Refusal]:
    match node:
        case ast.Name():
            return
        case ast.MetricStream(_, _, when):
            if when is not None:
                yield from _walk(when, own, on_values=False)
        case _:
            yield Refusal(node.span, f"{function} of anything but a metric", "Name a metric.")


def _parts(node: ast.Node) -> Iterator[ast.Node]:
    for field in fields(node):
        value: Any = getattr(node, field.name)
        yield from (
            each
            for each in (value if isinstance(value, tuple) else (value,))
            if isinstance(each, ast.Node)
        )
