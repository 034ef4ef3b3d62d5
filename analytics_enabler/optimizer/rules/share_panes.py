"""Share panes: windows over the same points and keys use one pane.

The width of the pane is the greatest common divisor of the sizes, intervals and offsets of its
windows. A window does not join a pane if a window of this pane would then consist of more than
``PREFERRED_PANES`` panes. The order of the conditions on points does not matter.
"""

import math
from collections import defaultdict
from dataclasses import dataclass, field

import msgspec

from analytics.plan.expressions import Expression, Source, conjuncts
from analytics.plan.functions import Content
from analytics.plan.nodes import Pane, Plan, Window
from analytics_enabler.limits import PREFERRED_PANES
from analytics_enabler.optimizer.content_names import counted, pane_of


def apply(plan: Plan) -> Plan | None:
    """Return the plan with shared panes for windows over the same points and keys.

    Return None if no pane changes.
    """
    panes = {pane.id: pane for pane in plan.panes}
    over_same = defaultdict(list)
    for window in plan.windows:
        pane = panes[window.pane]
        over_same[(*_points(pane.source), pane.by)].append(window)
    shared: dict[str, Pane] = {}
    pane_ids: dict[str, str] = {}
    for (*_, by), alike in over_same.items():
        sources = (panes[window.pane].source for window in alike)
        # Equivalent sources; the minimum does not depend on the order of the insights.
        source = min(sources, key=msgspec.json.encode)
        for group in _grouped(alike):
            pane = pane_of(source, by, group.width_ms, group.contents)
            shared[pane.id] = pane
            pane_ids |= {window.id: pane.id for window in group.windows}
    windows = tuple(
        msgspec.structs.replace(window, pane=pane_ids[window.id]) for window in plan.windows
    )
    if windows == plan.windows and shared == panes:
        return None
    return msgspec.structs.replace(plan, windows=windows, panes=tuple(shared.values()))


def describe(before: Plan, after: Plan) -> str:
    """Return a phrase with the number of windows, and of panes before and after the change."""
    windows, panes = counted(len(after.windows), "window"), counted(len(after.panes), "pane")
    return f"{windows} over {panes} instead of {len(before.panes)}"


@dataclass(slots=True)
class _WindowGroup:
    width_ms: int = 0
    longest_ms: int = 0
    contents: set[Content] = field(default_factory=set)
    windows: list[Window] = field(default_factory=list)

    def add(self, window: Window) -> bool:
        """Add a window and return True.

        If a window of the group would have too many panes, add nothing and return False.
        """
        width = math.gcd(self.width_ms, _step(window))
        longest = max(self.longest_ms, window.span_ms)
        if self.windows and longest > PREFERRED_PANES * width:
            return False
        self.width_ms, self.longest_ms = width, longest
        self.contents |= set(window.contents)
        self.windows.append(window)
        return True


def _points(source: Source) -> tuple[Source, frozenset[Expression]]:
    """Return (source without conditions, conditions), which identify the points of a source."""
    conditions = () if source.predicate is None else conjuncts(source.predicate)
    return msgspec.structs.replace(source, predicate=None), frozenset(conditions)


def _step(window: Window) -> int:
    return math.gcd(window.size_ms, window.ticks.step_ms, window.offset_ms, window.held_ms)


def _grouped(windows: list[Window]) -> list[_WindowGroup]:
    groups: list[_WindowGroup] = []
    # Sorted, so that the groups do not depend on the order of the insights.
    for window in sorted(windows, key=lambda w: (-_step(w), w.id)):
        if not any(group.add(window) for group in groups):
            groups.append(_WindowGroup())
            groups[-1].add(window)
    return groups
