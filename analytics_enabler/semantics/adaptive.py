"""The option ADAM: points are skipped where they are measured, while they can be foretold."""

from collections.abc import Iterable

import msgspec

from analytics_enabler.semantics.findings import Findings, beginning
from analytics_enabler.semantics.trees import references, walk
from grammar import ast
from mistbow.plan.expressions import Aggregate, AnyFunction, Expression, UserOperator, rewrite
from mistbow.plan.expressions import walk as walk_plan
from mistbow.plan.sampling import Adaptive

EVENLY_SPACED = frozenset({"CORRELATION", "FORECAST", "OUTLIER_DETECTION", "DIFF"})
"""Functions that look at when points were, and so need those that are left out."""


def adapted(
    expressions: Iterable[Expression], insight: ast.Insight, findings: Findings
) -> list[Expression]:
    """Return expressions over points that are sampled adaptively, if the insight says so."""
    whole = list(expressions)
    options = [option for option in insight.options if isinstance(option, ast.Adam)]
    if not options:
        return whole
    _check_options(insight, options, findings)
    _check_functions(insight, whole, options[0], findings)
    for node in references(insight):
        findings.error(
            node.span,
            f"the points that `{node.name}` reads are not sampled here",
            f"Write what `{node.name}` computes here, or say ADAM there.",
        )
    adaptive = Adaptive(options[0].confidence or Adaptive().confidence)

    def over(node: Expression) -> Expression:
        if not isinstance(node, Aggregate):
            return node
        source = msgspec.structs.replace(node.source, sampling=adaptive)
        return msgspec.structs.replace(node, source=source)

    return [rewrite(expression, over) for expression in whole]


def _check_options(insight: ast.Insight, options: list[ast.Adam], findings: Findings) -> None:
    for again in options[1:]:
        findings.error(again.span, "ADAM is given twice", "Keep one.")
    if any(isinstance(option, ast.Sample | ast.Accuracy) for option in insight.options):
        findings.error(
            options[0].span,
            "ADAM leaves points out where they are measured, the other option where they are read",
            "Keep one of them.",
        )
    if isinstance(insight.every, ast.Points):
        findings.error(
            insight.every.span,
            "points cannot be counted where some of them are never measured",
            "Give an interval, as in `EVERY 5 SECONDS`, or leave ADAM out.",
        )


def _check_functions(
    insight: ast.Insight, expressions: list[Expression], option: ast.Adam, findings: Findings
) -> None:
    used = {
        _name(node.function)
        for expression in expressions
        for node in walk_plan(expression)
        # Two metrics are skipped at different times, and meet at none of these.
        if isinstance(node, Aggregate)
        and (node.other is not None or node.function in EVENLY_SPACED)
    }
    for function in sorted(used):
        calls = [
            beginning(node.span, len(node.function))
            for node in walk(insight)
            if isinstance(node, ast.Call) and node.function == function
        ]
        findings.error(
            calls[0] if calls else option.span,
            f"{function} needs points as far apart as they were measured",
            "Leave ADAM out, or part the insight in two.",
        )


def _name(function: AnyFunction) -> str:
    return function.name if isinstance(function, UserOperator) else function
