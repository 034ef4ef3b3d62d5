"""The binding of COMPUTE with the name of an attribute or of a stream: values at latest points."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from analytics.plan.attributes import canonical
from analytics_enabler.semantics.bind.allowances import allow_terms
from analytics_enabler.semantics.bind.bound_tree import (
    BoundCondition,
    BoundValue,
    CurrentValue,
    LabelRead,
    PointSource,
    Properties,
    Subject,
    Unresolved,
)
from analytics_enabler.semantics.bind.names import (
    MetricNames,
    ValueScope,
    leaves,
    metrics_in_condition,
)
from analytics_enabler.semantics.bind.point_schema import PointSchema, sources
from analytics_enabler.semantics.bind.values import ValueBinder, distinct
from analytics_enabler.semantics.diagnostics import Diagnostics, Suggestions, did_you_mean
from analytics_enabler.semantics.expand.streams import ComputedStream
from grammar import ast
from grammar.trees import references, terms, walk

Bound = tuple[BoundValue, list[BoundCondition]]
"""(value of an insight, conditions of its WHEN)."""


@dataclass(frozen=True, slots=True)
class LatestPoints:
    """Binds insights whose COMPUTE has only the name of an attribute or of a stream.

    The conditions determine the points: those of the first metric in WHEN or ALLOW, or else those
    of the first metric that an INSIGHT in WHEN or ALLOW reads. The insight then has a value for
    each key of this INSIGHT.
    """

    binder: ValueBinder
    points: PointSchema
    suggestions: Suggestions

    def bind(
        self, insight: ast.InsightStatement, computed: ComputedStream | None, scope: ValueScope
    ) -> Bound | None:
        """Return the bound value and WHEN; None if COMPUTE names neither attribute nor stream.

        ``computed``: the stream that COMPUTE names.
        """
        name = insight.expression
        if not isinstance(name, ast.Name):
            return None
        on_results, point_terms = allow_terms(insight)
        conditions = [*terms(insight.when), *on_results, *(term for term, _ in point_terms)]
        read = frozenset(each.metric for term in conditions for each in metrics_in_condition(term))
        metrics = MetricNames(self.points.metrics or frozenset(), read)
        if name.name in metrics:
            return None
        if computed is not None:
            likely = read | frozenset(self._compared_with_numbers(conditions, scope))
            metrics = replace(metrics, read=likely)
            return self._stream(insight, name, computed, conditions, metrics, scope)
        return self._attribute(insight, name, conditions, metrics, scope)

    def _attribute(
        self,
        insight: ast.InsightStatement,
        name: ast.Name,
        conditions: Sequence[ast.Condition],
        metrics: MetricNames,
        scope: ValueScope,
    ) -> Bound | None:
        attribute = canonical(name.name)
        is_attribute = attribute in scope.by or self.points.has_attribute(name.name)
        if self.points.metrics is None and not is_attribute:
            return None
        found = Diagnostics()
        bound, source = self._conditions(insight, conditions, metrics, scope, found)
        if source is None:
            return None
        by = self._keys(conditions, scope)
        if not is_attribute and attribute not in by:
            hint = f"If it is a metric, name it in a function, as in `MAX({name.name})`."
            near = self.suggestions.nearest(name.name, self.points.metrics or ())
            found.warning(
                name.span,
                f"`{name.name}` is interpreted as an attribute of the points of "
                f"`{source.metric}`: no point of a metric of this name has arrived yet",
                did_you_mean(near) if near else hint,
            )
        self.binder.diagnostics.extend(found.problems)
        properties = Properties("a text", frozenset(by), reads=True)
        return LabelRead(attribute, source, by, span=name.span, properties=properties), bound

    def _stream(
        self,
        insight: ast.InsightStatement,
        name: ast.Name,
        computed: ComputedStream,
        conditions: Sequence[ast.Condition],
        metrics: MetricNames,
        scope: ValueScope,
    ) -> Bound:
        found = Diagnostics()
        binder = replace(self.binder, within=computed.conditions or ())
        inside = replace(self, binder=binder)
        bound, source = inside._conditions(insight, conditions, metrics, scope, found)
        self.binder.diagnostics.extend(found.problems)
        if source is None or computed.conditions is None:
            self._report_stream(name, computed)
            properties = Properties(None, resolved=False)
            return Unresolved(span=name.span, properties=properties), bound
        by = self._keys(conditions, scope)
        value = CurrentValue(
            source,
            by,
            span=name.span,
            properties=Properties(keys=frozenset(by), reads=True),
        )
        return value, bound

    def _compared_with_numbers(
        self, conditions: Sequence[ast.Condition], scope: ValueScope
    ) -> Iterator[str]:
        """Yield the unknown names that are compared with numbers.

        A stream contains points of a metric, so such a name is a metric without points yet.
        """
        for node in (node for each in conditions for node in walk(each)):
            if not isinstance(node, ast.Compare):
                continue
            sides = (node.left, node.right)
            names = [side.name for side in sides if isinstance(side, ast.Name)]
            if any(isinstance(side, ast.Number) for side in sides):
                for name in names:
                    if canonical(name) not in scope.labels and not self.points.has_attribute(name):
                        yield name

    def _report_stream(self, name: ast.Name, computed: ComputedStream) -> None:
        message = f"`{name.name}` is a stream, and no condition names its metric"
        hint = f"Name a metric, as in `cpu FROM ({name.name})` or `WHEN cpu > 90`."
        if computed.conditions is None:
            message = f"`{name.name}` is a stream without a metric of its own"
            hint = f"Name a metric, as in `temperature FROM ({name.name})`."
        self.binder.diagnostics.error(name.span, message, hint)

    def _conditions(
        self,
        insight: ast.InsightStatement,
        conditions: Sequence[ast.Condition],
        metrics: MetricNames,
        scope: ValueScope,
        found: Diagnostics,
    ) -> tuple[list[BoundCondition], PointSource | None]:
        """Return (bound WHEN, points whose latest count); the points are None if unknown.

        The errors in WHEN are added to ``found``. ALLOW is bound, and its errors are reported,
        later.
        """
        if any(isinstance(leaf, ast.Elided) for each in conditions for leaf in leaves(each)):
            return [], None
        trial = replace(self.binder, metrics=metrics, diagnostics=found)
        bound = trial.results(insight.when, Subject(), scope)
        silent = replace(trial, diagnostics=Diagnostics())
        on_results, on_points = allow_terms(insight)
        allowed = [each for term in on_results for each in silent.results(term, Subject(), scope)]
        named = (name for _, names in on_points for name in names)
        candidates = chain(
            sources(*bound, *allowed),
            (
                self.binder.source(ast.MetricStream(each.name, span=each.span))
                for each in named
                if each.name in metrics
            ),
            self._sources_of_references(conditions),
        )
        return bound, next(candidates, None)

    def _keys(self, conditions: Sequence[ast.Condition], scope: ValueScope) -> tuple[str, ...]:
        symbols = [self.binder.symbols[name] for name in _referenced(conditions)]
        further = (key for each in symbols if each is not None for key in each.definition.by)
        return distinct((*scope.by, *further))

    def _sources_of_references(self, conditions: Sequence[ast.Condition]) -> Iterator[PointSource]:
        """Yield the points that the insights in conditions read."""
        for condition in conditions:
            for node in references(condition):
                symbol = self.binder.symbols[node.name]
                for part in () if symbol is None else symbol.aggregates:
                    read = part.source
                    points = PointSource(
                        read.metric, read.entities, predicate=read.predicate, span=node.span
                    )
                    yield self.binder.restricted(points)


def _referenced(conditions: Sequence[ast.Condition]) -> Iterator[str]:
    return (node.name for each in conditions for node in references(each))
