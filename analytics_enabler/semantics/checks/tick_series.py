"""Checks of functions over the values of several ticks, such as ``FORECAST[3](AVG(x), 1 HOUR)``."""

from collections.abc import Iterator

from analytics.plan.functions import ACCUMULATED, UserOperator, spec_of
from analytics_enabler.limits import MAX_PLAN_NODES
from analytics_enabler.semantics.bind.bound_tree import (
    BoundAggregation,
    BoundInsight,
    BoundInsightReference,
    BoundTickSeries,
    PointSource,
    Trigger,
)
from analytics_enabler.semantics.checks.context import Context
from analytics_enabler.semantics.diagnostics import error, head
from analytics_enabler.semantics.window_lengths import MAX_MS, length_error, series_ticks
from grammar import Diagnostic
from grammar.trees import walk
from grammar.units import in_words

MAX_TICKS = 1_000
"""The maximum number of ticks whose values one function reads."""


def check_tick_series(insight: BoundInsight, _context: Context) -> Iterator[Diagnostic]:
    """Yield errors for functions over values of ticks that cannot be computed."""
    for node in insight.nodes:
        if isinstance(node, BoundTickSeries):
            problems = [
                *_check_trigger(node, insight.trigger),
                *_check_operands(node, insight.trigger),
                *_check_length(node, insight.trigger),
            ]
            yield from problems[:1]


def _check_trigger(node: BoundTickSeries, trigger: Trigger) -> Iterator[Diagnostic]:
    name, span = _name(node), head(node.call.span, len(node.call.function))
    if trigger.each_point:
        yield error(
            span,
            f"{name} of calculated values needs ticks, which are the times of these values",
            "Add an EVERY, as in `EVERY 5 SECONDS`.",
        )
    elif trigger.ticks is not None and len(trigger.ticks.phases) > 1:
        yield error(
            span,
            f"{name} needs ticks at equal distances, and where clocks change, days are not equally "
            "long",
            "Use a zone whose clocks never change, as in `EVERY 1 DAYS AT 23:59 GMT`.",
        )


def _check_operands(node: BoundTickSeries, trigger: Trigger) -> Iterator[Diagnostic]:
    name = _name(node)
    for part in walk(node):
        if isinstance(part, BoundInsightReference) and trigger.ticks is not None:
            definition = part.symbol.definition
            if not definition.each_point and not trigger.ticks.are_subset_of(definition.ticks):
                every = in_words(definition.every_ms)
                yield error(
                    part.span,
                    f"{name} reads values of ticks, and `{definition.name}` has a value every "
                    f"{every} only",
                    f"Set the EVERY to {every}, or to a multiple of it.",
                )
    for operand in node.operands:
        for part in walk(operand):
            accumulates = (isinstance(part, BoundAggregation) and part.function in ACCUMULATED) or (
                isinstance(part, BoundInsightReference)
                and any(each.function in ACCUMULATED for each in part.symbol.aggregates)
            )
            if accumulates:
                yield error(
                    part.span,
                    f"{name} reads earlier values, but accumulated values change with each point",
                    "Use an aggregate with a window here, such as `AVG(x, 1 MINUTE)`.",
                )
        if not operand.resolved:
            continue
        if not operand.reads:
            yield error(
                operand.span,
                f"{name} needs the values of a metric, but no metric is read here",
                "Name a metric, as in `AVG(cpu.util, 10 SECONDS)`.",
            )
        missing = frozenset(node.by) - operand.keys
        if missing and operand.reads:
            yield error(
                operand.span,
                f"the values here are not by {_words(missing)}",
                f"Remove {_words(missing)} from BY, or add it to the BY of the operand.",
            )
        further = operand.keys - frozenset(node.by)
        if further and not spec_of(node.function).over_values:
            yield error(
                operand.span,
                f"{name} needs one value at each tick, but here is one by {_words(further)}",
                f"Write the BY after {name}: `{name}(…) BY {_words(further)}`.",
            )


def _check_length(node: BoundTickSeries, trigger: Trigger) -> Iterator[Diagnostic]:
    window, offset = node.call.window, node.call.offset
    for interval, what in ((window, "a window"), (offset, "an offset")):
        problem = None if interval is None else length_error(interval, what)
        if problem is not None:
            yield problem
    if trigger.every_ms is None:
        return
    count = series_ticks(window.millis if window else None, trigger.every_ms)
    reads = count * sum(1 for each in walk(node) if isinstance(each, PointSource))
    span = node.call.span if window is None else window.span
    if count > MAX_TICKS or reads > MAX_PLAN_NODES or count * trigger.every_ms > MAX_MS:
        yield error(
            span,
            f"{_name(node)} would read the values of {count:,} ticks, and at most {MAX_TICKS:,} "
            "are possible",
            f"Choose a window of at most {in_words(MAX_TICKS * trigger.every_ms)}, or a longer "
            "EVERY.",
        )


def _name(node: BoundTickSeries) -> str:
    return node.function.name if isinstance(node.function, UserOperator) else node.function


def _words(keys: frozenset[str]) -> str:
    return ", ".join(sorted(keys))
