"""When an insight has values: at ticks, at each point, or at each n-th one."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from analytics_enabler.semantics.aggregates import CURRENT_MS, SHORTEST_MS, check_length
from analytics_enabler.semantics.findings import Findings, did_you_mean
from analytics_enabler.semantics.steps import LONG_MS, SHORT_MS, is_cut
from analytics_enabler.semantics.trees import walk
from grammar import ast
from grammar.units import in_words
from mistbow.plan.ticks import DAY_MS, At, Ticks, TimeOfDay, is_zone, zones

_GENERAL = ("GMT", "UTC")
"""The zones whose names may be written in any case."""

_EXAMPLES = (*_GENERAL, "`Europe/Berlin`", "`+02:00`", "others of IANA")
_FINEST_SHARE = 60
"""A window that ends at each point is read as often as it is long divided by the step."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Every ``every_ms``, None where that is impossible, at ticks or what each point said since.

    Ticks may be ``at`` a time of day.
    Where ``points`` are counted, only each so manyth of a key has said something.
    """

    every_ms: int | None
    each_point: bool = False
    points: int | None = None
    at: At = msgspec.UNSET


def pace_of(insight: ast.Insight, lengths: Iterable[int], findings: Findings) -> Pace:
    """Return when an insight has values; without an EVERY, at each point.

    ``lengths`` (ms) are those of windows and offsets of what it refers to.
    """
    match insight.every:
        case None:
            return Pace(_possible_step(insight, lengths, findings), each_point=True)
        case ast.Points(count):
            step = _possible_step(insight, lengths, findings)
            return Pace(step, each_point=True, points=count)
        case ast.Interval() as every:
            possible = check_length(every, "an EVERY interval", findings)
            return Pace(every.millis if possible else None)
        case ast.Daily() as every:
            return _daily(every, findings)


def ticks_of(every: ast.Interval | ast.Daily) -> Ticks | None:
    """Return the ticks of an EVERY, None where nobody knows the clocks there."""
    match every:
        case ast.Interval(millis):
            return Ticks(millis)
        case ast.Daily(days, at, zone):
            name = zone.upper() if zone.upper() in _GENERAL else zone
            time = TimeOfDay((60 * at.hour + at.minute) * 60_000, name)
            return Ticks(days * DAY_MS, time) if is_zone(name) else None


def _daily(every: ast.Daily, findings: Findings) -> Pace:
    interval = ast.Interval(every.days * DAY_MS, span=every.span)
    possible = check_length(interval, "an EVERY interval", findings)
    ticks = ticks_of(every)
    if ticks is None:
        near = findings.nearest(every.zone, zones())
        findings.error(
            every.span,
            f"there is no time zone `{every.zone}`",
            did_you_mean(near) if near else f"There are {', '.join(_EXAMPLES)}.",
        )
    if ticks is None or not possible:
        return Pace(None)
    return Pace(ticks.every_ms, at=ticks.at)


def _possible_step(insight: ast.Insight, lengths: Iterable[int], findings: Findings) -> int | None:
    step = _step(insight, lengths)
    if step >= SHORTEST_MS:
        return step
    findings.error(
        insight.expression.span,
        f"the windows and offsets here share no larger step than {in_words(step)}, in which values "
        "at points would be told",
        f"Let all of them be multiples of {in_words(SHORTEST_MS)}, or add an EVERY.",
    )
    return None


def _step(insight: ast.Insight, referred: Iterable[int]) -> int:
    """Return how often values at points are told: seldom where that costs much."""
    own = (
        interval.millis
        for call in walk(insight)
        if isinstance(call, ast.Call)
        for interval in (call.window, call.offset)
        if interval is not None
    )
    lengths = [*own, *referred]
    common = math.gcd(CURRENT_MS, *lengths)
    longest = max(lengths, default=CURRENT_MS)
    coarse = [step for step in SHORT_MS if common % step == 0]
    fits = [step for step in coarse if step * _FINEST_SHARE <= longest]
    step = max(fits, default=min(coarse, default=common))
    if is_cut(longest, step):
        return step
    whole = math.gcd(*lengths)
    fits = [step for step in LONG_MS if whole % step == 0 and is_cut(longest, step)]
    return min(fits, default=common)
