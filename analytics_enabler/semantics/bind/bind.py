"""The binding of one insight: syntax tree → bound tree."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from analytics.plan.attributes import canonical
from analytics.plan.feeds import Feed
from analytics_enabler.semantics.bind.allowances import (
    allow_terms,
    bind_allowance,
    metrics_with_allow,
)
from analytics_enabler.semantics.bind.bound_tree import (
    Allowance,
    BoundCondition,
    BoundInsight,
    BoundValue,
    CurrentValue,
    LabelRead,
)
from analytics_enabler.semantics.bind.latest_points import LatestPoints
from analytics_enabler.semantics.bind.names import MetricNames, ValueScope, metrics_read
from analytics_enabler.semantics.bind.options import bind_options, bind_outliers
from analytics_enabler.semantics.bind.point_schema import PointSchema, sources
from analytics_enabler.semantics.bind.predicate_split import split
from analytics_enabler.semantics.bind.symbols import InsightSymbol
from analytics_enabler.semantics.bind.trigger import bind_trigger
from analytics_enabler.semantics.bind.values import (
    ValueBinder,
    added_keys,
    distinct,
    has_unresolved,
)
from analytics_enabler.semantics.diagnostics import Diagnostics, Suggestions
from analytics_enabler.semantics.expand.streams import ComputedStream
from analytics_enabler.semantics.window_lengths import WITHOUT_WINDOW
from grammar import ast


def bind(
    insight: ast.InsightStatement,
    feed: Feed | None,
    points: PointSchema,
    symbols: Mapping[str, InsightSymbol | None],
    diagnostics: Diagnostics,
    suggestions: Suggestions,
    computed: ComputedStream | None = None,
) -> BoundInsight:
    """Return the bound tree of an insight; add the errors found to ``diagnostics``.

    ``points``: the metrics and attributes that points can have. ``symbols``: name of a referenced
    insight -> symbol; None for an unresolved reference. ``feed``: the feed that the insight reads;
    None: the insight reads storage. ``computed``: the stream whose name stands after COMPUTE.
    """
    options = bind_options(insight, diagnostics)
    trigger = bind_trigger(insight, _referred_lengths(symbols), diagnostics, suggestions)
    outliers = bind_outliers(insight, diagnostics)
    binder = ValueBinder(MetricNames(), symbols, outliers, diagnostics)
    by = distinct(map(canonical, insight.by))
    added = tuple(added_keys(insight.expression, symbols))
    keys = distinct((*by, *added))
    scope = ValueScope(by, frozenset(keys))
    latest = LatestPoints(binder, points, suggestions).bind(insight, computed, scope)
    value, conditions = latest or _bind_value(insight, binder, scope, points)
    if latest is not None and isinstance(value, LabelRead | CurrentValue):
        keys = distinct((*keys, *value.by))
    result_terms, point_terms = allow_terms(insight)
    if result_terms:
        named = frozenset(metrics_with_allow(insight, result_terms, scope, points))
        binder = replace(binder, metrics=MetricNames(points.metrics or frozenset(), named))
        if latest is not None and computed is not None:
            binder = replace(binder, within=computed.conditions or ())
    for term in result_terms:
        read_at = next(sources(value), None)
        conditions += binder.results(term, value, scope, latest=read_at)
    # The keys of an unresolved insight are unknown, so any attribute may be one of a key.
    unknown_keys = has_unresolved(insight.expression, symbols)
    when = split(conditions, keys, Diagnostics() if unknown_keys else diagnostics)
    allowed: list[Allowance] = []
    if point_terms:
        read = {source.metric for source in sources(value, *when.on_points, *when.on_results)}
        allowed = [bind_allowance(term, read, binder) for term in point_terms]
    return BoundInsight(
        value, when, tuple(allowed), by, keys, trigger, options, feed,
        span=insight.span, syntax=insight,
    )  # fmt: skip


def _bind_value(
    insight: ast.InsightStatement, binder: ValueBinder, scope: ValueScope, points: PointSchema
) -> tuple[BoundValue, list[BoundCondition]]:
    read = frozenset(stream.metric for stream in metrics_read(insight))
    binder = replace(binder, metrics=MetricNames(points.metrics or frozenset(), read))
    value = binder.value(insight.expression, scope)
    return value, binder.results(insight.when, value, scope)


def _referred_lengths(symbols: Mapping[str, InsightSymbol | None]) -> Iterable[int]:
    """Yield the lengths (ms) of the windows and offsets in referenced insights.

    Current values and accumulators are omitted, because the trigger of the referring insight
    determines their windows.
    """
    for symbol in symbols.values():
        for part in () if symbol is None else symbol.aggregates:
            if part.function not in WITHOUT_WINDOW:
                yield from filter(None, (part.size_ms, part.offset_ms))
