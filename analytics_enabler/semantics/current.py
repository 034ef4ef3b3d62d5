"""Bare names: where they are metrics, whose current values they mean, and where attributes."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from analytics_enabler.semantics.findings import Findings, did_you_mean
from analytics_enabler.semantics.named import read_by, read_by_condition
from analytics_enabler.semantics.references import References
from analytics_enabler.semantics.scopes import CurrentAttribute, leaves
from analytics_enabler.semantics.trees import parts, rebuilt, walk
from analytics_enabler.semantics.values import inner_keys
from grammar import ast
from mistbow.plan.attributes import canonical

N = TypeVar("N", bound=ast.Node)


def with_current(
    insight: ast.Insight,
    metrics: frozenset[str] | None,
    references: References,
    findings: Findings,
    attributes: frozenset[str] = frozenset(),
) -> ast.Insight:
    """Return an insight in whose conditions on results metrics by themselves are told as such.

    ``metrics`` are those that points have come of, None where that is not known. A name after
    COMPUTE that is no metric becomes the attribute of the latest point of the one that WHEN names.
    ``attributes`` are those that points are known to have, beside the keys.
    """
    keys = frozenset(map(canonical, insight.by))
    told = _with_attribute(insight, metrics, keys | attributes, references, findings)
    if told is not None:
        return told
    if not _may_name_metrics(insight):
        return insight
    known = (metrics or frozenset()) | {stream.metric for stream in read_by(insight)}
    return _Names(known, references).resolved(insight, keys)


def _may_name_metrics(insight: ast.Insight) -> bool:
    # Most have no such condition, and a submission may have thousands of insights.
    if insight.when is not None and any(isinstance(n, ast.Name) for n in leaves(insight.when)):
        return True
    return any(isinstance(node, ast.Scoped) for node in walk(insight))


def _with_attribute(
    insight: ast.Insight,
    metrics: frozenset[str] | None,
    attributes: frozenset[str],
    references: References,
    findings: Findings,
) -> ast.Insight | None:
    """Return an insight that yields an attribute; None where what it yields is a value."""
    node, when = insight.expression, insight.when
    if not isinstance(node, ast.Name) or when is None:
        return None
    elsewhere = {stream.metric for stream in read_by_condition(when)}
    if node.name in elsewhere | (metrics or frozenset()):
        return None
    if metrics is None and canonical(node.name) not in attributes:
        return None  # it may be a metric as well as not
    names = _Names(elsewhere | (metrics or frozenset()), references)
    when = names.in_condition(when, frozenset(map(canonical, insight.by)))
    of = next(read_by_condition(when), None)
    if of is None or any(isinstance(leaf, ast.Elided) for leaf in leaves(when)):
        return None
    if canonical(node.name) not in attributes:
        hint = f"If it is a metric, name it in a function, as in `MAX({node.name})`."
        near = findings.nearest(node.name, metrics or ())
        findings.warning(
            node.span,
            f"`{node.name}` is taken for an attribute of the points of `{of.metric}`: no point of "
            "a metric of this name has come yet",
            did_you_mean(near) if near else hint,
        )
    label = CurrentAttribute(node.name, of, span=node.span)
    return replace(insight, expression=cast("ast.Expression", label), when=when)


@dataclass(frozen=True, slots=True)
class _Names:
    """Tells the metrics among the names in conditions by those that are ``known``."""

    known: Collection[str]
    references: References

    def resolved(self, insight: ast.Insight, keys: frozenset[str]) -> ast.Insight:
        """Return an insight with the metrics in its conditions told, WHEN inside of it too."""
        keys |= set(inner_keys(insight.expression, self.references))
        when = None if insight.when is None else self.in_condition(insight.when, keys)
        return replace(insight, expression=self._in_value(insight.expression, keys), when=when)

    def in_condition(self, node: N, keys: frozenset[str]) -> N:
        """Return a condition on results that have these attributes as keys."""
        match node:
            case ast.Name(name) if name in self.known and canonical(name) not in keys:
                return cast("N", ast.MetricStream(name, span=node.span))
            case ast.Compare() | ast.Membership() if any(map(_is_word, parts(node))):
                # What is compared with a word is no metric, and so an attribute.
                return rebuilt(
                    node, lambda p: p if isinstance(p, ast.Name) else self.in_condition(p, keys)
                )
            case ast.Call() | ast.Scoped() | ast.MetricStream():
                return self._in_value(node, keys)
            case _:
                return rebuilt(node, lambda part: self.in_condition(part, keys))

    def _in_value(self, node: N, keys: frozenset[str]) -> N:
        match node:
            case ast.MetricStream():
                return node  # its condition is on points
            case ast.Scoped(expression, by, when):
                keys |= {*map(canonical, by), *inner_keys(expression, self.references)}
                told = None if when is None else self.in_condition(when, keys)
                value = self._in_value(expression, keys)
                return cast("N", replace(node, expression=value, when=told))
            case _:
                return rebuilt(node, lambda part: self._in_value(part, keys))


def _is_word(node: ast.Node) -> bool:
    return isinstance(node, ast.Text | ast.Boolean)
