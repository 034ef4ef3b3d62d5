"""Carry only what is measured: of all that panes and windows may have, what functions need.

Count, sum, least and greatest always are: together they take less than a point does.
"""

from collections import defaultdict
from collections.abc import Iterator

import msgspec

from analytics_enabler.optimizer.naming import pane_of, these
from mistbow.plan.contents import Content, content_of
from mistbow.plan.expressions import Measure
from mistbow.plan.nodes import Insight, Pane, Plan, expressions_of
from mistbow.plan.sampling import ByLot


def apply(plan: Plan) -> Plan | None:
    """Leave out of windows what no insight takes, and out of panes what no window does."""
    panes = {pane.id: pane for pane in plan.panes}
    source_of = {window.id: panes[window.pane].source for window in plan.windows}
    taken: dict[str, set[Content]] = defaultdict(set)
    for insight in plan.insights:
        for id, content in _contents(insight):
            if content is not None:
                taken[id].add(content)
            elif isinstance(source_of[id].sampling, ByLot):
                taken[id].add("sample")
    carried: dict[str, set[Content]] = defaultdict(set)
    for window in plan.windows:
        carried[window.pane] |= taken[window.id]
    kept = {pane.id: _with(pane, carried[pane.id]) for pane in plan.panes}
    windows = tuple(
        msgspec.structs.replace(
            window, pane=kept[window.pane].id, contents=tuple(sorted(taken[window.id]))
        )
        for window in plan.windows
    )
    changed = msgspec.structs.replace(plan, windows=windows, panes=tuple(kept.values()))
    return None if changed == plan else changed


def did(before: Plan, after: Plan) -> str:
    """Say what the rule did."""
    were, are = (sum(len(pane.contents) for pane in plan.panes) for plan in (before, after))
    return f"{these(are, 'column')} beside count, sum, least and greatest, not {were}"


def _contents(insight: Insight) -> Iterator[tuple[str, Content | None]]:
    """Yield what an insight takes of windows, by their ids."""
    for node in expressions_of(insight):
        if isinstance(node, Measure):
            content = "points" if insight.each_point else content_of(node.function)
            for window in filter(None, (node.window, node.other)):
                yield window, content


def _with(pane: Pane, contents: set[Content]) -> Pane:
    return pane_of(pane.source, pane.by, pane.width_ms, contents)
