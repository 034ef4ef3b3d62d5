"""The checks for comparisons with a text, and for positions, that no recent point has."""

import math
from collections.abc import Collection, Iterator, Mapping

from analytics.positions import position_of
from analytics_enabler.semantics.bind.bound_tree import (
    AttributeRead,
    BoundComparison,
    BoundCondition,
    BoundInsight,
    BoundMembership,
    Conjunction,
    Constant,
    LabelRead,
    PointSource,
    ScalarCall,
)
from analytics_enabler.semantics.checks.context import Context
from analytics_enabler.semantics.diagnostics import Suggestions, did_you_mean, warning
from grammar import Diagnostic, ast

_MAX_SHOWN = 5


def check_text_values(insight: BoundInsight, context: Context) -> Iterator[Diagnostic]:
    """Yield a warning for each condition that no recent point of the metric satisfies.

    Only conditions that all points or results must satisfy are checked, and only attributes that
    recent points of the metric have.
    """
    if insight.feed is not None:
        return
    for source in insight.sources:
        values = context.values.get(source.metric, {})
        allowed = [
            each.condition for each in insight.allowed if each.metric in (None, source.metric)
        ]
        for term in _terms((*source.terms, *insight.when.on_points, *allowed)):
            yield from _check_term(source, term, values, context.suggestions)
            yield from _check_number(source, term, values)
    for term in _terms(insight.when.on_results):
        for label in _labels(term):
            values = context.values.get(label.source.metric, {})
            yield from _check_number(label.source, term, values)


def check_positions(insight: BoundInsight, context: Context) -> Iterator[Diagnostic]:
    """Yield a warning for each GEOHASH of a metric whose recent points have other texts only."""
    if insight.feed is not None:
        return
    for node in insight.nodes:
        match node:
            case ScalarCall("GEOHASH", (LabelRead(attribute, source, longitude=None),)):
                seen = context.values.get(source.metric, {}).get(attribute, frozenset())
            case _:
                continue
        if seen and all(math.isnan(position_of(text)[0]) for text in seen):
            yield warning(
                node.span,
                f"no recent point of `{source.metric}` has a position, such as `35.1,33.4`; "
                f"values seen: {_shown(seen)}",
                "The insight has no values until such points come in.",
            )


def _shown(seen: frozenset[str]) -> str:
    more = f" and {len(seen) - _MAX_SHOWN} more" if len(seen) > _MAX_SHOWN else ""
    return ", ".join(sorted(seen)[:_MAX_SHOWN]) + more


def _terms(conditions: Collection[BoundCondition]) -> Iterator[BoundCondition]:
    for condition in conditions:
        if isinstance(condition, Conjunction):
            yield from _terms(condition.terms)
        else:
            yield condition


def _labels(term: BoundCondition) -> Iterator[LabelRead]:
    if isinstance(term, BoundComparison):
        yield from (side for side in (term.left, term.right) if isinstance(side, LabelRead))


def _check_number(
    source: PointSource, term: BoundCondition, values: Mapping[str, frozenset[str]]
) -> Iterator[Diagnostic]:
    """Yield a warning for a number that is compared with an attribute that is never a number."""
    match term:
        case BoundComparison(_, AttributeRead(name, written), other):
            pass
        case BoundComparison(_, other, AttributeRead(name, written)):
            pass
        case BoundComparison(_, LabelRead(name), other) | BoundComparison(
            _, other, LabelRead(name)
        ):
            written = name
        case _:
            return
    seen = values.get(name)
    if other.type != "a number" or not seen or any(map(_is_number, seen)):
        return
    yield warning(
        term.span,
        f"no recent point of `{source.metric}` has a number as its {written}; "
        f"values seen: {_shown(seen)}",
        "A number and a text are never compared: the insight has no values until such points come "
        "in.",
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_term(
    source: PointSource,
    term: BoundCondition,
    values: Mapping[str, frozenset[str]],
    suggestions: Suggestions,
) -> Iterator[Diagnostic]:
    match term:
        case BoundComparison("==", AttributeRead() as attribute, Constant(str() as text)):
            texts = [text]
        case BoundComparison("==", Constant(str() as text), AttributeRead() as attribute):
            texts = [text]
        case BoundMembership(AttributeRead() as attribute, members, negated=False):
            texts = [each.value for each in members if isinstance(each, ast.Text)]
            if len(texts) < len(members):
                return
        case _:
            return
    # A site that does not exist has a warning of its own.
    seen = values.get(attribute.name) if attribute.name != "site" else None
    if not seen or not texts or seen & set(texts):
        return
    listed = " or ".join(f"`{text}`" for text in texts[:_MAX_SHOWN])
    near = suggestions.nearest(texts[0], seen)
    yield warning(
        term.span,
        f"no recent point of `{source.metric}` has the {attribute.written} {listed}; "
        f"values seen: {_shown(seen)}",
        did_you_mean(near) if near else "The insight has no values until such points come in.",
    )
