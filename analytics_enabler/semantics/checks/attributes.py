"""The check for names in conditions that mean attributes, but were probably meant as metrics."""

from collections.abc import Iterator

from analytics.plan.attributes import canonical, is_of_all_points
from analytics_enabler.semantics.bind.bound_tree import (
    AttributeRead,
    BoundComparison,
    BoundInsight,
    BoundInsightReference,
    BoundMembership,
    BoundScope,
    Constant,
    Subject,
)
from analytics_enabler.semantics.checks.context import Context
from analytics_enabler.semantics.diagnostics import did_you_mean, error, warning
from grammar import Diagnostic, ast
from grammar.trees import walk

_COMMON = ("node", "site", "region", "entityID", "entityType", "group")
"""The attributes that all points have."""


def check_attributes(insight: BoundInsight, context: Context) -> Iterator[Diagnostic]:
    """Yield a warning for each attribute that is compared with a number and may be a metric.

    In ALLOW, the name of a metric that the insight does not read is an error instead. Labels are
    often tested for equality with constants. Therefore ``==``, ``!=`` and IN with constants cause a
    warning only if the attribute has the name of a metric or a similar name.
    """
    metrics = context.metrics
    if metrics is None:
        return
    compared: dict[str, tuple[AttributeRead, ast.SyntaxNode]] = {}
    for node in insight.nodes:
        attribute = _compared_with_number(node)
        if context.attributes is None and _is_of_point_value(node):
            continue
        if attribute is not None:
            first = compared.get(attribute.written, (attribute, node))[0]
            compared[attribute.written] = first, node
    expected = _expected(insight) if compared else set()
    for read in unread_metrics(insight, context):
        compared.pop(read.written, None)
        yield error(
            read.span,
            f"`{read.written}` is a metric that this insight does not read, so ALLOW has no "
            "points of it to restrict",
            f"To allow results by a value of this metric, name it in a function: "
            f"`ALLOW WHEN MAX({read.written}) …`.",
        )
    for name, (attribute, node) in compared.items():
        if name in expected or attribute.name in expected:
            continue
        known = [context.attributes_of(source.metric) for source in insight.sources]
        if any(each and attribute.name not in each for each in known):
            continue  # the check of unknown attributes yields a warning
        function = f"name it in a function, as in `MAX({name})`."
        if name in metrics:
            yield warning(
                attribute.span,
                f"`{name}` is interpreted as an attribute of points: here, the metric of this name "
                "is not read",
                f"If the metric is meant, {function}",
            )
            continue
        if attribute.name in (context.attributes or ()):
            continue
        near = context.suggestions.nearest(name, metrics)
        is_ordered = isinstance(node, BoundComparison) and node.operator not in ("==", "!=")
        if near or is_ordered or _is_of_point_value(node):
            yield warning(
                attribute.span,
                f"`{name}` is interpreted as an attribute: no point of a metric of this name has "
                "arrived yet",
                did_you_mean(near) if near else f"If it is a metric, {function}",
            )


def unread_metrics(insight: BoundInsight, context: Context) -> Iterator[AttributeRead]:
    """Yield the first use of each name in ALLOW that is surely a metric, and not an attribute.

    Points have no attribute of such a name, so no point would ever satisfy the condition.
    """
    if context.metrics is None or context.attributes is None or insight.feed is not None:
        return
    attributes = context.attributes | _expected(insight)
    unread = context.metrics - attributes
    seen: set[str] = set()
    for allowance in insight.allowed:
        for node in walk(allowance):
            match node:
                case BoundComparison(_, left, right) if not _has_word(left, right):
                    found = [each for each in (left, right) if isinstance(each, AttributeRead)]
                case BoundMembership(AttributeRead() as attribute, (ast.Number(), *_)):
                    found = [attribute]
                case _:
                    continue
            for each in found:
                known = each.name in attributes or is_of_all_points(each.name)
                if each.written in unread - seen and not known:
                    seen.add(each.written)
                    yield each


def _has_word(*operands: ast.SyntaxNode) -> bool:
    return any(
        isinstance(each, Constant) and isinstance(each.value, str | bool) for each in operands
    )


def _compared_with_number(node: ast.SyntaxNode) -> AttributeRead | None:
    match node:
        case BoundComparison(_, AttributeRead() as attribute, Constant(float() | int() as value)):
            return None if isinstance(value, bool) else attribute
        case BoundComparison(_, Constant(float() | int() as value), AttributeRead() as attribute):
            return None if isinstance(value, bool) else attribute
        case BoundComparison(_, AttributeRead() as attribute, Subject()):
            return attribute
        case BoundComparison(_, Subject(), AttributeRead() as attribute):
            return attribute
        case BoundMembership(AttributeRead() as attribute, (ast.Number(), *_)):
            return attribute
        case _:
            return None


def _is_of_point_value(node: ast.SyntaxNode) -> bool:
    """Return whether a comparison reads the value that a condition restricts, as in `x > rack`."""
    return isinstance(node, BoundComparison) and (
        isinstance(node.left, Subject) or isinstance(node.right, Subject)
    )


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
