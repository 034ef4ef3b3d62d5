"""Short steps of insights with values at points, where a shorter step costs little more."""

from collections.abc import Sequence

from analytics.plan.expressions import Aggregate, Expression, walk
from analytics.plan.functions import ACCUMULATED
from analytics.plan.point_aggregates import has_state, is_mergeable, is_ordered

_STEPS_MS = (200, 100)
"""The steps (ms) of short insights, the preferred step first.

A result waits for the end of its step, and then for the next micro-batch. About three micro-batches
run each second, so results would not arrive earlier with shorter steps.
"""

MAX_SHORT_WINDOW_MS = 60_000
"""The longest window (ms) of other functions for a short step.

Each step copies all points of the window. At 1,000 points/s, this takes 0.1 cores for a window of a
minute, and 0.4 cores for a window of five minutes.
"""

MAX_SHORT_SPAN_POINTS = 1000
"""The most points between two values of EVERY n POINTS for a short step.

The state after each step contains the points since the previous value, up to 30 bytes each.
"""


def short_step(expressions: Sequence[Expression], step_ms: int) -> int:
    """Return the step (ms) of an insight whose values at points ``expressions`` compute.

    The step is shorter than ``step_ms`` if each function is cheap in short steps: an accumulator,
    which reads only the points of a step and its state; a mergeable function, which reads few
    aggregates instead of all points of its window; an ordered function, which reads few sorted
    values; or another function of a short window. The step divides all windows and offsets.
    """
    aggregates = [
        node for root in expressions for node in walk(root) if isinstance(node, Aggregate)
    ]
    if not all(_is_short(aggregate) for aggregate in aggregates):
        return step_ms
    lengths = [
        length
        for aggregate in aggregates
        if not has_state(aggregate)
        for length in (aggregate.size_ms, aggregate.offset_ms)
    ]
    dividing = (step for step in _STEPS_MS if not any(length % step for length in lengths))
    return min(step_ms, next(dividing, step_ms))


def _is_short(aggregate: Aggregate) -> bool:
    if aggregate.function in ACCUMULATED:
        return True
    if isinstance(aggregate.points, int):
        return aggregate.points <= MAX_SHORT_SPAN_POINTS
    if is_mergeable(aggregate.function) or is_ordered(aggregate.function):
        return True
    return aggregate.size_ms <= MAX_SHORT_WINDOW_MS
