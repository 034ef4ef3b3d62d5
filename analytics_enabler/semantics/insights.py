"""The meaning of one statement."""

from analytics_enabler.semantics.aggregates import STAND_IN_MS, Aggregates, check_length
from analytics_enabler.semantics.conditions import (
    conjunction,
    translate_condition,
    translate_value,
)
from analytics_enabler.semantics.definition import Definition
from analytics_enabler.semantics.findings import Findings, beginning, did_you_mean, nearest
from analytics_enabler.semantics.scopes import ComputeScope, PointScope, ResultScope, leaves
from grammar import ast, format_statement
from mistbow.plan.attributes import canonical
from mistbow.plan.expressions import Aggregate, Expression, walk
from mistbow.schedulers.registry import names


def define(insight: ast.Insight, findings: Findings, scheduler: str) -> Definition:
    """Return what an insight means; where ``findings`` gained an error, a stand-in for it.

    ``scheduler`` places it unless it names another one.
    """
    every_ms = _every(insight, findings)
    by = tuple(dict.fromkeys(canonical(name) for name in insight.by))
    on_points, on_results = _split(insight, by, findings)
    predicate = _translated_points(on_points, findings)
    aggregates = Aggregates(findings, by, every_ms, predicate)
    scope = ComputeScope(aggregates.translate)
    expression = translate_value(insight.expression, scope, findings)
    _check_aggregated(insight, expression, findings)
    result_scope = ResultScope(expression, aggregates.translate)
    filters = [translate_condition(term, result_scope, findings) for term in on_results]
    return Definition(
        name=insight.name,
        text=format_statement(insight),
        expression=expression,
        by=by,
        every_ms=aggregates.every_ms or STAND_IN_MS,
        filter=conjunction(filters) if filters else None,
        scheduler=_scheduler(insight, findings) or scheduler,
    )


def _scheduler(insight: ast.Insight, findings: Findings) -> str | None:
    schedulers = [option for option in insight.options if isinstance(option, ast.Scheduler)]
    for other in schedulers[1:]:
        findings.error(other.span, "SCHEDULER is given twice", "Name one scheduler.")
    if not schedulers:
        return None
    named = schedulers[0]
    # Looked up each time: a package that is installed now counts from now on.
    installed = names()
    if named.name not in installed:
        near = nearest(named.name, installed)
        findings.error(
            named.span,
            f"there is no scheduler `{named.name}`",
            did_you_mean(near) if near else f"There are {', '.join(installed)}.",
        )
    return named.name


def _every(insight: ast.Insight, findings: Findings) -> int | None:
    """Return the interval in milliseconds, None for one that is missing or impossible."""
    if insight.every is None:
        findings.error(
            beginning(insight.span, len(insight.name)),
            f"`{insight.name}` does not say how often it is computed",
            "Add `EVERY 5 SECONDS`, say; continuous insights come later.",
        )
        return None
    if not isinstance(insight.every, ast.Interval):  # not computed, and refused before
        raise AssertionError(insight.every)
    if not check_length(insight.every, "an EVERY interval", findings):
        return None
    return insight.every.millis


def _check_aggregated(insight: ast.Insight, expression: Expression, findings: Findings) -> None:
    if not any(isinstance(node, Aggregate) for node in walk(expression)):
        findings.error(
            insight.expression.span,
            "there is no aggregate here, so nothing would ever be computed",
            "Aggregate a metric, as in `AVG(cpu.util, 10 SECONDS)`.",
        )


def _translated_points(terms: list[ast.Condition], findings: Findings) -> Expression | None:
    scope = PointScope(findings)
    translated = [translate_condition(term, scope, findings) for term in terms]
    return conjunction(translated) if translated else None


def _split(
    insight: ast.Insight, by: tuple[str, ...], findings: Findings
) -> tuple[list[ast.Condition], list[ast.Condition]]:
    """Part the terms of the trailing WHEN: those on points, and those on results."""
    on_points: list[ast.Condition] = []
    on_results: list[ast.Condition] = []
    for term in _terms(insight.when):
        found = list(leaves(term))
        names = [leaf for leaf in found if isinstance(leaf, ast.Name)]
        of_points = [name for name in names if canonical(name.name) not in by]
        if not of_points:
            on_results.append(term)
        elif len(of_points) == len(found):
            on_points.append(term)
        else:
            _refuse_mixture(of_points[0], findings)
    return on_points, on_results


def _refuse_mixture(name: ast.Name, findings: Findings) -> None:
    findings.error(
        name.span,
        f"`{name.name}` is an attribute of points; the rest of this condition is about results",
        f"Add `{name.name}` to BY, or make two conditions of it, joined by AND; "
        f"a metric needs an aggregate: `AVG({name.name})`.",
    )


def _terms(when: ast.Condition | None) -> tuple[ast.Condition, ...]:
    match when:
        case None:
            return ()
        case ast.And(terms):
            return terms
        case _:
            return (when,)
