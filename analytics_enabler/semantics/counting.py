"""EVERY n POINTS: which points count, each of them once however often an insight reads it."""

from collections.abc import Iterator, Sequence

from analytics_enabler.semantics.aggregates import STAND_IN_MS
from analytics_enabler.semantics.conditions import conjunction
from analytics_enabler.semantics.findings import Findings
from analytics_enabler.semantics.pace import Pace
from grammar import ast
from mistbow.plan.expressions import (
    Aggregate,
    Attribute,
    Expression,
    Membership,
    Or,
    Source,
    joined,
    walk,
)
from mistbow.plan.nodes import Counted


def counted(pace: Pace, expressions: Sequence[Expression], keys: tuple[str, ...]) -> Counted | None:
    """Return what counts, by metric, the points at which expressions have values for ``keys``.

    None where a pace does not ask for that.
    """
    if pace.points is None:
        return None
    step = pace.every_ms or STAND_IN_MS
    read: dict[str, dict[Source, None]] = {}
    for source in _sources(expressions, keys):
        read.setdefault(source.metric, {})[source] = None
    counts = (
        Aggregate("RUNNING_COUNT", _any_of(list(alike)), step, step, keys, each_point=True)
        for alike in read.values()
    )
    return Counted(pace.points, tuple(counts))


def check_moments(
    insight: ast.Insight,
    expressions: Sequence[Expression],
    keys: tuple[str, ...],
    findings: Findings,
) -> None:
    """Refuse an insight without ticks that would have no value at any point."""
    nodes = [node for root in expressions for node in walk(root)]
    if any(_sources(expressions, keys)) or not any(isinstance(n, Aggregate) for n in nodes):
        return
    findings.error(
        insight.expression.span,
        "all that is read here is of the past, so no new point has a value",
        "Add an interval, as in `EVERY 5 SECONDS`, or leave an offset out.",
    )


def _sources(expressions: Sequence[Expression], keys: tuple[str, ...]) -> Iterator[Source]:
    """Yield what is read, up to now, of points that have these keys."""
    for node in (node for root in expressions for node in walk(root)):
        if isinstance(node, Aggregate) and not node.offset_ms and set(keys) <= set(node.by):
            yield from filter(None, (node.source, node.other))


def _any_of(sources: list[Source]) -> Source:
    """Return the points of a metric that are in any of the sources."""
    first, *others = sources
    if not others:
        return first
    conditions = [_condition(source) for source in sources]
    known = [each for each in conditions if each is not None]
    return Source(first.metric, (), joined(Or, known) if len(known) == len(conditions) else None)


def _condition(source: Source) -> Expression | None:
    """Return what holds for the points of a source, None where all of the metric are in it."""
    terms = [] if source.predicate is None else [source.predicate]
    if source.entities:
        terms.append(Membership(Attribute("entityID"), source.entities))
    return conjunction(terms) if terms else None
