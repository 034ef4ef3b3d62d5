"""The check of aggregates without a window in insights with EVERY n POINTS.

Such an aggregate reads the points that EVERY counts, so the insight must count points of one kind.
"""

from collections.abc import Iterator

from analytics.plan.functions import ACCUMULATED
from analytics_enabler.limits import MAX_SPAN_POINTS
from analytics_enabler.semantics.bind.bound_tree import (
    BoundAggregation,
    BoundInsight,
    BoundInsightReference,
)
from analytics_enabler.semantics.checks.context import Context
from analytics_enabler.semantics.diagnostics import error, head
from grammar import Diagnostic


def check_point_spans(insight: BoundInsight, _context: Context) -> Iterator[Diagnostic]:
    """Yield an error for the first aggregate without a window that has no points to read."""
    count = insight.trigger.points
    if count is None:
        return
    spans = [
        node
        for node in insight.nodes
        if isinstance(node, BoundAggregation)
        and node.call.window is None
        and node.function not in ACCUMULATED
    ]
    for node in spans:
        problem = _problem(node, insight, count)
        if problem is not None:
            message, hint = problem
            yield error(head(node.span, len(node.call.function)), message, hint)
            return


def _problem(node: BoundAggregation, insight: BoundInsight, count: int) -> tuple[str, str] | None:
    name = node.call.function
    window = f"Add a window, as in `{name}({node.sources[0].metric}, 10 SECONDS)`."
    if len(node.sources) > 1:
        return f"{name} of two metrics needs a window with EVERY n POINTS", window
    if count > MAX_SPAN_POINTS:
        return (
            f"without a window, {name} reads the points that EVERY counts, which are {count:,}",
            f"Choose at most {MAX_SPAN_POINTS:,} points, or add a window to {name}.",
        )
    if node.keys != frozenset(insight.keys):
        return (
            f"without a window, {name} reads the points that EVERY counts for each key of the "
            "insight, but here it has other keys",
            window,
        )
    counted = set(insight.sources)
    references = any(isinstance(each, BoundInsightReference) for each in insight.nodes)
    if len(counted) > 1 or references:
        return (
            f"without a window, {name} reads the points that EVERY counts, but here EVERY also "
            "counts other points",
            f"{window[:-1]}, or read the same points everywhere in the insight.",
        )
    return None
