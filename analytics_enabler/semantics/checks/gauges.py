"""The checks for values of one entity among several, and for sums of gauges over time."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from analytics.plan.attributes import ENTITY
from analytics.values_seen import text_of
from analytics_enabler.semantics.bind.bound_tree import (
    AttributeRead,
    BoundAggregation,
    BoundComparison,
    BoundCondition,
    BoundInsight,
    BoundMembership,
    Constant,
    CurrentValue,
    Unresolved,
)
from analytics_enabler.semantics.checks.conditions import conjuncts, point_conditions
from analytics_enabler.semantics.checks.context import MAX_POINTS, Context, PointAttributes
from analytics_enabler.semantics.diagnostics import head, warning
from grammar import Diagnostic, ast, format_node

GAUGE_UNITS = frozenset(
    {
        *("%", "percent", "percentage", "°c", "celsius", "°f", "fahrenheit", "kelvin"),
        *("hz", "khz", "mhz", "ghz", "rpm", "db", "dbm", "°", "degree", "degrees"),
    }
)
"""Units of gauges, in lower case. A value in such a unit never is an amount of an interval."""


def check_latest_of_several(insight: BoundInsight, context: Context) -> Iterator[Diagnostic]:
    """Yield a warning for each metric without a function whose keys have several entities.

    Only recent points count. There is no warning if a condition may choose one of the entities, or
    if the insight has a value without a meaning: the metric may be the operand of a function.
    """
    if insight.feed is not None or insight.at_points:
        return
    if any(isinstance(node, Unresolved) for node in insight.nodes):
        return
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for node in insight.nodes:
        if not isinstance(node, CurrentValue) or (node.source.metric, node.by) in seen:
            continue
        recent = context.points.get(node.source.metric, ())
        key, count = _largest(_chosen(node, insight, recent), node.by)
        if count > 1:
            seen.add((node.source.metric, node.by))
            number = f"at least {count}" if len(recent) >= MAX_POINTS else f"{count}"
            yield _warn_of_several(node, key, number)


def check_sums_of_gauges(insight: BoundInsight, context: Context) -> Iterator[Diagnostic]:
    """Yield a warning for each SUM over the points of a metric whose unit is that of a gauge."""
    if insight.feed is not None:
        return
    for node in insight.nodes:
        if not isinstance(node, BoundAggregation) or node.function != "SUM":
            continue
        metric = node.sources[0].metric
        unit = context.units.get(metric, "")
        if unit.strip().casefold() in GAUGE_UNITS:
            name = _written(metric, node)
            yield warning(
                head(node.call.span, len("SUM")),
                f"SUM adds all points of its window, and `{metric}` is a gauge, in `{unit}`: the "
                "sum grows with the number of points",
                f"For the mean, write `AVG({name}, 1 MINUTE)`; for the total of all entities, "
                f"`SUM({name} BY {ENTITY})`.",
            )


def _warn_of_several(node: CurrentValue, key: Mapping[str, Any], number: str) -> Diagnostic:
    metric, name = node.source.metric, _written(node.source.metric, node)
    by = ", ".join(_written(each, node) for each in node.by)
    where = [
        f"`{attribute}={text_of(value)}`" if value is not None else f"no `{attribute}`"
        for attribute, value in key.items()
    ]
    several = f"there are {number} with {' and '.join(where)}" if key else f"there are {number}"
    mean = f"AVG({name}, 1 MINUTE)" + (f" BY {by}" if by else "")
    return warning(
        head(node.span, node.source.span.length),
        f"`{metric}` without a function is the latest value of a single entity, and {several}",
        f"For all of them, write a function, such as `{mean}`; for the value of each, write "
        f"`BY {', '.join([ENTITY, *([by] if by else [])])}`.",
    )


def _written(name: str, node: ast.SyntaxNode) -> str:
    """Return a name as the language writes it, in quotes if it needs them."""
    return format_node(ast.Name(name, span=node.span))


def _largest(points: Iterable[PointAttributes], by: Collection[str]) -> tuple[dict[str, Any], int]:
    """Return the key with the most entities, and their number; (no key, 0) without points."""
    entities: defaultdict[tuple[Any, ...], set[Any]] = defaultdict(set)
    for point in points:
        entities[tuple(point.get(name) for name in by)].add(point.get(ENTITY))
    if not entities:
        return {}, 0
    # The first of equally large keys, so that a text has the same warning again.
    key = min(entities, key=lambda each: (-len(entities[each]), str(each)))
    return dict(zip(by, key, strict=True)), len(entities[key])


def _chosen(
    node: CurrentValue, insight: BoundInsight, points: Iterable[PointAttributes]
) -> list[PointAttributes]:
    """Return the points that a value reads; none if a condition is unclear."""
    source = node.source
    terms = [*point_conditions(insight, source)]
    if source.predicate is not None or any(_required_texts(each) is None for each in terms):
        return []
    # A condition on the keys of results, too, may leave one entity.
    required = [*filter(None, map(_required_texts, (*terms, *conjuncts(insight.when.on_results))))]
    if source.entities:
        required.append((ENTITY, frozenset(source.entities)))
    return [each for each in points if all(each.get(name) in texts for name, texts in required)]


def _required_texts(term: BoundCondition) -> tuple[str, frozenset[str]] | None:
    """Return (attribute, texts) of a condition that the attribute is one of the texts, or None."""
    match term:
        case BoundComparison("==", AttributeRead(name), Constant(str() as text)) | BoundComparison(
            "==", Constant(str() as text), AttributeRead(name)
        ):
            return name, frozenset([text])
        case BoundMembership(AttributeRead(name), members, negated=False):
            texts = [each.value for each in members if isinstance(each, ast.Text)]
            return (name, frozenset(texts)) if len(texts) == len(members) else None
        case _:
            return None
