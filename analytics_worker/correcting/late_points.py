"""Late points of one site: which ticks they touch."""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from analytics_worker.correcting.spans import Span, closed_ticks, of_insights
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Offset
from mistbow.panes.routing import COLUMNS, metrics_needed, route
from mistbow.plan.fragments import Whole
from mistbow.plan.nodes import Plan, Window

_ROWS_AT_ONCE = 200_000


@dataclass(slots=True, eq=False)
class LatePoints:
    """Goes through the late rows of a fragment's source, in order: those before ``next`` are done.

    The goal is the head of some steps ago: once the results are complete to its frontier, all
    that the rows before it came too late for has been computed a first time.
    """

    agent: AgentClient
    fragment: Whole
    next: int
    goal: Offset | None = None
    until: int = 0

    def close(self) -> None:
        """Go on up to the head of now, for what comes later is somebody else's."""
        source = self.fragment.source
        self.until = self.agent.at(source.site).info(source.stream).head

    def find(self, frontier: int) -> tuple[dict[str, list[Span]], int] | None:
        """Return the ticks that late rows touch, by insight, and the number that is done then.

        Returns None while the results are not complete far enough: ``frontier``, in ms.
        """
        source = self.fragment.source
        site = self.agent.at(source.site)
        if self.goal is None:
            self.goal = site.offset(source.stream, self.next, _ROWS_AT_ONCE)
        if frontier < self.goal.frontier:
            return None
        if source.feed is not msgspec.UNSET:
            return {}, self.goal.next  # what was late is told by clocks of agents, for their own
        match = {"metric": list(metrics_needed(self.fragment.plan.panes))}
        late = site.read(
            source.stream, self.next, self.goal.next, match=match, columns=COLUMNS, late=True
        ).table
        return touched(late, self.fragment.plan), self.goal.next

    def done(self, number: int) -> None:
        """Go on from a number."""
        self.next, self.goal = number, None


def touched(late: pa.Table, plan: Plan) -> dict[str, list[Span]]:
    """Return, by insight, the ticks that late rows belong to and came too late for."""
    of_windows: dict[str, set[Span]] = {}
    for batch in late.unify_dictionaries().to_batches():
        routed = route(batch, plan.panes)
        for place, pane in enumerate(plan.panes):
            mine = routed.filter(pc.equal(routed["route"], place))
            if not mine.num_rows:
                continue
            times = list(zip(mine["ts"].to_pylist(), mine["due"].to_pylist(), strict=True))
            for window in plan.windows:
                if window.pane == pane.id:
                    of_windows.setdefault(window.id, set()).update(
                        span for ts, due in times for span in _closed(window, ts, due)
                    )
    return dict(of_insights(plan, of_windows))


def _closed(window: Window, ts: int, due: int) -> Iterator[Span]:
    shifted = ts + window.offset_ms
    return closed_ticks(shifted, shifted, due, window.span_ms, window.ticks)
