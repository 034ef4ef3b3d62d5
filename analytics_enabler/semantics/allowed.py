"""ALLOW: what must hold before anything of an insight leaves the node, as conditions elsewhere."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar, cast

from analytics_enabler.semantics.findings import Findings
from analytics_enabler.semantics.scopes import leaves
from analytics_enabler.semantics.trees import all_of, rebuilt, references
from grammar import ast

N = TypeVar("N", bound=ast.Node)


def with_allowed(insight: ast.Insight, findings: Findings) -> ast.Insight:
    """Return an insight whose ALLOW is part of the conditions on its metrics and on its results.

    A term about points goes to the metrics, also if it names what is in BY: where they are read
    is before anything crosses. One about results joins the WHEN at the end.
    """
    for option in insight.options:
        if isinstance(option, ast.Allow):
            for node in references(insight):
                findings.error(
                    node.span,
                    f"ALLOW does not reach the points that `{node.name}` reads",
                    f"Write what `{node.name}` computes here, or give it that ALLOW and leave it "
                    "out.",
                )
            when = option.when
            insight = _with_terms(
                insight, when.terms if isinstance(when, ast.And) else (when,), findings
            )
    return insight


def _with_terms(
    insight: ast.Insight, terms: tuple[ast.Condition, ...], findings: Findings
) -> ast.Insight:
    on_points: list[tuple[ast.Condition, list[ast.Name]]] = []
    on_results: list[ast.Condition] = []
    for term in terms:
        found = list(leaves(term))
        names = [leaf for leaf in found if isinstance(leaf, ast.Name)]
        if len(names) == len(found):
            on_points.append((term, names))
        else:
            on_results.append(term)
    if on_results:
        insight = replace(insight, when=_joined(insight.when, on_results))
    return _of_points(insight, on_points, findings) if on_points else insight


def _of_points(
    insight: ast.Insight, terms: list[tuple[ast.Condition, list[ast.Name]]], findings: Findings
) -> ast.Insight:
    read = _metrics(insight.expression)
    if insight.when is not None:
        read |= _metrics(insight.when)
    told = [_told_of(term, names, read, findings) for term, names in terms]

    def narrow(stream: ast.MetricStream) -> ast.MetricStream:
        own = [condition for metric, condition in told if metric in (None, stream.metric)]
        return replace(stream, when=_joined(stream.when, own)) if own else stream

    # Once for all terms: each time makes the insight anew.
    when = None if insight.when is None else _narrowed(insight.when, narrow)
    return replace(insight, expression=_narrowed(insight.expression, narrow), when=when)


def _told_of(
    term: ast.Condition, names: list[ast.Name], read: set[str], findings: Findings
) -> tuple[str | None, ast.Condition]:
    """Return which metric's points a term is about, None for all, and what is to hold of them."""
    about = [name for name in names if name.name in read]
    metric = about[0].name if about else None
    for name in about:
        if name.name != metric:
            findings.error(
                name.span,
                f"a point is of `{metric}` or of `{name.name}`, never of both",
                "Make a condition for each metric, joined by AND in parentheses.",
            )
    return metric, term if metric is None else _about_value(term, metric)


def _narrowed(
    node: N, narrow: Callable[[ast.MetricStream], ast.MetricStream], *, on_values: bool = True
) -> N:
    """Return a tree with the points that it reads narrowed; a name in a condition reads none."""
    match node:
        case ast.Name():
            stream = ast.MetricStream(node.name, span=node.span)
            return cast("N", narrow(stream)) if on_values else node
        case ast.MetricStream():
            return cast("N", narrow(node))
    # What is in parentheses or in a call is a value, in a condition too; its own WHEN is none.
    values = isinstance(node, ast.Call | ast.Scoped) or (
        on_values and not isinstance(node, ast.Condition)
    )
    return rebuilt(node, lambda part: _narrowed(part, narrow, on_values=values))


def _metrics(node: ast.Node) -> set[str]:
    found: set[str] = set()

    def note(stream: ast.MetricStream) -> ast.MetricStream:
        found.add(stream.metric)
        return stream

    _narrowed(node, note)
    return found


def _about_value(node: N, metric: str) -> N:
    """Return a condition in which the value of a point is meant by its metric's name."""
    if isinstance(node, ast.Name) and node.name == metric:
        return cast("N", ast.Elided(span=node.span))
    return rebuilt(node, lambda part: _about_value(part, metric))


def _joined(one: ast.Condition | None, others: list[ast.Condition]) -> ast.Condition:
    return all_of(others if one is None else [one, *others])
