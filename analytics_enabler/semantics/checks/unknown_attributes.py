"""The checks for attributes that no recent point of a metric has."""

from collections.abc import Iterator

from analytics.plan.attributes import is_of_all_points
from analytics_enabler.semantics.bind.bound_tree import (
    AttributeRead,
    BoundAggregation,
    BoundInsight,
    CurrentValue,
    LabelRead,
)
from analytics_enabler.semantics.checks.attributes import unread_metrics
from analytics_enabler.semantics.checks.conditions import point_conditions
from analytics_enabler.semantics.checks.context import Context
from analytics_enabler.semantics.diagnostics import did_you_mean, warning
from grammar import Diagnostic, ast
from grammar.trees import walk

_MAX_LISTED = 10


def check_unknown_keys(insight: BoundInsight, context: Context) -> Iterator[Diagnostic]:
    """Yield a warning for each attribute of a key that no recent point of a metric has."""
    if insight.feed is not None:
        return
    reads = dict.fromkeys(
        (source.metric, name)
        for node in insight.nodes
        if isinstance(node, BoundAggregation | CurrentValue | LabelRead)
        for source in (node.sources if isinstance(node, BoundAggregation) else (node.source,))
        for name in node.by
    )
    for metric, name in reads:
        known = context.attributes_of(metric)
        if _is_unknown(name, known):
            near = context.suggestions.nearest(name, known)
            yield warning(
                insight.head,
                f"no recent point of `{metric}` has the attribute `{name}`, so BY {name} does not "
                "divide its values",
                did_you_mean(near) if near else _listed(known),
            )


def check_unknown_attributes(insight: BoundInsight, context: Context) -> Iterator[Diagnostic]:
    """Yield a warning for each attribute that is read, but that no recent point of a metric has."""
    if insight.feed is not None:
        return
    metrics = context.metrics or frozenset[str]()
    reported = {read.name for read in unread_metrics(insight, context)}
    for (metric, name), (written, span) in _reads(insight).items():
        known = context.attributes_of(metric)
        if name in reported or not _is_unknown(name, known):
            continue
        near = context.suggestions.nearest(written, known | metrics)
        hint = did_you_mean(near) if near and written != metric else _listed(known)
        if written in metrics and written != metric:
            function = f"`MAX({written})`"
            hint = f"If the metric of this name is meant, name it in a function: {function}."
        yield warning(span, f"no recent point of `{metric}` has the attribute `{written}`", hint)


def _reads(insight: BoundInsight) -> dict[tuple[str, str], tuple[str, ast.Span]]:
    """Return (metric, attribute) -> (the name of the attribute in the text, its first place).

    The result contains the attributes in conditions on points, and the attributes of latest points.
    """
    first: dict[tuple[str, str], tuple[str, ast.Span]] = {}
    for source in insight.sources:
        for term in point_conditions(insight, source):
            for node in walk(term):
                if isinstance(node, AttributeRead):
                    first.setdefault((source.metric, node.name), (node.written, node.span))
    for node in insight.nodes:
        if isinstance(node, LabelRead):
            for name in (node.attribute, node.longitude):
                if name is not None:
                    first.setdefault((node.source.metric, name), (name, node.span))
    return first


def _is_unknown(name: str, known: frozenset[str]) -> bool:
    return bool(known) and name not in known and not is_of_all_points(name)


def _listed(attributes: frozenset[str]) -> str:
    some = ", ".join(f"`{each}`" for each in sorted(attributes)[:_MAX_LISTED])
    more = " and others" if len(attributes) > _MAX_LISTED else ""
    return f"The points have the attributes {some}{more}."
