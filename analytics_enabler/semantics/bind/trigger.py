"""The trigger of an insight: the times at which the insight has values (EVERY)."""

import math
from collections.abc import Iterable

from analytics.plan.ticks import DAY_MS, Ticks, TimeOfDay, is_zone, zones
from analytics_enabler.limits import PREFERRED_PANES
from analytics_enabler.semantics.bind.bound_tree import Trigger
from analytics_enabler.semantics.diagnostics import Diagnostics, Suggestions, did_you_mean
from analytics_enabler.semantics.window_lengths import (
    CURRENT_MS,
    LONG_MS,
    MIN_MS,
    SHORT_MS,
    fits,
    length_error,
)
from grammar import ast
from grammar.trees import walk
from grammar.units import in_words

_GENERAL = ("GMT", "UTC")
"""The time zones whose names may be written in upper or lower case."""

_EXAMPLES = (*_GENERAL, "`Europe/Berlin`", "`+02:00`", "others of IANA")
_STEPS = 60
"""The preferred minimum number of steps in the longest window at points.

A point is read once for each step of its window, so more steps cost more.
"""


def bind_trigger(
    insight: ast.InsightStatement,
    lengths: Iterable[int],
    diagnostics: Diagnostics,
    suggestions: Suggestions,
) -> Trigger:
    """Return the trigger of an insight; an insight without an EVERY has values at each point.

    ``lengths``: the lengths (ms) of the windows and offsets of referenced insights.
    """
    match insight.every:
        case None:
            return Trigger(_step_at_points(insight, lengths, diagnostics), each_point=True)
        case ast.PointCount(count):
            step = _step_at_points(insight, lengths, diagnostics)
            return Trigger(step, each_point=True, points=count)
        case ast.Interval() as every:
            return Trigger(_bind_interval(every, diagnostics))
        case ast.Daily() as every:
            return _bind_daily(every, diagnostics, suggestions)


def ticks_of(every: ast.Interval | ast.Daily) -> Ticks | None:
    """Return the ticks of an EVERY; None if its time zone is unknown."""
    match every:
        case ast.Interval(millis):
            return Ticks(millis)
        case ast.Daily(days, at, zone):
            name = zone.upper() if zone.upper() in _GENERAL else zone
            time = TimeOfDay((60 * at.hour + at.minute) * 60_000, name)
            return Ticks(days * DAY_MS, time) if is_zone(name) else None


def _bind_interval(every: ast.Interval, diagnostics: Diagnostics) -> int | None:
    problem = length_error(every, "an EVERY interval")
    if problem is None:
        return every.millis
    diagnostics.extend([problem])
    return None


def _bind_daily(every: ast.Daily, diagnostics: Diagnostics, suggestions: Suggestions) -> Trigger:
    every_ms = _bind_interval(ast.Interval(every.days * DAY_MS, span=every.span), diagnostics)
    ticks = ticks_of(every)
    if ticks is None:
        near = suggestions.nearest(every.zone, zones())
        diagnostics.error(
            every.span,
            f"there is no time zone `{every.zone}`",
            did_you_mean(near) if near else f"Time zones are, for example, {', '.join(_EXAMPLES)}.",
        )
        return Trigger(None)
    return Trigger(every_ms, at=ticks.at)


def _step_at_points(
    insight: ast.InsightStatement, lengths: Iterable[int], diagnostics: Diagnostics
) -> int | None:
    step = _step(insight, lengths)
    if step >= MIN_MS:
        return step
    diagnostics.error(
        insight.expression.span,
        f"values at points are evaluated in steps that divide all windows and offsets; here, the "
        f"largest such step is {in_words(step)}",
        f"Use windows and offsets that are multiples of {in_words(MIN_MS)}, or add an EVERY.",
    )
    return None


def _step(insight: ast.InsightStatement, referred: Iterable[int]) -> int:
    """Return the interval (ms) at which values at points are evaluated.

    The interval divides all windows and offsets. Longer windows and offsets give a longer interval.
    """
    own = (
        interval.millis
        for call in walk(insight)
        if isinstance(call, ast.FunctionCall)
        for interval in (call.window, call.offset)
        if interval is not None
    )
    lengths = [*own, *referred]
    common = math.gcd(CURRENT_MS, *lengths)
    longest = max(lengths, default=CURRENT_MS)
    coarse = [step for step in SHORT_MS if common % step == 0]
    fine = [step for step in coarse if step * _STEPS <= longest]
    step = max(fine, default=min(coarse, default=common))
    if fits(longest, step, PREFERRED_PANES):
        return step
    whole = math.gcd(*lengths)
    long = [step for step in LONG_MS if whole % step == 0]
    return next(
        (step for step in long if fits(longest, step, PREFERRED_PANES)),
        next((each for each in (step, *long) if fits(longest, each)), common),
    )
