"""The conditions that all points of a metric, or all results, must satisfy."""

from collections.abc import Collection, Iterator

from analytics_enabler.semantics.bind.bound_tree import (
    BoundCondition,
    BoundInsight,
    Conjunction,
    PointSource,
)


def conjuncts(conditions: Collection[BoundCondition]) -> Iterator[BoundCondition]:
    """Yield the conditions that must all be true, without conjunctions."""
    for condition in conditions:
        if isinstance(condition, Conjunction):
            yield from conjuncts(condition.terms)
        else:
            yield condition


def point_conditions(insight: BoundInsight, source: PointSource) -> Iterator[BoundCondition]:
    """Yield the conditions that all points of a source must satisfy, without conjunctions."""
    allowed = (each.condition for each in insight.allowed if each.metric in (None, source.metric))
    return conjuncts((*source.terms, *insight.when.on_points, *allowed))
