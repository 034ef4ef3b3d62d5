"""Compute each distinct aggregate once, however many insights name it.

Aggregates of the same points, keys, size and interval become one window, and each function of
them a measure of it. What accumulates is the same only if it does so since the same moment.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from analytics_enabler.optimizer.naming import pane_of, these, window_of
from mistbow.plan.contents import Content, content_of
from mistbow.plan.expressions import (
    ACCUMULATING,
    Aggregate,
    Expression,
    Measure,
    Source,
)
from mistbow.plan.nodes import Insight, Pane, Plan, Window, expressions_of, rewritten
from mistbow.plan.sampling import ByLot
from mistbow.plan.ticks import At, Ticks


def apply(plan: Plan) -> Plan | None:
    """Turn every aggregate into a measure of a window whose pane serves that window alone."""
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


def did(before: Plan, after: Plan) -> str:
    """Say what the rule did."""
    found = sum(
        isinstance(node, Aggregate)
        for insight in before.insights
        for node in expressions_of(insight)
    )
    return f"{these(found, 'aggregate')} by {these(len(after.windows), 'window')}"


@dataclass(frozen=True, slots=True)
class _Shape:
    """What makes a window the same as another one."""

    source: Source
    by: tuple[str, ...]
    size_ms: int
    every_ms: int
    offset_ms: int
    each_point: bool
    start: int | None
    at: At


def _shapes(node: Aggregate, since: int) -> Iterator[_Shape]:
    start = since if node.function in ACCUMULATING else None
    lengths = (node.size_ms, node.every_ms, node.offset_ms)
    for source in filter(None, (node.source, node.other)):
        yield _Shape(source, node.by, *lengths, node.each_point, start, node.at)


def _needed(node: Aggregate, shape: _Shape) -> set[Content]:
    content = "points" if node.each_point else content_of(node.function)
    if content is not None:
        return {content}
    return {"sample"} if isinstance(shape.source.sampling, ByLot) else set()


def _made(shape: _Shape, contents: set[Content]) -> tuple[Pane, Window]:
    ticks = Ticks(shape.every_ms, shape.at)
    width = math.gcd(shape.size_ms, ticks.step_ms, shape.offset_ms)
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
    )


def _measured(insight: Insight, measure: Callable[[Expression, int], Expression]) -> Insight:
    return rewritten(insight, lambda node: measure(node, insight.since))
