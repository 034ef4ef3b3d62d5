"""Merge identical aggregates: compute identical aggregates only once for all insights.

Aggregates with the same points, keys, size and interval become one window, and each function of
these aggregates becomes a measure of this window. Accumulating functions share a window only if
they start at the same time.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from analytics.plan.expressions import Aggregate, Expression, Measure, Source
from analytics.plan.functions import ACCUMULATED, Content, spec_of
from analytics.plan.nodes import Insight, Pane, Plan, Window, expressions_of, rewrite_insight
from analytics.plan.sampling import ProbabilitySampling
from analytics.plan.ticks import At, Ticks
from analytics_enabler.optimizer.content_names import counted, pane_of, window_of


def apply(plan: Plan) -> Plan | None:
    """Return the plan with all aggregates replaced by measures of windows.

    Each window has its own pane. Return None if the plan has no aggregates.
    """
    if plan.lowered:
        return None
    contents: dict[_Shape, set[Content]] = defaultdict(set)
    for insight in plan.insights:
        for node in expressions_of(insight):
            if isinstance(node, Aggregate):
                for shape in _shapes(node, insight.since):
                    contents[shape] |= _needed(node, shape)
    made = {shape: _made(shape, needed) for shape, needed in contents.items()}

    def measure(node: Expression, since: int) -> Expression:
        if not isinstance(node, Aggregate):
            return node
        window, *other = [made[shape][1].id for shape in _shapes(node, since)]
        return Measure(node.function, window, node.parameters, next(iter(other), None))

    windows = {window.id: window for window in plan.windows}
    windows |= {window.id: window for _, window in made.values()}
    panes = {pane.id: pane for pane in plan.panes} | {pane.id: pane for pane, _ in made.values()}
    used = {window.pane for window in windows.values()}
    return Plan(
        insights=tuple(_measured(insight, measure) for insight in plan.insights),
        windows=tuple(windows.values()),
        panes=tuple(pane for pane in panes.values() if pane.id in used),
    )


def describe(before: Plan, after: Plan) -> str:
    """Return a phrase with the number of replaced aggregates and the number of windows."""
    found = sum(
        isinstance(node, Aggregate)
        for insight in before.insights
        for node in expressions_of(insight)
    )
    return f"{counted(found, 'aggregate')} replaced by {counted(len(after.windows), 'window')}"


@dataclass(frozen=True, slots=True)
class _Shape:
    """The properties that are equal for all aggregates of one window."""

    source: Source
    by: tuple[str, ...]
    size_ms: int
    every_ms: int
    offset_ms: int
    each_point: bool
    start: int | None
    at: At
    hold_ms: int | msgspec.UnsetType
    points: int | msgspec.UnsetType


def _shapes(node: Aggregate, since: int) -> Iterator[_Shape]:
    accumulates = node.function in ACCUMULATED or node.points is not msgspec.UNSET
    start = since if accumulates else None
    lengths = (node.size_ms, node.every_ms, node.offset_ms)
    for source in node.sources:
        yield _Shape(
            source, node.by, *lengths, node.each_point, start, node.at, node.hold_ms, node.points
        )


def _needed(node: Aggregate, shape: _Shape) -> set[Content]:
    content = "points" if node.each_point else spec_of(node.function).content
    if content is not None:
        return {content}
    return {"sample"} if isinstance(shape.source.sampling, ProbabilitySampling) else set()


def _made(shape: _Shape, contents: set[Content]) -> tuple[Pane, Window]:
    ticks = Ticks(shape.every_ms, shape.at)
    hold_ms = 0 if shape.hold_ms is msgspec.UNSET else shape.hold_ms
    width = math.gcd(shape.size_ms, ticks.step_ms, shape.offset_ms, hold_ms)
    pane = pane_of(shape.source, shape.by, width, contents)
    return pane, window_of(
        pane,
        shape.size_ms,
        shape.every_ms,
        shape.offset_ms,
        contents,
        each_point=shape.each_point,
        start=shape.start,
        at=shape.at,
        hold_ms=shape.hold_ms,
        points=shape.points,
    )


def _measured(insight: Insight, measure: Callable[[Expression, int], Expression]) -> Insight:
    return rewrite_insight(insight, lambda node: measure(node, insight.since))
