"""The meaning of what stands after COMPUTE: metrics, functions, and parts in parentheses."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import get_args

from analytics_enabler.semantics.aggregates import Aggregates
from analytics_enabler.semantics.conditions import (
    check_number,
    conjunction,
    translate_condition,
    translate_value,
)
from analytics_enabler.semantics.findings import Findings, beginning, did_you_mean, nearest
from analytics_enabler.semantics.keys import (
    check_by,
    check_filter,
    check_meeting,
    keys_of,
    reads,
)
from analytics_enabler.semantics.parameters import parameters_of, parameters_of_operator
from analytics_enabler.semantics.parting import part
from analytics_enabler.semantics.references import References
from analytics_enabler.semantics.scopes import (
    ComputeScope,
    CurrentAttribute,
    Leaf,
    PointScope,
    ResultScope,
)
from grammar import ast
from grammar.functions import FUNCTIONS
from mistbow.operators.installed import installed
from mistbow.plan.attributes import canonical
from mistbow.plan.expressions import (
    ACCUMULATING,
    Aggregate,
    AnyFunction,
    Expression,
    Filtered,
    Function,
    Geohash,
    Label,
    Mapped,
    Mathematical,
    Parameters,
    Reduction,
    UserOperator,
)
from mistbow.plan.expressions import walk as walk_plan

_FUNCTIONS: dict[str, Function] = {name: name for name in get_args(Function)}
_MATHEMATICAL: dict[str, Mathematical] = {name: name for name in get_args(Mathematical)}
_OF_POINTS_ALONE = frozenset({"CORRELATION", "FORECAST", "OUTLIER_DETECTION"}) | ACCUMULATING

_EXAMPLES: dict[str, str] = {
    "CORRELATION": "CORRELATION(cpu.util, mem.util, 1 HOUR)",
    "FORECAST": "FORECAST[6](cpu.util, 1 HOUR)",
    "OUTLIER_DETECTION": "OUTLIER_DETECTION(cpu.util, 1 HOUR)",
    "EWMA": "EWMA[0.3](cpu.util)",
    "PEWMA": "PEWMA[0.3](cpu.util)",
}


@dataclass(frozen=True, slots=True)
class Values:
    """Gives meanings inside one insight, or a part of it in parentheses.

    ``outliers`` are the neighbours and the distance by which they are told, None where the
    insight does not say so.
    """

    aggregates: Aggregates
    references: References
    outliers: Parameters | None = None

    @property
    def findings(self) -> Findings:
        """Where problems are collected."""
        return self.aggregates.findings

    def translate(self, node: Leaf) -> Expression:
        """Return the plan's expression; where something is wrong, a stand-in for it."""
        match node:
            case ast.Name(name):
                return self.aggregates.latest(ast.MetricStream(name, span=node.span))
            case ast.MetricStream():
                return self.aggregates.latest(node)
            case CurrentAttribute(name, of):
                return self._label(canonical(name), of)
            case ast.Scoped():
                return self._scoped(node)
            case ast.Call():
                return self._call(node)
            case ast.InsightReference():
                return self._reference(node)
            case ast.Elided():
                raise AssertionError(node)  # the grammar has it in conditions only

    def _reference(self, node: ast.InsightReference) -> Expression:
        aggregates = self.aggregates
        meaning = self.references.meaning(node, aggregates.ticks, aggregates.each_point)
        for each in walk_plan(meaning):
            if isinstance(each, Aggregate):
                aggregates.check_referred(each, node.span)
        return meaning

    def _label(self, attribute: str, of: ast.MetricStream) -> Expression:
        by = self.aggregates.by
        inner = replace(self.aggregates, by=tuple(dict.fromkeys((*by, attribute))))
        return Label(attribute, inner.latest(of), by)

    def _scoped(self, node: ast.Scoped) -> Expression:
        by = tuple(dict.fromkeys((*self.aggregates.by, *map(canonical, node.by))))
        keys = tuple(dict.fromkeys((*by, *inner_keys(node.expression, self.references))))
        parted = part(node.expression, node.when, keys, self.findings)
        points = PointScope(self.findings)
        own = [translate_condition(term, points, self.findings) for term in parted.on_points]
        predicate = self.aggregates.predicate
        terms = [*([] if predicate is None else [predicate]), *own]
        inner = replace(
            self,
            aggregates=replace(
                self.aggregates, by=by, predicate=conjunction(terms) if terms else None
            ),
        )
        value = translate_value(node.expression, ComputeScope(inner.translate), self.findings)
        check_by(node.expression, value, by, "nothing here is", self.findings)
        if not parted.on_results:
            return value
        self._check_reads(node.expression, value, "the condition is about results of it")
        scope = ResultScope(value, inner.translate)
        held = [translate_condition(term, scope, self.findings) for term in parted.on_results]
        for term, condition in zip(parted.on_results, held, strict=True):
            check_filter(term, value, condition, self.findings)
        return Filtered(value, conjunction(held))

    def _call(self, call: ast.Call) -> Expression:
        mathematical = _MATHEMATICAL.get(call.function)
        if mathematical is not None:
            self._count_arguments(call, 1)
            _refuse_parameters(call, self.findings)
            return Mapped(mathematical, self._number(call.arguments[0]))
        if call.function == "GEOHASH":
            return self._geohash(call)
        function = _FUNCTIONS.get(call.function)
        if function is None or function not in FUNCTIONS:
            return self._installed(call)
        self._count_arguments(call, 2 if function == "CORRELATION" else 1)
        return self._of_values(function, call, self._parameters(function, call))

    def _installed(self, call: ast.Call) -> Expression:
        operator = installed().newest(call.function)
        if operator is None:
            self._unknown(call)
            return self.aggregates.latest(ast.MetricStream(call.function, span=call.span))
        self._count_arguments(call, operator.metrics)
        parameters = parameters_of_operator(operator, call, self.findings)
        # The version is a part of what the insight means: it stays when a newer one is installed.
        return self._of_values(UserOperator(operator.name, operator.version), call, parameters)

    def _of_values(
        self, function: AnyFunction, call: ast.Call, parameters: Parameters
    ) -> Expression:
        streams = [stream for stream in map(_stream, call.arguments) if stream is not None]
        if len(streams) == len(call.arguments):
            return self.aggregates.over_points(function, call, streams[:2], parameters)
        return self._reduction(function, call, parameters)

    def _parameters(self, function: Function, call: ast.Call) -> Parameters:
        parameters = parameters_of(function, call, self.findings)
        if function != "OUTLIER_DETECTION":
            return parameters
        if self.outliers is None:
            self.findings.error(
                call.span,
                "nothing says what an outlier is",
                "Add `WITH ALGORITHM pmcod AND K=50 AND R=0.5`, say: fewer than 50 values within "
                "0.5 make an outlier.",
            )
            return (1.0, 1.0)
        return self.outliers

    def _reduction(
        self, function: AnyFunction, call: ast.Call, parameters: Parameters
    ) -> Expression:
        operand = self._number(call.arguments[0])
        name, by = call.function, self.aggregates.by
        if self.aggregates.each_point:
            self.findings.error(
                beginning(call.span, len(call.function)),
                f"{name} of several values needs ticks at which all of them are there",
                "Add an EVERY to the insight.",
            )
        if function in _OF_POINTS_ALONE or len(call.arguments) > 1:
            self.findings.error(
                call.arguments[0].span,
                f"{name} is of metrics only: values of a tick have no times of their own",
                f"Name a metric here, as in `{_EXAMPLES.get(name, f'{name}(cpu.util)')}`.",
            )
        elif call.window is not None:
            self.findings.error(
                call.window.span,
                f"{name} reduces the values of one tick: it has no window here",
                f"Leave the window out, or give it to the aggregate inside of {name}.",
            )
        elif not self._check_reads(call.arguments[0], operand, f"{name} reduces values"):
            pass
        elif check_by(
            call, operand, by, "the values that are reduced here are not", self.findings
        ) and keys_of(operand) <= set(by):
            self.findings.warning(
                beginning(call.span, len(call.function)),
                f"there is but one value here for {name} to reduce",
                f"Give what is inside keys of its own: `{name}(AVG(x, 1 MINUTE) BY node)`.",
            )
        return Reduction(function, operand, by, parameters)

    def _geohash(self, call: ast.Call) -> Expression:
        self._count_arguments(call, 2)
        (characters,) = parameters_of("GEOHASH", call, self.findings)
        _refuse_windows(call, self.findings)
        latitude, longitude = map(self._number, (*call.arguments, *call.arguments)[:2])
        check_meeting(call, latitude, longitude, self.findings)
        return Geohash(int(characters), latitude, longitude)

    def _check_reads(self, node: ast.Expression, value: Expression, why: str) -> bool:
        if not reads(value):
            self.findings.error(
                node.span,
                f"there is no metric here, and {why}",
                "Name one, as in `AVG(cpu.util, 10 SECONDS)`.",
            )
        return reads(value)

    def _number(self, node: ast.Expression) -> Expression:
        # What an argument means that is to be calculated with.
        scope = ComputeScope(self.translate)
        value = translate_value(node, scope, self.findings)
        check_number(node, value, scope, self.findings)
        return value

    def _count_arguments(self, call: ast.Call, wanted: int) -> None:
        if len(call.arguments) != wanted:
            two = "two values" if call.function == "GEOHASH" else "two metrics"
            takes = "one value" if wanted == 1 else two
            given = "only one" if len(call.arguments) == 1 else f"{len(call.arguments)}"
            self.findings.error(
                call.span,
                f"{call.function} is of {takes}; here it has {given}",
                f"Write `{call.function}({', '.join('xy'[:wanted])})`.",
            )

    def _unknown(self, call: ast.Call) -> None:
        found = installed()
        known = FUNCTIONS | {operator.name for operator in found.operators}
        near = nearest(call.function, known)
        hint = did_you_mean(near) if near else f"There are {', '.join(sorted(known))}."
        for place, problem in found.problems.items():
            hint += f" An operator that is installed cannot be used, {place}: {problem}."
        self.findings.error(
            beginning(call.span, len(call.function)),
            f"there is no function `{call.function}`",
            hint,
        )


