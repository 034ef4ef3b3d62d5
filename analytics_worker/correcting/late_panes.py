"""What a merge did without: late panes, and sites that were away and are back."""

from dataclasses import dataclass, field

import pyarrow.compute as pc

from analytics_worker.correcting.spans import Span, closed_ticks, of_insights
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
from mistbow.streams.schemas import RAW

_FIRST_ROWS = 1000
_AT_ONCE = 1000


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
        """Return the ticks that the next decisions touch, by insight, and the number after them.

        Returns None while there are none, or the results are not complete far enough (ms).
        """
        if not self.waiting:
            self._read()
        presence = Presence(list(self.presence.gaps))
        of_windows: dict[str, set[Span]] = {}
        ready = 0
        for decided in self.waiting[:_AT_ONCE]:
            gap = presence.open_gap(decided.site)
            if _ready_at(decided) > frontier:
                break
            match decided.what:
                case Late(spans):
                    found = self._late(spans)
                case Joined() if gap is not None:
                    found = self._missed(gap, decided.ts)
                case _:
                    found = {}
            for window, some in found.items():
                of_windows.setdefault(window, set()).update(some)
            presence.learn([decided])
            ready += 1
        if not ready:
            return None
        number = self.head - len(self.waiting) + ready
        return dict(of_insights(self.fragment.plan, of_windows)), number

    def done(self, number: int) -> None:
        """Go on from a number."""
        ready = max(0, number - (self.head - len(self.waiting)))
        self.presence.learn(self.waiting[:ready])
        del self.waiting[:ready]
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

    def _late(self, spans: tuple[LateSpan, ...]) -> dict[str, set[Span]]:
        plan = self.fragment.plan
        panes = {pane.id: pane.width_ms for pane in plan.panes}
        of_windows: dict[str, set[Span]] = {}
        for span in spans:
            for window in plan.windows:
                # What another version of the plan cut may be in every window of this one.
                if span.pane in panes and window.pane != span.pane:
                    continue
                size = window.span_ms - panes.get(span.pane, 1)
                first, last = span.first + window.offset_ms, span.last + window.offset_ms
                ticks = closed_ticks(first, last, span.due, size + 1, window.ticks)
                of_windows.setdefault(window.id, set()).update(ticks)
        return of_windows

    def _missed(self, gap: Gap, until: int) -> dict[str, set[Span]]:
        # A site that was never there has left at 0.
        after = gap.after or self._first_time(gap.site) - 1
        of_windows = {}
        for window in self.fragment.plan.windows:
            first, last = window.ticks.after(after), window.ticks.last(until)
            of_windows[window.id] = {Span(first, last)} if first <= last else set()
        return of_windows

    def _first_time(self, site: str) -> int:
        """Return about when (ms) the points of a site that is new begin."""
        rows = self.agent.at(site).read(RAW, 0, _FIRST_ROWS, columns=["ts"]).table
        least: int | None = pc.min(rows["ts"]).as_py()
        return 2**62 if least is None else least


def _ready_at(decided: Decided) -> int:
    """Return how far (ms) results must be for all that is concerned to be computed once."""
    if isinstance(decided.what, Late):
        return max(span.due for span in decided.what.spans)
    return decided.ts if isinstance(decided.what, Joined) else 0
