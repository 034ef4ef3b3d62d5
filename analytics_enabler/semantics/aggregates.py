"""The meaning of an aggregate: its function, its points and its window."""

import math
from dataclasses import dataclass

from analytics_enabler.limits import MOST_PANES
from analytics_enabler.semantics.computed import COMPUTED_FUNCTIONS
from analytics_enabler.semantics.conditions import translate_condition
from analytics_enabler.semantics.findings import Findings, beginning, did_you_mean, nearest
from analytics_enabler.semantics.scopes import PointScope
from grammar import ast
from grammar.functions import FUNCTIONS
from grammar.units import in_words
from mistbow.plan.expressions import Aggregate, And, Expression, Function, Source

SHORTEST_MS = 100
LONGEST_MS = 366 * 86_400_000
STAND_IN_MS = 1000


@dataclass(frozen=True, slots=True)
class Aggregates:
    """What all aggregates of one insight have in common.

    ``predicate`` holds for every point that any of them reads; ``every_ms`` is None where the
    interval is missing or impossible.
    """

    findings: Findings
    by: tuple[str, ...]
    every_ms: int | None
    predicate: Expression | None

    def translate(self, node: ast.Call) -> Aggregate:
        """Return the plan's aggregate; where something is wrong, a stand-in for it."""
        return Aggregate(
            self._function(node),
            self._source(stream_of(node)),
            self._size(node),
            self.every_ms or STAND_IN_MS,
            self.by,
        )

    def _function(self, node: ast.Call) -> Function:
        for function in COMPUTED_FUNCTIONS:
            if function == node.function:
                return function
        near = nearest(node.function, FUNCTIONS)
        self.findings.error(
            beginning(node.span, len(node.function)),
            f"there is no function `{node.function}`",
            did_you_mean(near) if near else f"There are {', '.join(COMPUTED_FUNCTIONS)}.",
        )
        return "AVG"

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
        if node.window is None:
            return self.every_ms or STAND_IN_MS
        size = node.window.millis
        if not check_length(node.window, "a window", self.findings) or self.every_ms is None:
            return size
        pane = math.gcd(size, self.every_ms)
        if size > MOST_PANES * pane:
            self.findings.error(
                node.window.span,
                f"this window and EVERY share no larger step than {in_words(pane)}, "
                f"under 1/{MOST_PANES} of the window",
                "Choose a window that is a multiple of the EVERY interval.",
            )
        return size


def stream_of(call: ast.Call) -> ast.MetricStream:
    """Return the metric that an aggregate is of; where it is of something else, a stand-in."""
    match call.arguments[0]:
        case ast.MetricStream() as stream:
            return stream
        case ast.Name(name) as bare:
            return ast.MetricStream(name, span=bare.span)
        case other:
            return ast.MetricStream(call.function, span=other.span)


def check_length(interval: ast.Interval, what: str, findings: Findings) -> bool:
    """Return whether a window or an EVERY interval has a length that is possible."""
    if SHORTEST_MS <= interval.millis <= LONGEST_MS:
        return True
    short = interval.millis < SHORTEST_MS
    findings.error(
        interval.span,
        f"{what} of {in_words(interval.millis)} is too {'short' if short else 'long'}",
        f"It may be {in_words(SHORTEST_MS)} to {in_words(LONGEST_MS)}.",
    )
    return False
