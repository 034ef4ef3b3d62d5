"""Compute each distinct aggregate once, however many insights name it.

Aggregates of the same points, keys, size and interval become one window, and each function of
them a measure of it.
"""

import math
from collections.abc import Callable

import msgspec

from analytics_enabler.optimizer.naming import pane_of, window_of
from mistbow.plan.expressions import Aggregate, Expression, Measure, rewrite
from mistbow.plan.nodes import Insight, Plan


def apply(plan: Plan) -> Plan | None:
    """Turn every aggregate into a measure of a window whose pane serves that window alone."""
    if plan.lowered:
        return None
    panes = {pane.id: pane for pane in plan.panes}
    windows = {window.id: window for window in plan.windows}

    def measure(node: Expression) -> Expression:
        if not isinstance(node, Aggregate):
            return node
        pane = pane_of(node.source, node.by, math.gcd(node.size_ms, node.every_ms))
        window = window_of(pane, node.size_ms, node.every_ms)
        panes.setdefault(pane.id, pane)
        windows.setdefault(window.id, window)
        return Measure(node.function, window.id)

    insights = tuple(_rewritten(insight, measure) for insight in plan.insights)
    return Plan(insights=insights, windows=tuple(windows.values()), panes=tuple(panes.values()))


def _rewritten(insight: Insight, change: Callable[[Expression], Expression]) -> Insight:
    return msgspec.structs.replace(
        insight,
        expression=rewrite(insight.expression, change),
        filter=None if insight.filter is None else rewrite(insight.filter, change),
    )
