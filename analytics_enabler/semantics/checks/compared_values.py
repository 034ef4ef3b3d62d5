"""The checks for conditions with values that no recent point has."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from analytics.plan.attributes import ENTITY
from analytics.plan.expressions import Scalar
from analytics.values_seen import Kind, kind_of, text_of, values_seen
from analytics_enabler.semantics.bind.bound_tree import (
    AttributeRead,
    BoundComparison,
    BoundCondition,
    BoundInsight,
    BoundMembership,
    BoundValue,
    Constant,
    LabelRead,
    PointSource,
    Type,
)
from analytics_enabler.semantics.checks.conditions import conjuncts, point_conditions
from analytics_enabler.semantics.checks.context import Context
from analytics_enabler.semantics.diagnostics import Suggestions, did_you_mean, warning
from grammar import Diagnostic, ast

_MAX_SHOWN = 5
_KINDS: dict[Type, Kind] = {"a number": "numbers", "a text": "texts", "a boolean": "booleans"}
_WORDS: dict[Kind, Type] = {kind: word for word, kind in _KINDS.items()}
_NO_VALUES = "The insight has no values until such points come in."


@dataclass(frozen=True, slots=True)
class _Compared:
    """A comparison of an attribute; ``written``: its name in the text.

    ``kinds``: the types of the values that it is compared with. ``constants``: these values, where
    they are constants. ``equal``: whether the attribute must equal one of them.
    """

    attribute: str
    written: str
    kinds: frozenset[Kind]
    constants: tuple[Scalar, ...]
    equal: bool
    span: ast.Span


def check_compared_values(insight: BoundInsight, context: Context) -> Iterator[Diagnostic]:
    """Yield a warning for each condition that no recent point of the metric satisfies.

    Only conditions that all points or results must satisfy are checked, and only attributes that
    recent points of the metric have.
    """
    if insight.feed is not None:
        return
    on_results = [*conjuncts(insight.when.on_results)]
    for source in insight.sources:
        yield from _check_entities(source, context)
        for term in (*point_conditions(insight, source), *on_results):
            compared = _compared_attribute(term)
            if compared is not None:
                yield from _check(source, compared, context)
    for term in on_results:
        for label, other in _sides(term):
            if isinstance(label, LabelRead):
                compared = _with(label.attribute, label.attribute, other, term)
                yield from _check(label.source, compared, context)


def _check_entities(source: PointSource, context: Context) -> Iterator[Diagnostic]:
    seen = context.values.get(source.metric, {}).get(ENTITY, ())
    if not seen or not source.entities or not set(source.entities).isdisjoint(seen):
        return
    listed = " or ".join(f"`{entity}`" for entity in source.entities[:_MAX_SHOWN])
    yield warning(
        source.span,
        f"no recent point of `{source.metric}` belongs to the entity {listed}; {values_seen(seen)}",
        _hint(source.entities[0], seen, context.suggestions),
    )


def _sides(term: BoundCondition) -> Iterator[tuple[BoundValue, BoundValue]]:
    """Yield (one side, other side) of a comparison, both ways."""
    if isinstance(term, BoundComparison):
        yield term.left, term.right
        yield term.right, term.left


def _compared_attribute(term: BoundCondition) -> _Compared | None:
    """Return the comparison of an attribute in a term, if the term is one."""
    match term:
        case BoundMembership(AttributeRead(name, written), members, negated):
            values = tuple(each.value for each in members)
            kinds = frozenset(map(kind_of, values))
            return _Compared(name, written, kinds, values, not negated, term.span)
        case BoundComparison():
            for side, other in _sides(term):
                if isinstance(side, AttributeRead):
                    return _with(side.name, side.written, other, term)
    return None


def _with(attribute: str, written: str, other: BoundValue, term: BoundCondition) -> _Compared:
    kinds = frozenset[Kind]() if other.type is None else frozenset([_KINDS[other.type]])
    constants = (other.value,) if isinstance(other, Constant) else ()
    equal = isinstance(term, BoundComparison) and term.operator == "=="
    return _Compared(attribute, written, kinds, constants, equal, term.span)


def _check(source: PointSource, compared: _Compared, context: Context) -> Iterator[Diagnostic]:
    seen = context.values.get(source.metric, {}).get(compared.attribute, ())
    if not seen or not compared.kinds:
        return
    kinds = {*map(kind_of, seen)}
    if compared.kinds.isdisjoint(kinds):
        words = " or ".join(sorted(_WORDS[kind] for kind in compared.kinds))
        yield warning(
            compared.span,
            f"no recent point of `{source.metric}` has {words} as its {compared.written}; "
            f"{values_seen(seen, compared.kinds)}",
            _hint_of_kind(compared.constants, seen),
        )
        return
    comparable = [each for each in compared.constants if kind_of(each) in kinds]
    texts = [each for each in comparable if isinstance(each, str)]
    # A site that does not exist has a warning of its own.
    is_known = len(texts) < len(comparable) or compared.attribute == "site"
    if not compared.equal or not texts or is_known or not set(texts).isdisjoint(seen):
        return
    listed = " or ".join(f"`{text}`" for text in texts[:_MAX_SHOWN])
    yield warning(
        compared.span,
        f"no recent point of `{source.metric}` has the {compared.written} {listed}; "
        f"{values_seen(seen)}",
        _hint(texts[0], seen, context.suggestions),
    )


def _hint(text: str, seen: Collection[Scalar], suggestions: Suggestions) -> str:
    near = suggestions.nearest(text, [each for each in seen if isinstance(each, str)])
    return did_you_mean(near) if near else _NO_VALUES


def _hint_of_kind(constants: Collection[Scalar], seen: Collection[Scalar]) -> str:
    """Return the value that was probably meant, of the type that points have."""
    texts = {text_of(each) for each in constants}
    for value in seen:
        text = text_of(value)
        if text in texts and isinstance(value, str):
            return f'Values of different types are never equal: write the text, `"{text}"`.'
        if text in texts:
            return f"Values of different types are never equal: without quotes, write `{text}`."
    return f"A comparison of values of different types is never true. {_NO_VALUES}"
