"""Lowering of an insight: bound tree → definition."""

from dataclasses import dataclass, replace
from typing import Final

import msgspec

from analytics.plan.expressions import (
    Aggregate,
    And,
    Arithmetic,
    Attribute,
    AttributeKind,
    Comparison,
    Derived,
    Expression,
    Filtered,
    Geohash,
    Label,
    Literal,
    Mapped,
    Membership,
    Negation,
    Not,
    Or,
    PositionGeohash,
    Reduction,
    Source,
    TickSeries,
    Value,
    Within,
    join_conditions,
    rewrite,
)
from analytics.plan.functions import ACCUMULATED
from analytics.plan.point_aggregates import at_step
from analytics.plan.ticks import Ticks
from analytics_enabler.semantics.bind import bound_tree as bound
from analytics_enabler.semantics.definition import Definition
from analytics_enabler.semantics.lower.point_counts import point_counts
from analytics_enabler.semantics.lower.samples import sample
from analytics_enabler.semantics.lower.short_steps import short_step
from analytics_enabler.semantics.window_lengths import current_ms, series_ticks
from grammar import ast


def lower(insight: bound.BoundInsight, text: str, scheduler: str) -> Definition:
    """Return the definition of a bound insight that has no errors.

    ``text``: the canonical text of the insight. ``scheduler``: the scheduler of an insight that
    names no scheduler.
    """
    trigger = insight.trigger
    if trigger.ticks is None:
        raise AssertionError(insight.syntax)  # an erroneous EVERY is an error
    lowering = _Lowering(insight, trigger.ticks)
    if insight.when.on_points:
        on_points = [lowering.condition(term, Value()) for term in insight.when.on_points]
        lowering = replace(lowering, predicate=_all(on_points))
    expression = lowering.value(insight.value)
    filters = [lowering.condition(term, expression) for term in insight.when.on_results]
    expression, *filters = sample([expression, *filters], insight.options)
    counted, every_ms = None, trigger.ticks.every_ms
    if insight.at_points:
        every_ms = short_step([expression, *filters], every_ms)
        expression, *filters = (rewrite(each, at_step(every_ms)) for each in (expression, *filters))
        if trigger.points is not None:
            counted = point_counts(trigger.points, every_ms, [expression, *filters], insight.keys)
    return Definition(
        name=insight.syntax.name,
        text=text,
        expression=expression,
        by=insight.keys,
        every_ms=every_ms,
        filter=_all(filters) if filters else None,
        each_point=insight.at_points,
        counted=counted,
        at=trigger.at,
        scheduler=insight.options.scheduler or scheduler,
        options=insight.options.run,
        feed=insight.feed,
    )


