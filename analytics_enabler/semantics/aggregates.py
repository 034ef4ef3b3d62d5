"""The meaning of an aggregate over points: its function, its points and its window."""

import math
from dataclasses import dataclass

import msgspec

from analytics_enabler.limits import MOST_PANES
from analytics_enabler.semantics.conditions import translate_condition
from analytics_enabler.semantics.findings import Findings, beginning
from analytics_enabler.semantics.scopes import PointScope
from analytics_enabler.semantics.steps import advice_at_a_time, advice_at_points, advice_at_ticks
from grammar import ast
from grammar.units import in_words
from mistbow.plan.expressions import (
    ACCUMULATING,
    Aggregate,
    And,
    AnyFunction,
    Expression,
    Parameters,
    Source,
)
from mistbow.plan.ticks import At, Ticks

SHORTEST_MS = 100
LONGEST_MS = 366 * 86_400_000
STAND_IN_MS = 1000
_MINUTE_MS = 60_000
CURRENT_MS = 60_000
"""What is older than this, and than the EVERY interval, is no current value."""

WITHOUT_WINDOW = ACCUMULATING | {"LATEST"}
"""Functions whose windows nobody writes: they are as long as it takes at an insight's moments."""


@dataclass(frozen=True, slots=True)
class Aggregates:
    """What all aggregates of one insight, or of a part of it in parentheses, have in common.

    ``predicate`` holds for every point that any of them reads; ``every_ms`` is None where the
    interval is impossible. With ``each_point`` they have a value at each point, told so often; else
    at ticks, which may be ``at`` a time of day.
    """

    findings: Findings
    by: tuple[str, ...]
    every_ms: int | None
    predicate: Expression | None
    each_point: bool = False
    at: At = msgspec.UNSET

    @property
    def ticks(self) -> Ticks:
        """When they have values, unless that is at points."""
        return Ticks(self.every_ms or STAND_IN_MS, self.at)

    def over_points(
        self, function: AnyFunction, node: ast.Call, streams: list[ast.MetricStream],
        parameters: Parameters,
    ) -> Aggregate:  # fmt: skip
        """Return the plan's aggregate of one metric or two."""
        source, *other = [self._source(stream) for stream in streams]
        if function in ACCUMULATING:
            return self._accumulated(function, node, source, parameters)
        return Aggregate(
            function,
            source,
            self._size(node),
            self.every_ms or STAND_IN_MS,
            self.by,
            self._offset(node),
            parameters,
            next(iter(other), None),
            self.each_point,
            self.at,
        )

    def _accumulated(
        self, function: AnyFunction, node: ast.Call, source: Source, parameters: Parameters
    ) -> Aggregate:
        for interval in filter(None, (node.window, node.offset)):
            self.findings.error(
                interval.span,
                f"{function} accumulates since the insight was deployed: it has no window",
                "Leave it out.",
            )
        if len(self.ticks.phases) > 1:
            self.findings.error(
                beginning(node.span, len(node.function)),
                f"{function} takes what came since the tick before, and where clocks change, days "
                "are not equally long",
                "Take a zone whose clocks never change, as in `EVERY 1 DAYS AT 23:59 GMT`.",
            )
        every = self.every_ms or STAND_IN_MS
        return Aggregate(
            function,
            source,
            every,
            every,
            self.by,
            parameters=parameters,
            each_point=self.each_point,
            at=self.at,
        )

    def check_referred(self, aggregate: Aggregate, span: ast.Span) -> None:
        """Say where a window of another insight does not fit the moments of this one."""
        size, offset = aggregate.size_ms, aggregate.offset_ms
        if aggregate.function not in WITHOUT_WINDOW and self.every_ms is not None:
            self._check_cut(size, span, f"its window of {in_words(size)}", offset)

    def latest(self, stream: ast.MetricStream) -> Aggregate:
        """Return what a metric by itself means: its latest value, none that is too old."""
        every = self.every_ms or STAND_IN_MS
        size = current_ms(every)
        source = self._source(stream)
        return Aggregate(
            "LATEST", source, size, every, self.by, each_point=self.each_point, at=self.at
        )

    def _source(self, stream: ast.MetricStream) -> Source:
        own = None
        if stream.when is not None:
            scope = PointScope(self.findings, stream.metric)
            own = translate_condition(stream.when, scope, self.findings)
        predicates = [predicate for predicate in (own, self.predicate) if predicate is not None]
        return Source(
            stream.metric,
            tuple(sorted(set(stream.members))),
            And(*predicates) if len(predicates) == 2 else next(iter(predicates), None),
        )

    def _size(self, node: ast.Call) -> int:
        if node.window is None and self.each_point:
            self.findings.error(
                beginning(node.span, len(node.function)),
                f"{node.function} does not say over how long, and no EVERY does",
                f"Give it a window, as in `{node.function}(x, 10 SECONDS)`, or let EVERY be an "
                "interval.",
            )
        if node.window is None:
            return self.every_ms or STAND_IN_MS
        size = node.window.millis
        if check_length(node.window, "a window", self.findings) and self.every_ms is not None:
            self._check_cut(size, node.window.span, "this window")
        return size

    def _check_cut(self, size: int, span: ast.Span, window: str, offset: int = 0) -> None:
        pane = math.gcd(size, self.ticks.step_ms, offset)
        # What ends once a day may be of many panes: each is in few such windows.
        enough = MOST_PANES * pane if self.at is msgspec.UNSET or pane < _MINUTE_MS else LONGEST_MS
        if size <= enough:
            return
        message = f"{window} and EVERY share no larger step than {in_words(pane)}"
        if self.each_point:
            message = f"at points, {window} is told in steps of {in_words(pane)}"
            hint = advice_at_points(size)
        elif self.at is not msgspec.UNSET:
            hint = advice_at_a_time(size)
        else:
            hint = advice_at_ticks(size, self.every_ms or STAND_IN_MS)
        self.findings.error(span, f"{message}, under 1/{MOST_PANES} of the window", hint)

    def _offset(self, node: ast.Call) -> int:
        if node.offset is None:
            return 0
        check_length(node.offset, "an offset", self.findings)
        offset = node.offset.millis
        if self.each_point:
            return offset
        if self.every_ms is not None and offset % self.every_ms:
            self.findings.error(
                node.offset.span,
                f"an offset of {in_words(offset)} is no multiple of EVERY",
                f"Shift by whole steps of {in_words(self.every_ms)}.",
            )
            return 0
        return offset


def current_ms(every_ms: int) -> int:
    """Return for how long (ms) a value is current, told every ``every_ms``."""
    return -(-CURRENT_MS // every_ms) * every_ms


def check_length(interval: ast.Interval, what: str, findings: Findings) -> bool:
    """Return whether a window, an offset or an EVERY interval has a length that is possible."""
    if SHORTEST_MS <= interval.millis <= LONGEST_MS:
        return True
    short = interval.millis < SHORTEST_MS
    findings.error(
        interval.span,
        f"{what} of {in_words(interval.millis)} is too {'short' if short else 'long'}",
        f"It may be {in_words(SHORTEST_MS)} to {in_words(LONGEST_MS)}.",
    )
    return False
