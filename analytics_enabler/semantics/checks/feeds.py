"""Checks of insights that read a feed.

The checks cover the columns, the attributes and the site of the feed, the signature (access right)
of the stream that the feed reads, and sampling options.
"""

from collections.abc import Iterator

from analytics.plan.attributes import ENTITY, canonical
from analytics.plan.feed_columns import attribute_columns, metric_columns
from analytics.plan.feeds import Feed
from analytics_enabler.semantics.bind.bound_tree import (
    AttributeRead,
    BoundInsight,
    BoundScope,
)
from analytics_enabler.semantics.bind.point_schema import PointSchema
from analytics_enabler.semantics.checks.context import Context
from analytics_enabler.semantics.diagnostics import (
    did_you_mean,
    error,
    head,
    nearest,
    warning,
)
from analytics_enabler.semantics.expand.feeds import Schemas
from grammar import Diagnostic, ast
from grammar.trees import walk
from mistbow.streams.signatures import signature_of


def point_schema(feed: Feed, schemas: Schemas) -> PointSchema:
    """Return the metrics and attributes that points of a feed can have.

    The metrics are None if unknown. The attributes are empty if unknown.
    """
    schema = schemas.get((feed.site, feed.stream))
    known = schema is not None and feed.metric is None
    metrics = frozenset(metric_columns(schema, feed)) if known else None
    return PointSchema(metrics, feed_attributes(feed, schemas) or frozenset())


def feed_attributes(feed: Feed, schemas: Schemas) -> frozenset[str] | None:
    """Return the attributes that points of a feed can have; None if unknown."""
    schema = schemas.get((feed.site, feed.stream))
    if schema is None and feed.attributes is not None:
        return frozenset({*map(canonical, feed.attributes), ENTITY})
    if schema is None or any(name not in schema.names for name in feed.named):
        return None
    return frozenset({*attribute_columns(schema, feed), ENTITY})


def check_feed(insight: BoundInsight, context: Context) -> Iterator[Diagnostic]:
    """Yield the diagnostics of an insight that reads a feed."""
    feed = insight.feed
    if feed is None:
        return
    yield from _check_signature(insight, feed)
    for option in insight.syntax.options:
        if isinstance(option, ast.SampleOption | ast.Accuracy | ast.AdamOption):
            yield error(
                option.span,
                f"only points of storage can be sampled, not the rows of `{feed.stream}`",
                "Remove this option.",
            )
    yield from _check_columns(insight, feed, context.metrics)
    yield from _check_attributes(insight, feed, context)
    yield from _check_site(insight, feed, context)


def _check_signature(insight: BoundInsight, feed: Feed) -> Iterator[Diagnostic]:
    signature = signature_of(feed.stream)
    if signature is not None and ast.Signature(signature) not in insight.syntax.options:
        name = insight.syntax.name
        yield error(
            insight.head,
            f"the stream `{feed.stream}` is signed with `{signature}`, but `{name}` is not",
            f"Add `WITH SIGNATURE '{signature}'`: these results reveal rows of the stream.",
        )


def _check_columns(
    insight: BoundInsight, feed: Feed, metrics: frozenset[str] | None
) -> Iterator[Diagnostic]:
    if metrics is None:
        return
    for source in insight.sources:
        if source.metric not in metrics:
            near = nearest(source.metric, metrics)
            there = ", ".join(sorted(metrics)) or "none"
            yield error(
                head(source.span, len(source.metric)),
                f"`{feed.stream}` has no numeric column `{source.metric}`",
                did_you_mean(near) if near else f"Its numeric columns: {there}.",
            )


def _check_attributes(insight: BoundInsight, feed: Feed, context: Context) -> Iterator[Diagnostic]:
    """Yield a warning for each attribute in the insight that no point of the feed has."""
    attributes = feed_attributes(feed, context.schemas)
    if attributes is None:
        return
    seen = set(attributes)
    for name, span in _attributes_named(insight):
        if canonical(name) in seen:
            continue
        seen.add(canonical(name))
        near = context.suggestions.nearest(name, attributes)
        there = ", ".join(sorted(attributes))
        yield warning(
            span,
            f"points of `{feed.stream}` have no attribute `{name}`",
            did_you_mean(near) if near else f"Attributes: {there}; `attributes` adds others.",
        )


def _attributes_named(insight: BoundInsight) -> Iterator[tuple[str, ast.Span]]:
    """Yield (attribute, span) for each attribute in a BY or a WHEN of an insight.

    The attribute is spelled as in the text. Attributes in ALLOW are omitted.
    """
    yield from ((name, insight.head) for name in insight.syntax.by)
    for term in (*insight.when.on_points, *insight.when.on_results):
        yield from _attributes_in(term)
    yield from _attributes_in(insight.value)


def _attributes_in(root: ast.SyntaxNode) -> Iterator[tuple[str, ast.Span]]:
    for node in walk(root):
        if isinstance(node, BoundScope):
            yield from ((name, node.span) for name in node.written_by)
        elif isinstance(node, AttributeRead):
            yield node.written, node.span


def _check_site(insight: BoundInsight, feed: Feed, context: Context) -> Iterator[Diagnostic]:
    sites = context.sites
    if sites is None or feed.site is None or feed.site in sites.names:
        return
    near = nearest(feed.site, sites.names)
    yield error(
        insight.head,
        f"there is no site `{feed.site}`, the `site` of the stream `{feed.stream}`",
        did_you_mean(near) if near else f"The sites: {', '.join(sorted(sites.names))}.",
    )
