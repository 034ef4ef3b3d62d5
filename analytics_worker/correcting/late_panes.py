"""What a merge did without: late panes, and sites that were away and are back."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow.compute as pc

from analytics_worker.correcting.spans import Span, closed_ticks, joined, of_insights
from analytics_worker.merging.decisions import (
    Decided,
    Gap,
    Joined,
    Late,
    LateSpan,
    Presence,
    from_rows,
)
from mistbow.client.agent import AgentClient
from mistbow.plan.fragments import Merge
from mistbow.plan.nodes import Plan
from mistbow.streams.schemas import RAW

_FIRST_ROWS = 1000


@dataclass(slots=True, eq=False)
class LatePanes:
    """Goes through the decisions of a group, in order: those before ``next`` are done."""

    agent: AgentClient
    fragment: Merge
    next: int
    presence: Presence = field(default_factory=Presence)
    waiting: list[Decided] = field(default_factory=list)
    head: int = 0

    def find(self, frontier: int) -> tuple[dict[str, list[Span]], int] | None:
        """Return the ticks that the next decision touches, by insight, and the number after it.

        Returns None while there is none, or the results are not complete far enough (ms).
        """
        if not self.waiting:
            self._read()
        if not self.waiting:
            return None
        number, decided = self.head - len(self.waiting) + 1, self.waiting[0]
        gap = self.presence.open_gap(decided.site)
        match decided.what:
            case Late(spans):
                if frontier < max(span.due for span in spans):
                    return None
                return self._late(spans), number
            case Joined() if gap is not None:
                if frontier < decided.ts:
                    return None
                return self._missed(gap, decided.ts), number
        return {}, number

    def done(self, number: int) -> None:
        """Go on from a number."""
        if self.waiting and self.head - len(self.waiting) < number:
            self.presence.learn([self.waiting.pop(0)])
        self.next = max(self.next, number)

    def _read(self) -> None:
        place = self.fragment.decisions
        rows = self.agent.at(place.site).read(place.stream, self.head)
        decided = list(from_rows(rows.table))
        # A claim takes a number and has no row: what is read is counted from the end.
        self.head = rows.position.next
        known = max(0, len(decided) - max(0, self.head - self.next))
        self.presence.learn(decided[:known])
        self.waiting = decided[known:]

    def _late(self, spans: tuple[LateSpan, ...]) -> dict[str, list[Span]]:
        plan = self.fragment.plan
        panes = {pane.id: pane.width_ms for pane in plan.panes}
        of_windows: dict[str, set[Span]] = {}
        for span in spans:
            for window in plan.windows:
                # What another version of the plan cut may be in every window of this one.
                if span.pane in panes and window.pane != span.pane:
                    continue
                size = window.size_ms - panes.get(span.pane, 0)
                ticks = closed_ticks(span.first, span.last, span.due, size + 1, window.every_ms)
                of_windows.setdefault(window.id, set()).update(ticks)
        return dict(of_insights(plan, of_windows))

    def _missed(self, gap: Gap, until: int) -> dict[str, list[Span]]:
        first = max(gap.after, self._first_time(gap.site) - 1) if gap.after == 0 else gap.after
        return dict(of_insights(self.fragment.plan, dict(_ticks(self.fragment.plan, first, until))))

    def _first_time(self, site: str) -> int:
        """Return about when (ms) the points of a site that is new begin."""
        rows = self.agent.at(site).read(RAW, 0, _FIRST_ROWS, columns=["ts"]).table
        least: int | None = pc.min(rows["ts"]).as_py()
        return 2**62 if least is None else least


def _ticks(plan: Plan, after: int, until: int) -> Iterator[tuple[str, list[Span]]]:
    for window in plan.windows:
        first = (after // window.every_ms + 1) * window.every_ms
        last = until // window.every_ms * window.every_ms
        if first <= last:
            yield window.id, joined([Span(first, last)])
