"""Where a computation goes on: replay, don't migrate.

A query that starts (the first time, after a crash, or in place of another) reads its stream again
from a point early enough that every window it will emit is whole.
"""

from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from mistbow.plan.expressions import Measure
from mistbow.plan.nodes import Insight, Plan, expressions_of
from mistbow.plan.ticks import Ticks


@dataclass(frozen=True, slots=True)
class Resumption:
    """A plan whose insights begin after the results that stand already; times in ms.

    ``after``: for each window the time that its ticks are later than. ``needs``: only points
    later than this time are in any of those windows.
    """

    plan: Plan
    after: dict[str, int]
    needs: int


def resume(plan: Plan, frontier: int, covered: Collection[str]) -> Resumption:
    """Return how to go on when the results of ``covered`` insights are complete to ``frontier``."""
    insights = tuple(
        msgspec.structs.replace(insight, since=max(insight.since, _told_to(insight, frontier)))
        if insight.uid in covered
        else insight
        for insight in plan.insights
    )
    after: dict[str, int] = {}
    for insight in insights:
        for window in windows_of(insight):
            after[window] = min(insight.since, after.get(window, insight.since))
    needs = min(window.ticks.after(after[window.id]) - window.reach_ms for window in plan.windows)
    return Resumption(msgspec.structs.replace(plan, insights=insights), after, needs)


def _told_to(insight: Insight, frontier: int) -> int:
    """Return up to when (ms) the results of an insight stand, where ticks do up to a frontier."""
    # Values at points are told at its own ticks, between which others may have theirs.
    return Ticks(insight.every_ms).last(frontier) if insight.each_point else frontier


def windows_of(insight: Insight) -> set[str]:
    """Return the ids of the windows that an insight reads."""
    measures = [node for node in expressions_of(insight) if isinstance(node, Measure)]
    windows = {measure.window for measure in measures}
    return windows | {measure.other for measure in measures if measure.other is not None}


def only(plan: Plan, insights: tuple[Insight, ...]) -> Plan:
    """Return the part of a plan that these of its insights need.

    The insights may differ from the plan's own in when they begin.
    """
    used = set().union(*(windows_of(insight) for insight in insights))
    windows = tuple(window for window in plan.windows if window.id in used)
    held = {window.pane for window in windows}
    panes = tuple(pane for pane in plan.panes if pane.id in held)
    return Plan(insights=insights, windows=windows, panes=panes)
