"""Checks of keys: which values can be combined, and which conditions can filter results."""

from collections.abc import Collection, Iterator

from analytics.plan.functions import spec_of
from analytics_enabler.semantics.bind.bound_tree import (
    BoundAggregation,
    BoundArithmetic,
    BoundCondition,
    BoundInsight,
    BoundInsightReference,
    BoundReduction,
    BoundScope,
    BoundTickSeries,
    BoundValue,
    CurrentValue,
    LabelRead,
    ScalarCall,
    Unresolved,
)
from analytics_enabler.semantics.checks.context import Context
from analytics_enabler.semantics.diagnostics import error, head, warning
from grammar import Diagnostic, ast
from grammar.trees import children

_NAME_A_METRIC = "Name a metric, as in `AVG(cpu.util, 10 SECONDS)`."


def check_keys(insight: BoundInsight, _context: Context) -> Iterator[Diagnostic]:
    """Yield the diagnostics of the keys in an insight, and of its reductions.

    Keys are checked where values are combined, where conditions filter results, and where a BY
    applies to values. A reduction is a function over the values of several keys at one tick.
    """
    for node in insight.nodes:
        match node:
            case BoundArithmetic():
                yield from _check_meeting(node, node.left, node.right)
            case ScalarCall("GEOHASH", (latitude, longitude)):
                yield from _check_meeting(node, latitude, longitude)
            case BoundReduction():
                yield from _check_reduction(node, insight.trigger.each_point)
            case BoundScope():
                yield from _check_scoped(node)
    value, span = insight.value, insight.syntax.expression.span
    yield from _check_by(span, value, insight.by, "the values here are not")
    yield from _check_filter(value, insight.when.on_results)


def _check_scoped(node: BoundScope) -> Iterator[Diagnostic]:
    yield from _check_by(node.value.span, node.value, node.by, "the values here are not")
    if node.when.on_results:
        if node.value.resolved and not node.value.reads:
            message = "the condition restricts results, but no metric is read here"
            yield error(node.value.span, message, _NAME_A_METRIC)
        yield from _check_filter(node.value, node.when.on_results)


def _check_meeting(
    node: ast.SyntaxNode, left: BoundValue, right: BoundValue
) -> Iterator[Diagnostic]:
    """Yield an error if each of two operands has a key attribute that the other operand lacks."""
    if not (left.reads and right.reads and left.resolved and right.resolved):
        return
    if not (left.keys <= right.keys or right.keys <= left.keys):
        yield error(
            node.span,
            f"values by {_words(left.keys)} and values by {_words(right.keys)} cannot be combined: "
            "neither has all keys of the other",
            "Add all attributes in the BY of one side to the BY of the other, or reduce one side.",
        )


def _check_filter(
    value: BoundValue, conditions: tuple[BoundCondition, ...]
) -> Iterator[Diagnostic]:
    """Yield an error for each condition whose values have key attributes that ``value`` lacks."""
    if not value.resolved:
        return
    for condition in conditions:
        further = (keys for keys in _keys_in(condition) if not keys <= value.keys)
        if (keys := next(further, None)) is not None:
            yield error(
                condition.span,
                f"this condition has values by {_words(keys)}, the results are by "
                f"{_words(value.keys) or 'nothing'}",
                "Reduce the values, as in `WHEN > MAX(AVG(x) BY node)`.",
            )


def _keys_in(node: ast.SyntaxNode) -> Iterator[frozenset[str]]:
    """Yield the key attributes of each value in a condition, from left to right."""
    match node:
        case Unresolved():
            return
        case (
            BoundAggregation()
            | CurrentValue()
            | LabelRead()
            | BoundInsightReference()
            | BoundReduction()
            | BoundTickSeries()
        ):
            yield node.keys
        case _:
            for child in children(node):
                yield from _keys_in(child)


def _check_by(
    span: ast.Span, value: BoundValue, by: Collection[str], without: str
) -> Iterator[Diagnostic]:
    """Yield an error if the keys of a value, such as an INSIGHT, lack an attribute of ``by``.

    ``without``: the beginning of the message.
    """
    missing = frozenset(by) - value.keys
    if missing and value.reads and value.resolved:
        yield error(
            span,
            f"{without} by {_words(missing)}",
            f"Remove {_words(missing)} from BY, or add it to the BY of the referenced insight.",
        )


def _check_reduction(node: BoundReduction, each_point: bool) -> Iterator[Diagnostic]:
    call, operand, name = node.call, node.operands[0], node.call.function
    spec = spec_of(node.function)
    if each_point:
        yield error(
            head(call.span, len(name)),
            f"{name} of several values needs ticks, at which all of them are present",
            "Add an EVERY to the insight.",
        )
    if not spec.over_values or len(node.operands) > 1:
        yield error(
            call.arguments[0].span,
            f"{name} takes metrics only: calculated values have no times of their own",
            f"Name a metric here, as in `{spec.example(name)}`.",
        )
    elif call.window is not None:
        yield error(
            call.window.span,
            f"{name} reduces the values of one tick, and has no window here",
            f"Remove the window, or move it to the aggregate inside {name}.",
        )
    elif operand.resolved and not operand.reads:
        message = f"{name} needs the values of a metric, but no metric is read here"
        yield error(operand.span, message, _NAME_A_METRIC)
    elif operand.resolved:
        missing = list(
            _check_by(call.span, operand, node.by, "the values that are reduced here are not")
        )
        yield from missing
        if not missing and operand.keys <= set(node.by):
            yield warning(
                head(call.span, len(name)),
                f"there is only one value here for {name} to reduce",
                f"Add a BY to the operand, as in `{name}(AVG(x, 1 MINUTE) BY node)`.",
            )


def _words(keys: frozenset[str]) -> str:
    return ", ".join(sorted(keys))
