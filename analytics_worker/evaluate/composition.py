"""Composition: computes the results of insights from the windows of a tick.

All windows of a tick close together, so composition has no state except the states of accumulators.
Results depend only on these states and on the given windows, so streaming queries and batch queries
call the same function.
"""

import pyarrow as pa

from analytics.plan.nodes import Insight, Plan
from analytics_worker.evaluate.evaluator import ExpressionEvaluator
from analytics_worker.evaluate.history.elements import PointHistory
from analytics_worker.evaluate.insight_values import InsightResult, insight_values
from analytics_worker.evaluate.measures import PlanWindows, PointMeasures, TickMeasures
from analytics_worker.evaluate.operator_failures import ReportFailure, ignore_failure
from analytics_worker.stateful.accumulators import StateStore


def compose(
    windows: pa.Table,
    plan: Plan,
    states: StateStore,
    report_failure: ReportFailure = ignore_failure,
    history: PointHistory | None = None,
) -> pa.Table:
    """Return the values (``INSIGHT_VALUES``) of a plan's insights over windows (``WINDOWED``).

    Accumulators read their state before a tick from ``states``, and write their state after the
    tick to ``states``. If an operator of another package gives no answer, the value is missing.
    ``report_failure`` receives the failures of operators. ``history``: the points of the windows
    whose functions are merged at points; None: the rows of these windows contain all points.
    """
    plan_windows = PlanWindows(windows, plan, states, history)
    tick_evaluator = ExpressionEvaluator(TickMeasures(plan_windows))
    results = []
    for insight in plan.insights:
        # Most insights have no tick in most batches.
        if plan_windows.is_empty(insight):
            continue
        evaluator = tick_evaluator
        if insight.each_point:
            evaluator = ExpressionEvaluator(PointMeasures(plan_windows, insight))
        results.append(_evaluate(evaluator, insight))
        failure = evaluator.failure(insight)
        if failure is not None:
            report_failure(insight.uid, failure)
    return insight_values(results)


def _evaluate(evaluator: ExpressionEvaluator, insight: Insight) -> InsightResult:
    """Return the values of an insight at all ticks and keys.

    If the insight has a filter, ``chosen`` of the returned object masks the values that pass the
    filter.
    """
    values = evaluator.evaluate(insight.expression)
    chosen = None if insight.filter is None else evaluator.holds(insight.filter, values)
    return InsightResult(insight, values.rows, values.result, chosen)
