"""Short steps of insights with values at points, where a shorter step costs no more."""

from collections.abc import Sequence

import msgspec

from analytics.plan.expressions import Aggregate, Expression, rewrite, walk
from analytics.plan.functions import ACCUMULATED
from analytics.plan.point_aggregates import is_mergeable

_STEPS_MS = (200, 100)
"""The steps (ms) of mergeable functions, the preferred step first.

A result waits for the end of its step, and then for the next micro-batch. About three micro-batches
run each second, so results would not arrive earlier with shorter steps.
"""


def short_step(expressions: Sequence[Expression], step_ms: int) -> int:
    """Return the step (ms) of an insight whose values at points ``expressions`` compute.

    The step is shorter than ``step_ms`` if all functions are mergeable: a value then reads few
    aggregates instead of all points of its window, whatever the step. The step divides all windows
    and offsets.
    """
    aggregates = [
        node for root in expressions for node in walk(root) if isinstance(node, Aggregate)
    ]
    if not all(_is_short(aggregate) for aggregate in aggregates):
        return step_ms
    lengths = [
        length for aggregate in aggregates for length in (aggregate.size_ms, aggregate.offset_ms)
    ]
    dividing = (step for step in _STEPS_MS if not any(length % step for length in lengths))
    return min(step_ms, next(dividing, step_ms))


def with_step(expression: Expression, step_ms: int) -> Expression:
    """Return an expression whose aggregates are evaluated at intervals of ``step_ms``."""

    def change(node: Expression) -> Expression:
        if not isinstance(node, Aggregate):
            return node
        return msgspec.structs.replace(node, every_ms=step_ms)

    return rewrite(expression, change)


def _is_short(aggregate: Aggregate) -> bool:
    return (
        aggregate.function not in ACCUMULATED
        and aggregate.points is msgspec.UNSET
        and is_mergeable(aggregate.function)
    )
