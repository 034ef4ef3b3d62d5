"""The binding of one insight: syntax tree → bound tree."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from analytics.plan.attributes import canonical, is_of_all_points
from analytics.plan.feeds import Feed
from analytics_enabler.semantics.bind.bound_tree import (
    Allowance,
    BoundCondition,
    BoundInsight,
    BoundValue,
    LabelRead,
    PointSource,
    Properties,
    Subject,
)
from analytics_enabler.semantics.bind.names import (
    MetricNames,
    PointScope,
    ValueScope,
    leaves,
    metrics_in_condition,
    metrics_read,
)
from analytics_enabler.semantics.bind.options import bind_options, bind_outliers
from analytics_enabler.semantics.bind.predicate_split import split
from analytics_enabler.semantics.bind.symbols import InsightSymbol
from analytics_enabler.semantics.bind.trigger import bind_trigger
from analytics_enabler.semantics.bind.values import (
    ValueBinder,
    added_keys,
    distinct,
    has_unresolved,
)
from analytics_enabler.semantics.diagnostics import Diagnostics, Suggestions, did_you_mean
from analytics_enabler.semantics.window_lengths import WITHOUT_WINDOW
from grammar import ast
from grammar.trees import references, terms, walk


@dataclass(frozen=True, slots=True)
class PointSchema:
    """The metrics and the attributes of the points that an insight may read.

    ``metrics``: None if unknown. ``attributes``: the attributes that points certainly have; points
    may have further attributes.
    """

    metrics: frozenset[str] | None = None
    attributes: frozenset[str] = frozenset()


def bind(
    insight: ast.InsightStatement,
    feed: Feed | None,
    points: PointSchema,
    symbols: Mapping[str, InsightSymbol | None],
    diagnostics: Diagnostics,
    suggestions: Suggestions,
) -> BoundInsight:
    """Return the bound tree of an insight; add the errors found to ``diagnostics``.

    ``points``: the metrics and attributes that points can have. ``symbols``: name of a referenced
    insight -> symbol; None for an unresolved reference. ``feed``: the feed that the insight reads;
    None: the insight reads storage.
    """
    options = bind_options(insight, diagnostics)
    trigger = bind_trigger(insight, _referred_lengths(symbols), diagnostics, suggestions)
    outliers = bind_outliers(insight, diagnostics)
    binder = ValueBinder(MetricNames(), symbols, outliers, diagnostics)
    by = distinct(map(canonical, insight.by))
    added = tuple(added_keys(insight.expression, symbols))
    keys = distinct((*by, *added))
    scope = ValueScope(by, frozenset(keys))
    value, conditions = _bind_label(insight, binder, scope, points, suggestions) or _bind_value(
        insight, binder, scope, points
    )
    if isinstance(value, LabelRead):
        keys = distinct((*keys, *value.by))
    result_terms, point_terms = _allow_terms(insight)
    if result_terms:
        named = frozenset(_metrics_with_allow(insight, result_terms, scope))
        binder = replace(binder, metrics=MetricNames(points.metrics or frozenset(), named))
    for term in result_terms:
        conditions += binder.results(term, value, scope)
    # The keys of an unresolved insight are unknown, so any attribute may be one of a key.
    unknown_keys = has_unresolved(insight.expression, symbols)
    when = split(conditions, keys, Diagnostics() if unknown_keys else diagnostics)
    allowed: list[Allowance] = []
    if point_terms:
        read = {source.metric for source in sources(value, *when.on_points, *when.on_results)}
        allowed = [_bind_allowance(term, read, binder) for term in point_terms]
    return BoundInsight(
        value, when, tuple(allowed), by, keys, trigger, options, feed,
        span=insight.span, syntax=insight,
    )  # fmt: skip


def sources(*nodes: ast.SyntaxNode) -> Iterator[PointSource]:
    """Yield the points that bound nodes read directly, from left to right.

    The points that referenced insights read are omitted.
    """
    for root in nodes:
        yield from (node for node in walk(root) if isinstance(node, PointSource))


def _bind_value(
    insight: ast.InsightStatement, binder: ValueBinder, scope: ValueScope, points: PointSchema
) -> tuple[BoundValue, list[BoundCondition]]:
    read = frozenset(stream.metric for stream in metrics_read(insight))
    binder = replace(binder, metrics=MetricNames(points.metrics or frozenset(), read))
    value = binder.value(insight.expression, scope)
    return value, binder.results(insight.when, value, scope)


def _bind_label(
    insight: ast.InsightStatement,
    binder: ValueBinder,
    scope: ValueScope,
    points: PointSchema,
    suggestions: Suggestions,
) -> tuple[BoundValue, list[BoundCondition]] | None:
    """Return (label, conditions of WHEN) if COMPUTE has only the name of an attribute of points.

    Return None if COMPUTE has anything else, such as the name of a metric. The label is read from
    the latest point of the first metric in WHEN or ALLOW, or else of the first metric that an
    INSIGHT there reads. The label has a value for each key of these insights.
    """
    node = insight.expression
    result_terms, point_terms = _allow_terms(insight)
    on_points = [term for term, _ in point_terms]
    conditions = [*terms(insight.when), *result_terms, *on_points]
    if not isinstance(node, ast.Name) or not conditions:
        return None
    if any(isinstance(leaf, ast.Elided) for each in conditions for leaf in leaves(each)):
        return None
    name = canonical(node.name)
    read = frozenset(stream.metric for each in conditions for stream in metrics_in_condition(each))
    metrics = MetricNames(points.metrics or frozenset(), read)
    is_attribute = name in points.attributes or name in scope.by or is_of_all_points(name)
    if node.name in metrics or (points.metrics is None and not is_attribute):
        return None
    found = Diagnostics()
    trial = replace(binder, metrics=metrics, diagnostics=found)
    bound = trial.results(insight.when, Subject(), scope)
    # ALLOW is bound, and its errors are reported, later.
    silent = replace(trial, diagnostics=Diagnostics())
    allowed = [each for term in result_terms for each in silent.results(term, Subject(), scope)]
    named = (name for _, names in point_terms for name in names)
    source = next(
        chain(
            sources(*bound, *allowed),
            (PointSource(each.name, span=each.span) for each in named if each.name in metrics),
            _sources_of_references(conditions, binder.symbols),
        ),
        None,
    )
    if source is None:
        return None
    by = distinct((*scope.by, *_keys_of_references(conditions, binder.symbols)))
    if not is_attribute and name not in by:
        hint = f"If it is a metric, name it in a function, as in `MAX({node.name})`."
        near = suggestions.nearest(node.name, points.metrics or ())
        found.warning(
            node.span,
            f"`{node.name}` is interpreted as an attribute of the points of `{source.metric}`: "
            "no point of a metric of this name has arrived yet",
            did_you_mean(near) if near else hint,
        )
    binder.diagnostics.extend(found.problems)
    properties = Properties("a text", frozenset(by), reads=True)
    return LabelRead(name, source, by, span=node.span, properties=properties), bound


def _sources_of_references(
    conditions: Iterable[ast.Condition], symbols: Mapping[str, InsightSymbol | None]
) -> Iterator[PointSource]:
    """Yield the points that the insights in conditions read."""
    for node in (node for each in conditions for node in references(each)):
        symbol = symbols[node.name]
        for part in () if symbol is None else symbol.aggregates:
            read = part.source
            yield PointSource(read.metric, read.entities, predicate=read.predicate, span=node.span)


def _keys_of_references(
    conditions: Iterable[ast.Condition], symbols: Mapping[str, InsightSymbol | None]
) -> Iterator[str]:
    """Yield the attributes in the keys of the insights in conditions."""
    for node in (node for each in conditions for node in references(each)):
        symbol = symbols[node.name]
        yield from () if symbol is None else symbol.definition.by


def _metrics_with_allow(
    insight: ast.InsightStatement, result_terms: Iterable[ast.Condition], scope: ValueScope
) -> Iterator[str]:
    """Yield the names that are metrics in the terms of ALLOW on results.

    A name in such a term that is in no key can only be a metric, whose current value is meant.
    """
    yield from (stream.metric for stream in metrics_read(insight))
    for term in result_terms:
        yield from (stream.metric for stream in metrics_in_condition(term))
        for leaf in leaves(term):
            if isinstance(leaf, ast.Name) and canonical(leaf.name) not in scope.labels:
                yield leaf.name


def _allow_terms(
    insight: ast.InsightStatement,
) -> tuple[list[ast.Condition], list[tuple[ast.Condition, list[ast.Name]]]]:
    """Return (terms of ALLOW on results, terms of ALLOW on points).

    A term on points is a pair: (condition, names in the condition). A term in which all operands
    are names restricts the points, even if a name is an attribute in BY, because the term must be
    evaluated before a result leaves the node.
    """
    on_results: list[ast.Condition] = []
    on_points: list[tuple[ast.Condition, list[ast.Name]]] = []
    for option in insight.options:
        for term in terms(option.when) if isinstance(option, ast.Allow) else ():
            found = list(leaves(term))
            names = [leaf for leaf in found if isinstance(leaf, ast.Name)]
            if len(names) == len(found):
                on_points.append((term, names))
            else:
                on_results.append(term)
    return on_results, on_points


def _bind_allowance(
    term: tuple[ast.Condition, list[ast.Name]], read: set[str], binder: ValueBinder
) -> Allowance:
    """Return the bound form of a term of ALLOW on points.

    The term applies to the metric that is named in the term; without a metric, to all metrics.
    """
    condition, names = term
    named = [name for name in names if name.name in read]
    metric = named[0].name if named else None
    for name in named:
        if name.name != metric:
            binder.diagnostics.error(
                name.span,
                f"no point has both metrics `{metric}` and `{name.name}`",
                "Write a condition for each metric: `ALLOW WHEN (… AND …)`.",
            )
    bound = binder.condition(condition, PointScope(value_name=metric))
    return Allowance(metric, bound, span=condition.span)


def _referred_lengths(symbols: Mapping[str, InsightSymbol | None]) -> Iterable[int]:
    """Yield the lengths (ms) of the windows and offsets in referenced insights.

    Current values and accumulators are omitted, because the trigger of the referring insight
    determines their windows.
    """
    for symbol in symbols.values():
        for part in () if symbol is None else symbol.aggregates:
            if part.function not in WITHOUT_WINDOW:
                yield from filter(None, (part.size_ms, part.offset_ms))
