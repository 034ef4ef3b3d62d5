"""Lowering of SAMPLE, MAX_ERROR and ADAM to the sampling of the points that an insight reads."""

import math
from collections.abc import Callable, Sequence

import msgspec

from analytics.plan.expressions import Aggregate, Expression, rewrite
from analytics.plan.sampling import Bernoulli, FixedSize, NeymanAllocation, Sampling
from analytics_enabler.semantics.bind.bound_tree import BoundOptions, BoundSampling
from grammar import ast

MAX_PERIOD_MS = 60_000
"""The maximum length (ms) of a period whose points predict the variance of the next period."""

_SHARE_OF_BOUND = 0.5
"""The minimum share of points to select for MAX_ERROR with AWARENESS ON ACCURACY."""


def sample(expressions: Sequence[Expression], options: BoundOptions) -> list[Expression]:
    """Return expressions whose aggregates read points that are sampled as the options request."""
    change = _change(options)
    return [rewrite(each, change) for each in expressions] if change else list(expressions)


def _change(options: BoundOptions) -> Callable[[Expression], Expression] | None:
    request, adaptive = options.sampling, options.adaptive

    def of_storage(node: Expression) -> Expression:
        if request is None or not isinstance(node, Aggregate):
            return node
        # Samples are evaluated at ticks.
        sampled = _with_sampling(node, _sampling(request, node))
        return msgspec.structs.replace(sampled, each_point=False)

    def at_source(node: Expression) -> Expression:
        if adaptive is None or not isinstance(node, Aggregate):
            return node
        return _with_sampling(node, adaptive)

    if request is not None:
        return of_storage
    return None if adaptive is None else at_source


def _with_sampling(node: Aggregate, sampling: Sampling) -> Aggregate:
    source = msgspec.structs.replace(node.source, sampling=sampling)
    return msgspec.structs.replace(node, source=source)


def _sampling(request: BoundSampling, aggregate: Aggregate) -> Sampling:
    """Return the sampling design for the points that an aggregate reads."""
    step = math.gcd(aggregate.size_ms, aggregate.ticks.step_ms, aggregate.offset_ms)
    match request.option:
        case ast.SampleOption(size=int() as size):
            return FixedSize(size, step)
        case ast.SampleOption(share=float() as even) if not request.accurate:
            return Bernoulli(even)
    # A period that divides the window has the same estimate for all of its panes.
    period = step * max(1, min(aggregate.size_ms, MAX_PERIOD_MS) // step)
    periods = aggregate.size_ms / period
    match request.option:
        case ast.Accuracy(error, confidence):
            share = _SHARE_OF_BOUND if request.accurate else None
            return NeymanAllocation(period, periods, share, error, confidence or 0.95)
        case ast.SampleOption(share=share):
            return NeymanAllocation(period, periods, share)
