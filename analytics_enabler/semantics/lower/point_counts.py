"""Counting of points for EVERY n POINTS, where only every n-th point of a key has a value."""

from collections.abc import Iterator, Sequence

from analytics.plan.expressions import (
    Aggregate,
    And,
    Attribute,
    Expression,
    Membership,
    Or,
    Source,
    join_conditions,
    walk,
)
from analytics.plan.nodes import Counted


def point_counts(
    every: int, step_ms: int, expressions: Sequence[Expression], keys: tuple[str, ...]
) -> Counted:
    """Return the counts that determine the points with values: one running count for each metric.

    A count includes the points of a key that the expressions read without an offset. A point is
    counted once, even if several expressions read the point. ``every``: n, if only every n-th point
    of a key has a value. ``step_ms``: the interval between evaluations. ``keys``: the attributes
    that form the keys of the insight.
    """
    read: dict[str, dict[Source, None]] = {}
    for source in _sources(expressions, keys):
        read.setdefault(source.metric, {})[source] = None
    counts = (
        Aggregate("RUNNING_COUNT", _union(list(same)), step_ms, step_ms, keys, each_point=True)
        for same in read.values()
    )
    return Counted(every, tuple(counts))


def _sources(expressions: Sequence[Expression], keys: tuple[str, ...]) -> Iterator[Source]:
    """Yield the source of each aggregate that has no offset and whose keys include ``keys``."""
    for node in (node for root in expressions for node in walk(root)):
        if isinstance(node, Aggregate) and not node.offset_ms and set(keys) <= set(node.by):
            yield from node.sources


def _union(sources: list[Source]) -> Source:
    """Return one source with the points of all ``sources``, which read the same metric."""
    first, *others = sources
    if not others:
        return first
    conditions = [_condition(source) for source in sources]
    present = [each for each in conditions if each is not None]
    whole = len(present) < len(conditions)
    return Source(first.metric, (), None if whole else join_conditions(Or, present))


def _condition(source: Source) -> Expression | None:
    """Return the condition on the points of a source; None: all points of the metric."""
    terms = [] if source.predicate is None else [source.predicate]
    if source.entities:
        terms.append(Membership(Attribute("entityID"), source.entities))
    return join_conditions(And, terms) if terms else None
