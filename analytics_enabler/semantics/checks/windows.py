"""Checks of the windows and offsets of aggregates against the trigger of their insight."""

import math
from collections.abc import Iterator

import msgspec

from analytics.plan.functions import ACCUMULATED
from analytics_enabler.limits import MAX_PANES
from analytics_enabler.semantics.bind.bound_tree import (
    BoundAggregation,
    BoundInsight,
    BoundInsightReference,
    BoundTickSeries,
    ScalarCall,
    Trigger,
)
from analytics_enabler.semantics.checks.context import Context
from analytics_enabler.semantics.diagnostics import error, head
from analytics_enabler.semantics.window_lengths import (
    MAX_MS,
    MIN_MS,
    WITHOUT_WINDOW,
    hint_at_a_time,
    hint_at_points,
    hint_at_ticks,
    length_error,
)
from grammar import Diagnostic, ast
from grammar.units import in_words

_MINUTE_MS = 60_000


def check_windows(insight: BoundInsight, _context: Context) -> Iterator[Diagnostic]:
    """Yield errors for windows and offsets that are invalid or do not fit the insight's trigger."""
    trigger = insight.trigger
    # Without EVERY, values of ticks are an error already, whose remedy gives all windows a length.
    needs_ticks = any(isinstance(node, BoundTickSeries) for node in insight.nodes)
    for node in insight.nodes:
        match node:
            case ScalarCall(call=call):
                for interval in filter(None, (call.window, call.offset)):
                    yield error(
                        interval.span,
                        f"{call.function} takes single values, and has no window",
                        "Move the window to an aggregate inside the call.",
                    )
            case BoundAggregation(function) if function in ACCUMULATED:
                yield from _check_accumulation(node, trigger)
            case BoundAggregation():
                if node.call.window is not None or not needs_ticks:
                    yield from _check_window(node, trigger)
                yield from _check_offset(node, trigger)
            case BoundInsightReference(symbol):
                for part in symbol.aggregates:
                    if part.function not in WITHOUT_WINDOW:
                        window = f"its window of {in_words(part.size_ms)}"
                        yield from _check_panes(
                            part.size_ms, node.span, window, trigger, part.offset_ms
                        )


def _check_accumulation(node: BoundAggregation, trigger: Trigger) -> Iterator[Diagnostic]:
    name = node.call.function
    for interval in filter(None, (node.call.window, node.call.offset)):
        yield error(
            interval.span,
            f"{name} accumulates since the insight was deployed, and has no window",
            "Remove the window.",
        )
    if trigger.ticks is not None and len(trigger.ticks.phases) > 1:
        yield error(
            head(node.span, len(name)),
            f"{name} accumulates from tick to tick, and where clocks change, days are "
            "not equally long",
            "Use a zone whose clocks never change, as in `EVERY 1 DAYS AT 23:59 GMT`.",
        )


def _check_window(node: BoundAggregation, trigger: Trigger) -> Iterator[Diagnostic]:
    window, name = node.call.window, node.call.function
    if window is None:
        if trigger.each_point and trigger.points is None:
            yield error(
                head(node.span, len(name)),
                f"{name} needs a window, because the insight has no EVERY interval",
                f"Add a window, as in `{name}(x, 10 SECONDS)`, or write an interval after EVERY.",
            )
        return
    problem = length_error(window, "a window")
    if problem is not None:
        yield problem
    elif node.call.offset is None:
        yield from _check_panes(window.millis, window.span, "this window", trigger)


def _check_panes(
    size_ms: int, span: ast.Span, window: str, trigger: Trigger, offset_ms: int = 0
) -> Iterator[Diagnostic]:
    """Yield an error for a window that consists of too many panes.

    ``window``: the phrase for the window in the message.
    """
    if trigger.every_ms is None or trigger.ticks is None:
        return
    pane_ms = math.gcd(size_ms, trigger.ticks.step_ms, offset_ms)
    daily = trigger.at is not msgspec.UNSET
    # A window that ends once a day may have many panes: each is in few such windows.
    limit_ms = MAX_MS if daily and pane_ms >= _MINUTE_MS else MAX_PANES * pane_ms
    if size_ms <= limit_ms:
        return
    message = f"the greatest common divisor of {window} and EVERY is {in_words(pane_ms)}"
    if trigger.each_point:
        message = f"at points, {window} is evaluated in steps of {in_words(pane_ms)}"
        hint = hint_at_points(size_ms)
    elif daily:
        hint = hint_at_a_time(size_ms)
    else:
        hint = hint_at_ticks(size_ms, trigger.every_ms)
    yield error(span, f"{message}, under 1/{MAX_PANES:,} of the window", hint)


def _check_offset(node: BoundAggregation, trigger: Trigger) -> Iterator[Diagnostic]:
    offset = node.call.offset
    if offset is None:
        return
    problem = length_error(offset, "an offset")
    if problem is not None:
        yield problem
    elif offset.millis % MIN_MS:
        nearest = in_words(max(offset.millis - offset.millis % MIN_MS, MIN_MS))
        yield error(
            offset.span,
            f"an offset of {in_words(offset.millis)} is not a multiple of {in_words(MIN_MS)}",
            f"Choose, for example, {nearest}.",
        )
    elif node.call.window is None or MIN_MS <= node.call.window.millis <= MAX_MS:
        size_ms = trigger.every_ms if node.call.window is None else node.call.window.millis
        if size_ms is not None:
            yield from _check_panes(size_ms, offset.span, "this window", trigger, offset.millis)
