"""The meaning of one statement."""

from dataclasses import replace

from analytics_enabler.semantics.adaptive import adapted
from analytics_enabler.semantics.aggregates import STAND_IN_MS, Aggregates
from analytics_enabler.semantics.allowed import with_allowed
from analytics_enabler.semantics.conditions import (
    conjunction,
    translate_condition,
    translate_value,
)
from analytics_enabler.semantics.counting import check_moments, counted
from analytics_enabler.semantics.definition import Definition
from analytics_enabler.semantics.findings import Findings
from analytics_enabler.semantics.keys import check_by, check_filter
from analytics_enabler.semantics.options import options_of, scheduler_of
from analytics_enabler.semantics.pace import pace_of
from analytics_enabler.semantics.parameters import outliers_of
from analytics_enabler.semantics.parting import part
from analytics_enabler.semantics.references import References
from analytics_enabler.semantics.sampling import sampled, sampling_of
from analytics_enabler.semantics.scopes import ComputeScope, PointScope, ResultScope
from analytics_enabler.semantics.values import Values, inner_keys
from analytics_enabler.semantics.weight import check_weight
from grammar import ast
from mistbow.plan.attributes import canonical
from mistbow.plan.expressions import Aggregate, Expression, walk


def define(
    insight: ast.Insight, text: str, findings: Findings, scheduler: str, references: References
) -> Definition:
    """Return what an insight means; where ``findings`` gained an error, a stand-in for it.

    ``text`` is as it was written, and ``scheduler`` places it unless it names another one.
    """
    known = findings.errors
    insight = with_allowed(insight, findings)
    if not check_weight(insight, references.size, findings):
        insight = replace(insight, expression=ast.Name(insight.name), when=None)
    pace = pace_of(insight, references.lengths(insight), findings)
    by = tuple(dict.fromkeys(canonical(name) for name in insight.by))
    keys = tuple(dict.fromkeys((*by, *inner_keys(insight.expression, references))))
    parted = part(insight.expression, insight.when, keys, findings)
    predicate = _translated_points(parted.on_points, findings)
    aggregates = Aggregates(findings, by, pace.every_ms, predicate, pace.each_point, pace.at)
    values = Values(aggregates, references, outliers_of(insight, findings))
    expression = translate_value(insight.expression, ComputeScope(values.translate), findings)
    _check_computed(insight, expression, findings)
    check_by(insight.expression, expression, by, "nothing here is", findings)
    scope = ResultScope(expression, values.translate)
    filters = [translate_condition(term, scope, findings) for term in parted.on_results]
    for term, condition in zip(parted.on_results, filters, strict=True):
        check_filter(term, expression, condition, findings)
    expression, *filters = adapted([expression, *filters], insight, findings)
    read = [expression, *filters]
    sampling = sampling_of(insight, findings)
    at_points = pace.each_point and sampling is None
    if at_points and findings.errors == known:
        check_moments(insight, read, keys, findings)
    if sampling is not None:
        expression, *filters = sampled(read, sampling, insight, findings)
    return Definition(
        name=insight.name,
        text=text,
        expression=expression,
        by=keys,
        every_ms=aggregates.every_ms or STAND_IN_MS,
        filter=conjunction(filters) if filters else None,
        each_point=at_points,
        counted=counted(pace, read, keys) if at_points else None,
        at=pace.at,
        scheduler=scheduler_of(insight, findings) or scheduler,
        options=options_of(insight, findings),
    )


def _check_computed(insight: ast.Insight, expression: Expression, findings: Findings) -> None:
    if not any(isinstance(node, Aggregate) for node in walk(expression)):
        findings.error(
            insight.expression.span,
            "there is no metric here, so nothing would ever be computed",
            "Name one, as in `AVG(cpu.util, 10 SECONDS)`.",
        )


def _translated_points(terms: tuple[ast.Condition, ...], findings: Findings) -> Expression | None:
    scope = PointScope(findings)
    translated = [translate_condition(term, scope, findings) for term in terms]
    return conjunction(translated) if translated else None