def _refuse_parameters(call: ast.Call, findings: Findings) -> None:
    # A function of single values has neither parameters nor a window.
    for parameter in call.parameters[:1]:
        findings.error(parameter.span, f"{call.function} takes no parameter", "Leave it out.")
    _refuse_windows(call, findings)


def _refuse_windows(call: ast.Call, findings: Findings) -> None:
    for interval in filter(None, (call.window, call.offset)):
        findings.error(
            interval.span,
            f"{call.function} is of single values: it has no window",
            "Give the window to an aggregate inside of it.",
        )


def inner_keys(node: ast.Expression, references: References) -> Iterator[str]:
    """Yield the attributes that parts in parentheses and INSIGHTs add to an expression's keys."""
    match node:
        case ast.Scoped():
            yield from map(canonical, node.by)
            yield from inner_keys(node.expression, references)
        case ast.Binary():
            yield from inner_keys(node.left, references)
            yield from inner_keys(node.right, references)
        case ast.Negate():
            yield from inner_keys(node.operand, references)
        case ast.Call() if call_keeps_keys(node):
            for argument in node.arguments:
                yield from inner_keys(argument, references)
        case ast.InsightReference():
            yield from references.keys(node)
        case _:
            return


def call_keeps_keys(call: ast.Call) -> bool:
    """Return whether a call yields a value for each key of its arguments."""
    return call.function in _MATHEMATICAL or call.function == "GEOHASH"


def _stream(node: ast.Expression) -> ast.MetricStream | None:
    match node:
        case ast.MetricStream():
            return node
        case ast.Name(name):
            return ast.MetricStream(name, span=node.span)
        case _:
            return None
