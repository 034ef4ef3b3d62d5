"""Finds the late points of one site, and the ticks that these points affect."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from analytics.plan.fragments import Whole
from analytics.plan.nodes import Plan, Window
from analytics_worker.late_data.tick_spans import TickSpan, closed_ticks, spans_of_insights
from analytics_worker.panes.routing import COLUMNS, metrics_needed, route, select_metrics
from mistbow.client.agent import AgentClient
from mistbow.streams.models import (
    Offset,
)

_MAX_ROWS = 200_000


@dataclass(slots=True, eq=False)
class LatePointScanner:
    """Scans the late rows of a source, in order; rows before the position ``next`` are processed.

    ``goal``: the end of the next scan, an offset that was read in an earlier step; None: not read
    yet. When results are complete up to the frontier of this offset, all windows that missed rows
    before the offset have a first result. ``until``: the position at which the scan ends, set by
    ``end_at_head``; None: the scan has no end.
    """

    agent: AgentClient
    fragment: Whole
    next: int
    goal: Offset | None = None
    due: dict[str, list[TickSpan]] = field(default_factory=dict)
    corrected_until: int = 0
    until: int | None = None

    @property
    def is_finished(self) -> bool:
        """Whether all rows before ``until`` are processed."""
        return self.until is not None and self.next >= self.until

    def end_at_head(self) -> None:
        """Limit the scan to rows before the present head; another scanner scans the later rows."""
        source = self.fragment.source
        self.until = self.agent.at(source.site).info(source.stream).head

    def scan(self, frontier: int) -> tuple[dict[str, list[TickSpan]], int] | None:
        """Return (insight uid -> the ticks that late rows affect, the position after the scanned
        rows).

        Return None if results are not yet complete up to the affected ticks. ``frontier``: the time
        (ms) up to which results are complete.
        """
        source = self.fragment.source
        if self.goal is None:
            goal = self.agent.at(source.site).offset(source.stream, self.next, _MAX_ROWS)
            if source.feed is not msgspec.UNSET:
                # Rows of a feed are never late, and its writers may not advance the frontier.
                goal = msgspec.structs.replace(goal, frontier=frontier)
            self.due = self._affected_ticks(self._end(goal))
            self.goal = goal
        return None if frontier < self.goal.frontier else (self.due, self._end(self.goal))

    def move_to(self, position: int) -> None:
        """Continue the scan at a position; the rows before the position count as processed."""
        if self.goal is not None and position == self.goal.next:
            self.corrected_until = self.goal.frontier
        self.next, self.goal, self.due = position, None, {}

    @property
    def processed_to(self) -> int:
        """The position before which all rows are processed."""
        return self.next

    @property
    def is_behind(self) -> bool:
        """Whether the stream has rows after the goal of the present scan."""
        return self.goal is not None and self.goal.next < self.goal.head

    def _end(self, goal: Offset) -> int:
        return goal.next if self.until is None else min(goal.next, self.until)

    def _affected_ticks(self, end: int) -> dict[str, list[TickSpan]]:
        source = self.fragment.source
        if source.feed is not msgspec.UNSET:
            return {}  # agents find late rows in their own points only
        match = select_metrics(metrics_needed(self.fragment.plan.panes))
        late = self.agent.at(source.site).read(
            source.stream, self.next, end, match=match, columns=COLUMNS, late=True
        )
        return touched_ticks(late.table, self.fragment.plan)


def touched_ticks(late: pa.Table, plan: Plan) -> dict[str, list[TickSpan]]:
    """Return a dict: insight uid -> the ticks whose windows were closed before late rows arrived.

    ``late``: the late rows.
    """
    of_windows: dict[str, set[TickSpan]] = {}
    for batch in late.unify_dictionaries().to_batches():
        routed = route(batch, plan.panes)
        for number, pane in enumerate(plan.panes):
            own = routed.filter(pc.equal(routed["route"], number))
            if not own.num_rows:
                continue
            times = list(zip(own["ts"].to_pylist(), own["due"].to_pylist(), strict=True))
            for window in plan.windows:
                if window.pane == pane.id:
                    of_windows.setdefault(window.id, set()).update(
                        span for ts, due in times for span in _closed(window, ts, due)
                    )
    return dict(spans_of_insights(plan, of_windows))


def _closed(window: Window, ts: int, due: int) -> Iterator[TickSpan]:
    shifted = ts + window.offset_ms
    return closed_ticks(shifted, shifted, due, window.span_ms + window.held_ms, window.ticks)