@dataclass(frozen=True, slots=True)
class _Lowering:
    """Translates parts of a bound insight to expressions of a plan.

    ``predicate``: the condition on all points that the parts read; None: no condition.
    """

    insight: bound.BoundInsight
    ticks: Ticks
    predicate: Expression | None = None

    def value(self, node: bound.BoundValue, subject: Expression | None = None) -> Expression:
        """Return the expression of a value.

        ``subject``: the expression to insert for an omitted side of a comparison.
        """
        match node:
            case bound.Constant(value):
                return Literal(value)
            case bound.Subject() if subject is not None:
                return subject
            case bound.AttributeRead(name):
                return Attribute(name)
            case bound.BoundNegation(operand):
                return Negation(self.value(operand, subject))
            case bound.BoundArithmetic(operator, left, right):
                return Arithmetic(operator, self.value(left, subject), self.value(right, subject))
            case bound.CurrentValue(source, by):
                return self._latest(source, by)
            case bound.LabelRead():
                return self._label(node)
            case bound.BoundScope():
                return self._scoped(node)
            case bound.BoundAggregation():
                return self._aggregate(node)
            case bound.BoundReduction(function, (operand, *_), by, parameters):
                return Reduction(function, self.value(operand), by, parameters)
            case bound.BoundTickSeries():
                return self._tick_series(node)
            case bound.ScalarCall("GEOHASH", (position,), (characters,)):
                return PositionGeohash(int(characters), self.value(position))
            case bound.ScalarCall("GEOHASH", (latitude, longitude), (characters,)):
                return Geohash(int(characters), self.value(latitude), self.value(longitude))
            case bound.ScalarCall(function, (operand,)) if function != "GEOHASH":
                return Mapped(function, self.value(operand))
            case bound.BoundDerivation():
                return self._derived(node)
            case bound.BoundInsightReference(symbol):
                return self._referred(symbol.definition)
            case _:
                raise AssertionError(node)  # an unresolved value is an error

    def condition(self, node: bound.BoundCondition, subject: Expression) -> Expression:
        """Return the expression of a condition.

        ``subject``: the expression to insert for an omitted side of a comparison.
        """
        match node:
            case bound.BoundComparison(operator, left, right):
                return Comparison(operator, self.value(left, subject), self.value(right, subject))
            case bound.BoundMembership():
                return self._membership(node, subject)
            case bound.BoundWithin(operand, options, negated):
                return Within(self.value(operand, subject), self._derived(options), negated)
            case bound.Conjunction(terms):
                return _all([self.condition(term, subject) for term in terms])
            case bound.Disjunction(terms):
                return join_conditions(Or, [self.condition(term, subject) for term in terms])
            case bound.Complement(operand):
                return Not(self.condition(operand, subject))
            case bound.Unresolved():
                raise AssertionError(node)  # an unresolved condition is an error

    def _membership(self, node: bound.BoundMembership, subject: Expression) -> Expression:
        operand = self.value(node.operand, subject)
        if not node.negated:
            return Membership(operand, tuple(member.value for member in node.members))
        # Like any comparison, NOT IN is false for a missing value or one of another type.
        by_type: dict[type[ast.Value], list[Expression]] = {}
        for member in node.members:
            differs = Comparison("!=", operand, Literal(member.value))
            by_type.setdefault(type(member), []).append(differs)
        return join_conditions(Or, [_all(others) for others in by_type.values()])

    def _scoped(self, node: bound.BoundScope) -> Expression:
        own = [self.condition(term, Value()) for term in node.when.on_points]
        outer = [] if self.predicate is None else [self.predicate]
        predicate = _all([*outer, *own]) if own else self.predicate
        inner = replace(self, predicate=predicate)
        value = inner.value(node.value)
        if not node.when.on_results:
            return value
        return Filtered(value, _all([inner.condition(t, value) for t in node.when.on_results]))

    def _aggregate(self, node: bound.BoundAggregation) -> Aggregate:
        every_ms = self.ticks.every_ms
        size_ms = offset_ms = 0
        if node.function not in ACCUMULATED:
            size_ms = 0 if node.call.window is None else node.call.window.millis
            offset_ms = 0 if node.call.offset is None else node.call.offset.millis
        source, *other = map(self._source, node.sources)
        points = self.insight.trigger.points
        if size_ms or node.function in ACCUMULATED:
            points = None
        return Aggregate(
            node.function,
            source,
            size_ms or every_ms,
            every_ms,
            node.by,
            offset_ms,
            node.parameters,
            next(iter(other), None),
            self.insight.trigger.each_point,
            self.ticks.at,
            points=msgspec.UNSET if points is None else points,
        )

    def _tick_series(self, node: bound.BoundTickSeries) -> TickSeries:
        """Return the series of a function over values of ticks.

        The value at an earlier tick is computed from windows with an offset. So a series needs no
        state, and late points correct it as they correct windows.
        """
        call, every_ms = node.call, self.ticks.every_ms
        count = series_ticks(call.window.millis if call.window else None, every_ms)
        start_ms = call.offset.millis if call.offset else 0
        series = [
            tuple(_shifted(value, start_ms + number * every_ms) for number in range(count))
            for value in map(self.value, node.operands)
        ]
        others = series[1] if len(series) > 1 else ()
        return TickSeries(node.function, series[0], every_ms, node.by, node.parameters, others)

    def _latest(self, source: bound.PointSource, by: tuple[str, ...]) -> Aggregate:
        """Return the aggregate that computes a metric's latest value while the value is current."""
        every_ms, each_point = self.ticks.every_ms, self.insight.trigger.each_point
        size_ms = current_ms(every_ms)
        points = self._source(source)
        return Aggregate(
            "LATEST", points, size_ms, every_ms, by, each_point=each_point, at=self.ticks.at
        )

    def _derived(self, node: bound.BoundDerivation) -> Derived:
        return Derived(node.function, tuple(self.value(each) for each in node.operands))

    def _label(self, node: bound.LabelRead) -> Label:
        read = [node.attribute, *([] if node.longitude is None else [node.longitude])]
        keys = tuple(dict.fromkeys((*node.by, *read)))
        return Label(
            node.attribute,
            self._latest(node.source, keys),
            node.by,
            msgspec.UNSET if node.longitude is None else node.longitude,
            msgspec.UNSET if node.kind is None else _LABEL_KINDS[node.kind],
            # A worker of the earlier version knows only this field.
            is_number=True if node.kind == "a number" else msgspec.UNSET,
        )

    def _source(self, source: bound.PointSource) -> Source:
        allowed = [
            each.condition
            for each in self.insight.allowed
            if each.metric is None or each.metric == source.metric
        ]
        own = [self.condition(term, Value()) for term in (*source.terms, *allowed)]
        if source.predicate is not None:
            own.append(source.predicate)
        predicates = [_all(own)] if own else []
        if self.predicate is not None:
            predicates.append(self.predicate)
        predicate = And(*predicates) if len(predicates) == 2 else next(iter(predicates), None)
        return Source(source.metric, source.entities, predicate)

    def _referred(self, definition: Definition) -> Expression:
        """Return the expression of a referenced insight, evaluated at the times of this insight."""
        value = definition.expression
        if definition.filter is not None:
            value = Filtered(value, definition.filter)
        each_point = self.insight.trigger.each_point
        other_times = each_point or definition.each_point
        held = not other_times and not self.ticks.are_subset_of(definition.ticks)
        hold_ms = definition.every_ms if held else msgspec.UNSET
        return rewrite(
            value, lambda part: _retimed(part, self.ticks, each_point, other_times, hold_ms)
        )


