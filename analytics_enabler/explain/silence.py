"""The reasons why insights have no value in a preview.

A reason is found by computing the insight again without one of its conditions.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from analytics.insight_models import Result
from analytics.plan.expressions import Aggregate, Expression, Source, rewrite
from analytics.plan.nodes import expressions_of
from analytics_enabler.semantics import Definition


def without_filter(definition: Definition) -> Definition | None:
    """Return the insight without the condition on its values; None: it has no such condition."""
    if definition.filter is None:
        return None
    return msgspec.structs.replace(definition, filter=None)


def without_predicates(definition: Definition) -> Definition | None:
    """Return the insight over all points of its metrics, without conditions on values.

    None: the insight has no condition on points.
    """
    if all(_source(each) == each for each in expressions_of(definition)):
        return None
    return msgspec.structs.replace(
        definition, expression=rewrite(definition.expression, _source), filter=None
    )


RELAXATIONS: tuple[tuple[Callable[[Definition], Definition | None], str], ...] = (
    (without_filter, "its condition was true for none of {values}"),
    (without_predicates, "no point satisfies the conditions on its points; without them, {values}"),
)
"""The relaxed forms of an insight, and the reason that follows if such a form has values."""


def values_by_insight(results: Iterable[Result]) -> Mapping[str, list[float | None]]:
    """Return insight -> the values of its results; None: a result that is a text."""
    found: defaultdict[str, list[float | None]] = defaultdict(list)
    for each in results:
        found[each.insight].append(each.value)
    return found


def range_of(values: Collection[float | None]) -> str:
    """Return the number and the range of values, in words.

    >>> range_of([3.0, 1.5]), range_of([2.0]), range_of([None])
    ('2 values from 1.5 to 3', '1 value of 2', '1 value')
    """
    numbers = [each for each in values if each is not None]
    count = f"{len(values):,} value{'s' * (len(values) != 1)}"
    if not numbers:
        return count
    least, greatest = f"{min(numbers):.6g}", f"{max(numbers):.6g}"
    return f"{count} of {least}" if least == greatest else f"{count} from {least} to {greatest}"


def no_points(definition: Definition) -> str:
    """Return the reason of an insight that has no value even without its conditions."""
    metrics = {
        source.metric
        for each in expressions_of(definition)
        if isinstance(each, Aggregate)
        for source in each.sources
    }
    listed = " or ".join(f"`{each}`" for each in sorted(metrics))
    return f"no point of {listed} came in, or too few for its functions"


def _source(node: Expression) -> Expression:
    if not isinstance(node, Aggregate):
        return node
    other = None if node.other is None else _unrestricted(node.other)
    return msgspec.structs.replace(node, source=_unrestricted(node.source), other=other)


def _unrestricted(source: Source) -> Source:
    return msgspec.structs.replace(source, predicate=None, entities=())
