"""Insights that read feeds: which one each reads, and what is wrong with that."""

from collections.abc import Iterator

from analytics_enabler.semantics.feeds import Schemas, told_of
from analytics_enabler.semantics.findings import Findings, beginning, did_you_mean, nearest
from analytics_enabler.semantics.named import read_by
from analytics_enabler.semantics.options import is_signed
from analytics_enabler.semantics.references import References
from analytics_enabler.semantics.scopes import leaves
from analytics_enabler.semantics.sites import Sites
from analytics_enabler.semantics.trees import references as referred_by
from analytics_enabler.semantics.trees import walk
from grammar import ast
from mistbow.panes.feeding import attributes_in, metrics_in
from mistbow.plan.attributes import ENTITY, canonical
from mistbow.plan.feeds import Feed
from mistbow.streams.signatures import signature_of


def known_metrics(feed: Feed, schemas: Schemas) -> frozenset[str] | None:
    """Return the metrics that a feed can have points of, None where that is not known."""
    schema = schemas.get((feed.site, feed.stream))
    if schema is None or feed.metric is not None:
        return None
    return frozenset(metrics_in(schema, feed))


def check_feed(
    insight: ast.Insight,
    feed: Feed,
    metrics: frozenset[str] | None,
    schemas: Schemas,
    findings: Findings,
) -> None:
    """Refuse metrics that are no columns of numbers of a feed's stream, and sampling of it.

    Attributes that its points do not have are warned of.
    """
    signature = signature_of(feed.stream)
    if signature is not None and not is_signed(insight, signature):
        findings.error(
            beginning(insight.span, len(insight.name)),
            f"the stream `{feed.stream}` is signed with `{signature}`, `{insight.name}` is not",
            f"Add `WITH SIGNATURE '{signature}'`: it would tell the same to others.",
        )
    for option in insight.options:
        if isinstance(option, ast.Sample | ast.Accuracy | ast.Adam):
            findings.error(
                option.span,
                f"only points of storage are sampled, and these are of `{feed.stream}`",
                "Leave it out.",
            )
    for stream in read_by(insight) if metrics is not None else ():
        if stream.metric not in (metrics or ()):
            near = nearest(stream.metric, metrics or ())
            there = ", ".join(sorted(metrics or ())) or "none"
            findings.error(
                beginning(stream.span, len(stream.metric)),
                f"`{feed.stream}` has no column of numbers `{stream.metric}`",
                did_you_mean(near) if near else f"Its columns of numbers: {there}.",
            )
    _warn_of_attributes(insight, feed, schemas, findings)


def known_attributes(feed: Feed, schemas: Schemas) -> frozenset[str] | None:
    """Return the attributes that points of a feed can have, None where that is not known."""
    schema = schemas.get((feed.site, feed.stream))
    if schema is None and feed.attributes is not None:
        return frozenset({*map(canonical, feed.attributes), ENTITY})
    if schema is None or any(name not in schema.names for name in feed.named):
        return None
    return frozenset({*attributes_in(schema, feed), ENTITY})


def _warn_of_attributes(
    insight: ast.Insight, feed: Feed, schemas: Schemas, findings: Findings
) -> None:
    attributes = known_attributes(feed, schemas)
    if attributes is None:
        return
    seen = set(attributes)
    for name, span in _attributes_named(insight):
        if canonical(name) in seen:
            continue
        seen.add(canonical(name))
        near = findings.nearest(name, attributes)
        there = ", ".join(sorted(attributes))
        findings.warning(
            span,
            f"points of `{feed.stream}` have no attribute `{name}`",
            did_you_mean(near) if near else f"They have {there}; `attributes` names others.",
        )


def _attributes_named(insight: ast.Insight) -> Iterator[tuple[str, ast.Span]]:
    head = beginning(insight.span, len(insight.name))
    for node in walk(insight):
        if isinstance(node, ast.Insight | ast.Scoped):
            span = head if isinstance(node, ast.Insight) else node.span
            yield from ((name, span) for name in node.by)
        if isinstance(node, ast.Insight | ast.Scoped | ast.MetricStream) and node.when is not None:
            names = (leaf for leaf in leaves(node.when) if isinstance(leaf, ast.Name))
            yield from ((leaf.name, leaf.span) for leaf in names)


def feed_with_references(
    insight: ast.Insight, own: Feed | None, references: References, findings: Findings
) -> Feed | None:
    """Return the feed that an insight reads, by the insights too that it refers to."""
    reads = next(read_by(insight), None) is not None
    found = {own: None} if reads else {}
    for node in referred_by(insight):
        found[references.feed(node)] = None
        if len(found) > 1:
            one, other = list(found)[:2]
            findings.error(
                node.span,
                f"`{node.name}` reads {told_of(other)}, and what is beside it {told_of(one)}",
                "An insight reads points of one of them: part it.",
            )
            break
    return next(iter(found), None)


def check_site(insight: ast.Insight, feed: Feed, sites: Sites, findings: Findings) -> None:
    """Refuse a feed of a site that there is not."""
    if feed.site is None or feed.site in sites.names:
        return
    near = nearest(feed.site, sites.names)
    findings.error(
        beginning(insight.span, len(insight.name)),
        f"there is no site `{feed.site}`, which `{feed.stream}` is said to be at",
        did_you_mean(near) if near else f"There are {', '.join(sorted(sites.names))}.",
    )