def _retimed(
    part: Expression,
    ticks: Ticks,
    each_point: bool,
    other_times: bool,
    hold_ms: int | msgspec.UnsetType,
) -> Expression:
    """Return a part of a referenced insight's expression, with other times of evaluation.

    ``ticks``, ``each_point``: the times at which the referring insight has values. ``other_times``:
    whether the referring insight or the referenced insight has values at points instead of ticks.
    ``hold_ms``: the interval for which a value of the referenced insight is held, if it has fewer
    ticks.
    """
    if not isinstance(part, Aggregate):
        return part
    # The size of a window stays, even if it was the interval of the insight. An
    # accumulator has no window: it takes each point once.
    size = part.size_ms
    if part.function in ACCUMULATED:
        size = ticks.every_ms
    elif part.function == "LATEST" and other_times:
        size = current_ms(ticks.every_ms)
    return msgspec.structs.replace(
        part,
        size_ms=size,
        every_ms=ticks.every_ms,
        at=ticks.at,
        each_point=each_point,
        hold_ms=part.hold_ms if hold_ms is msgspec.UNSET else hold_ms,
    )


_LABEL_KINDS: Final[dict[bound.Type, AttributeKind]] = {
    "a number": "number",
    "a text": "text",
    "a boolean": "boolean",
}


def _shifted(expression: Expression, by_ms: int) -> Expression:
    """Return an expression with its windows shifted further into the past."""

    def shift(part: Expression) -> Expression:
        if not isinstance(part, Aggregate):
            return part
        return msgspec.structs.replace(part, offset_ms=part.offset_ms + by_ms)

    return rewrite(expression, shift) if by_ms else expression


def _all(conditions: list[Expression]) -> Expression:
    return join_conditions(And, conditions)
