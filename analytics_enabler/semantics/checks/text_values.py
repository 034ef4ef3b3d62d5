"""The checks for comparisons with a text, and for positions, that no recent point has."""

import math
from collections.abc import Collection, Iterator, Mapping

from analytics.plan.expressions import Scalar
from analytics.positions import position_of
from analytics.values_seen import kind_of, text_of, values_seen
from analytics_enabler.semantics.bind.bound_tree import (
    AttributeRead,
    BoundComparison,
    BoundCondition,
    BoundInsight,
    BoundMembership,
    Constant,
    LabelRead,
    PointSource,
    ScalarCall,
)
from analytics_enabler.semantics.checks.conditions import conjuncts, point_conditions
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
        for term in point_conditions(insight, source):
            yield from _check_texts(source, term, values, context.suggestions)
            yield from _check_numbers(source, term, values)
    for term in conjuncts(insight.when.on_results):
        for label in _labels(term):
            values = context.values.get(label.source.metric, {})
            yield from _check_numbers(label.source, term, values)


def check_positions(insight: BoundInsight, context: Context) -> Iterator[Diagnostic]:
    """Yield a warning for each GEOHASH of a metric whose recent points have other texts only."""
    if insight.feed is not None:
        return
    for node in insight.nodes:
        match node:
            case ScalarCall("GEOHASH", (LabelRead(attribute, source, longitude=None),)):
                seen = context.values.get(source.metric, {}).get(attribute, ())
            case _:
                continue
        if seen and all(math.isnan(position_of(str(value))[0]) for value in seen):
            yield warning(
                node.span,
                f"no recent point of `{source.metric}` has a position, such as `35.1,33.4`; "
                f"{values_seen(seen)}",
                "The insight has no values until such points come in.",
            )


def _labels(term: BoundCondition) -> Iterator[LabelRead]:
    if isinstance(term, BoundComparison):
        yield from (side for side in (term.left, term.right) if isinstance(side, LabelRead))


def _check_numbers(
    source: PointSource, term: BoundCondition, values: Mapping[str, Collection[Scalar]]
) -> Iterator[Diagnostic]:
    """Yield a warning for a number that is compared with an attribute that is never a number."""
    numbers: list[Scalar] = []
    match term:
        case BoundComparison(_, AttributeRead(name, written), other) | BoundComparison(
            _, other, AttributeRead(name, written)
        ):
            is_numeric = other.type == "a number"
            numbers = [other.value] if isinstance(other, Constant) else []
        case BoundComparison(_, LabelRead(name), other) | BoundComparison(
            _, other, LabelRead(name)
        ):
            written, is_numeric = name, other.type == "a number"
        case BoundMembership(AttributeRead(name, written), members, negated=False):
            numbers = [each.value for each in members if isinstance(each, ast.Number)]
            is_numeric = len(numbers) == len(members)
        case _:
            return
    seen = values.get(name)
    if not is_numeric or not seen or "numbers" in map(kind_of, seen):
        return
    alike = [f'`"{text}"`' for text in map(text_of, numbers) if text in seen]
    yield warning(
        term.span,
        f"no recent point of `{source.metric}` has a number as its {written}; "
        f"{values_seen(seen, ['numbers'])}",
        f"A number and a text are never equal: write the text, {alike[0]}."
        if alike
        else "A number and a text are never compared: the insight has no values until such points "
        "come in.",
    )


def _check_texts(
    source: PointSource,
    term: BoundCondition,
    values: Mapping[str, Collection[Scalar]],
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
    seen = values.get(attribute.name, ()) if attribute.name != "site" else ()
    if not seen or not texts or not set(texts).isdisjoint(seen):
        return
    listed = " or ".join(f"`{text}`" for text in texts[:_MAX_SHOWN])
    hint = "The insight has no values until such points come in."
    alike = [f"`{text_of(each)}`" for each in seen if text_of(each) in texts]
    near = suggestions.nearest(texts[0], [each for each in seen if isinstance(each, str)])
    if alike:
        hint = f"A text never equals a value of another type: without quotes, write {alike[0]}."
    elif near:
        hint = did_you_mean(near)
    yield warning(
        term.span,
        f"no recent point of `{source.metric}` has the {attribute.written} "
        f"{listed}; {values_seen(seen, ['texts'])}",
        hint,
    )
