"""Cut the same points once: windows over the same points and keys share one pane.

The pane's width is the greatest common divisor of all their sizes and intervals. A window that
would cut another into too many panes keeps a pane of its own. Points are the same whatever the
order of the conditions that they satisfy.
"""

import math
from collections import defaultdict
from dataclasses import dataclass, field

import msgspec

from analytics_enabler.limits import MOST_PANES
from analytics_enabler.optimizer.naming import pane_of, these
from mistbow.plan.contents import Content
from mistbow.plan.expressions import Expression, Source, terms
from mistbow.plan.nodes import Pane, Plan, Window


def apply(plan: Plan) -> Plan | None:
    """Give the windows over the same points and keys as few panes as can be."""
    panes = {pane.id: pane for pane in plan.panes}
    over_same = defaultdict(list)
    for window in plan.windows:
        pane = panes[window.pane]
        over_same[(*_points(pane.source), pane.by)].append(window)
    shared: dict[str, Pane] = {}
    pane_ids: dict[str, str] = {}
    for (*_, by), alike in over_same.items():
        sources = (panes[window.pane].source for window in alike)
        # Any would do: for the outcome not to depend on who came first, it is always the same.
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


def did(before: Plan, after: Plan) -> str:
    """Say what the rule did."""
    windows, panes = these(len(after.windows), "window"), these(len(after.panes), "pane")
    return f"{windows} of {panes}, not {len(before.panes)}"


@dataclass(slots=True)
class _Group:
    width_ms: int = 0
    longest_ms: int = 0
    contents: set[Content] = field(default_factory=set)
    windows: list[Window] = field(default_factory=list)

    def takes(self, window: Window) -> bool:
        """Add a window unless the panes would become too many."""
        width = math.gcd(self.width_ms, _step(window))
        longest = max(self.longest_ms, window.span_ms)
        if self.windows and longest > MOST_PANES * width:
            return False
        self.width_ms, self.longest_ms = width, longest
        self.contents |= set(window.contents)
        self.windows.append(window)
        return True


def _points(source: Source) -> tuple[Source, frozenset[Expression]]:
    """Return what tells points from others: a source without conditions, and these."""
    conditions = () if source.predicate is None else terms(source.predicate)
    return msgspec.structs.replace(source, predicate=None), frozenset(conditions)


def _step(window: Window) -> int:
    return math.gcd(window.size_ms, window.ticks.step_ms, window.offset_ms)


def _grouped(windows: list[Window]) -> list[_Group]:
    groups: list[_Group] = []
    # In an order of their own, for the outcome not to depend on who came first.
    for window in sorted(windows, key=lambda w: (-_step(w), w.id)):
        if not any(group.takes(window) for group in groups):
            groups.append(_Group())
            groups[-1].takes(window)
    return groups
