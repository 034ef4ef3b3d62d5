"""The check for names in conditions that mean attributes, but were probably meant as metrics."""

from collections.abc import Iterator

from analytics.plan.attributes import canonical
from analytics_enabler.semantics.bind.bound_tree import (
    AttributeRead,
    BoundComparison,
    BoundInsight,
    BoundInsightReference,
    BoundMembership,
    BoundScope,
    Constant,
)
from analytics_enabler.semantics.checks.context import Context
from analytics_enabler.semantics.diagnostics import did_you_mean, warning
from grammar import Diagnostic, ast

_COMMON = ("node", "site", "region", "entityID", "entityType", "group")
"""The attributes that all points have."""


def check_attributes(insight: BoundInsight, context: Context) -> Iterator[Diagnostic]:
    """Yield a warning for each attribute that is compared with a number and may be a metric.

    Labels are often tested for equality with numbers. Therefore ``==``, ``!=`` and IN cause a
    warning only if the attribute has the name of a metric or a similar name.
    """
    metrics = context.metrics
    if metrics is None:
        return
    compared: dict[str, tuple[AttributeRead, ast.SyntaxNode]] = {}
    for node in insight.nodes:
        attribute = _compared_with_number(node)
        if attribute is not None:
            first = compared.get(attribute.written, (attribute, node))[0]
            compared[attribute.written] = first, node
    expected = _expected(insight) if compared else set()
    for name, (attribute, node) in compared.items():
        if name in expected or attribute.name in expected:
            continue
        function = f"name it in a function, as in `MAX({name})`."
        if name in metrics:
            yield warning(
                attribute.span,
                f"`{name}` is interpreted as an attribute of points: here, the metric of this name "
                "is not read",
                f"If the metric is meant, {function}",
            )
            continue
        near = context.suggestions.nearest(name, metrics)
        if near or (isinstance(node, BoundComparison) and node.operator not in ("==", "!=")):
            yield warning(
                attribute.span,
                f"`{name}` is interpreted as an attribute: no point of a metric of this name has "
                "arrived yet",
                did_you_mean(near) if near else f"If it is a metric, {function}",
            )


def _compared_with_number(node: ast.SyntaxNode) -> AttributeRead | None:
    match node:
        case BoundComparison(_, AttributeRead() as attribute, Constant(float() | int() as value)):
            return None if isinstance(value, bool) else attribute
        case BoundComparison(_, Constant(float() | int() as value), AttributeRead() as attribute):
            return None if isinstance(value, bool) else attribute
        case BoundMembership(AttributeRead() as attribute, (ast.Number(), *_)):
            return attribute
        case _:
            return None


def _expected(insight: BoundInsight) -> set[str]:
    """Return the names that cause no warning.

    These are the attributes that all points have, the attributes of keys, and the metrics that the
    insight reads.
    """
    expected = {*_COMMON, *insight.by, *(source.metric for source in insight.sources)}
    for node in insight.nodes:
        match node:
            case BoundScope(written_by=names):
                expected.update(map(canonical, names))
            case BoundInsightReference(symbol):
                expected.update(symbol.definition.by)
    return expected
