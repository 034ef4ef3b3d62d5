"""The binding of ALLOW: its terms on points, and its terms on results."""

from collections.abc import Iterable, Iterator

from analytics.plan.attributes import canonical
from analytics_enabler.semantics.bind.bound_tree import Allowance
from analytics_enabler.semantics.bind.names import (
    PointScope,
    ValueScope,
    leaves,
    metrics_in_condition,
    metrics_read,
)
from analytics_enabler.semantics.bind.point_schema import PointSchema
from analytics_enabler.semantics.bind.symbols import is_of_attributes
from analytics_enabler.semantics.bind.values import ValueBinder
from grammar import ast
from grammar.trees import terms


def allow_terms(
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
            found = [name for leaf in leaves(term) for name in _operands(leaf)]
            names = [leaf for leaf in found if isinstance(leaf, ast.Name)]
            if len(names) == len(found):
                on_points.append((term, names))
            else:
                on_results.append(term)
    return on_results, on_points


def _operands(leaf: ast.SyntaxNode) -> tuple[ast.SyntaxNode, ...]:
    """Return the arguments of a call of an operator over attributes; or else the leaf itself."""
    is_call = isinstance(leaf, ast.FunctionCall) and is_of_attributes(leaf.function)
    return leaf.arguments if isinstance(leaf, ast.FunctionCall) and is_call else (leaf,)


def metrics_with_allow(
    insight: ast.InsightStatement,
    result_terms: Iterable[ast.Condition],
    scope: ValueScope,
    points: PointSchema,
) -> Iterator[str]:
    """Yield the names that are metrics in the terms of ALLOW on results.

    A name in such a term that is not a key attribute is a metric, and means its current value. If
    only an attribute of points has this name, and no metric, the name means the attribute.
    """
    yield from (stream.metric for stream in metrics_read(insight))
    for term in result_terms:
        yield from (stream.metric for stream in metrics_in_condition(term))
        for leaf in leaves(term):
            if isinstance(leaf, ast.Name) and canonical(leaf.name) not in scope.labels:
                is_metric = points.metrics is not None and leaf.name in points.metrics
                if is_metric or not points.has_attribute(leaf.name):
                    yield leaf.name


def bind_allowance(
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
