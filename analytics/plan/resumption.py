"""Resumption of a computation by replay: no state is migrated.

A query that starts (the first time, after a crash, or as the replacement of another query) reads
its stream again. The read begins so early that every emitted window has all of its points.
"""

from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from analytics.plan.expressions import Measure
from analytics.plan.nodes import Insight, Plan, expressions_of
from analytics.plan.ticks import Ticks


@dataclass(frozen=True, slots=True)
class Resumption:
    """A plan whose insights begin after their existing results; times are in ms since the epoch.

    ``after``: window id -> the time after which the ticks of the window begin. ``needs``: the
    earliest beginning of a window; all points of the windows are later.
    """

    plan: Plan
    after: dict[str, int]
    needs: int


def resume(plan: Plan, frontier: int, covered: Collection[str]) -> Resumption:
    """Return the resumption of a plan.

    ``covered``: the uids of the insights that have results up to ``frontier`` (ms).
    """
    insights = tuple(
        msgspec.structs.replace(insight, since=max(insight.since, _complete_to(insight, frontier)))
        if insight.uid in covered
        else insight
        for insight in plan.insights
    )
    after: dict[str, int] = {}
    for insight in insights:
        for window in windows_of(insight):
            after[window] = min(insight.since, after.get(window, insight.since))
    needs = min(
        window.ticks.after(after[window.id]) - window.lookback_ms for window in plan.windows
    )
    return Resumption(msgspec.structs.replace(plan, insights=insights), after, needs)


def _complete_to(insight: Insight, frontier: int) -> int:
    """Return the time (ms) up to which an insight's results are complete at a ``frontier`` (ms)."""
    # Values at points are computed at the insight's own ticks, which may be rarer.
    return Ticks(insight.every_ms).last(frontier) if insight.each_point else frontier


def windows_of(insight: Insight) -> set[str]:
    """Return the ids of the windows that an insight reads."""
    measures = (node for node in expressions_of(insight) if isinstance(node, Measure))
    return {window for measure in measures for window in measure.windows}


def subplan(plan: Plan, insights: tuple[Insight, ...]) -> Plan:
    """Return a plan with only ``insights``, and the windows and panes that these insights read.

    ``insights``: insights of ``plan``, possibly with another ``since``.
    """
    used = set().union(*(windows_of(insight) for insight in insights))
    windows = tuple(window for window in plan.windows if window.id in used)
    used_panes = {window.pane for window in windows}
    panes = tuple(pane for pane in plan.panes if pane.id in used_panes)
    return Plan(insights=insights, windows=windows, panes=panes)
