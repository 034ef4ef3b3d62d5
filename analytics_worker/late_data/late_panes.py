"""The panes that a merge missed: late panes, and panes of sites that have joined again."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import pyarrow.compute as pc

from analytics.plan.fragments import Merge
from analytics_worker.late_data.tick_spans import (
    TickSpan,
    closed_ticks,
    merge_spans_of_insights,
    spans_of_insights,
)
from analytics_worker.merge.decisions import (
    CHECKPOINT,
    RETAINED_MS,
    Checkpoint,
    Joined,
    Late,
    LateSpan,
    Presence,
    SiteDecision,
    checkpoint_of,
    from_rows,
)
from analytics_worker.merge.site_gaps import SiteGap, joined_ticks
from mistbow.client.agent import AgentClient
from mistbow.errors import UnavailableError
from mistbow.streams.schemas import RAW
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_FIRST_ROWS = 1000
_MAX_DECISIONS = 1000
_NEVER = 2**62

_CHECKPOINT_STEP = 200
"""The minimum number of positions between two checkpoints.

A process that starts reads the decisions after the last checkpoint.
"""
_MAX_GAPS = 1000
"""The greatest number of gaps in a checkpoint, since the attributes of a stream are limited."""


@dataclass(frozen=True, slots=True)
class _UnansweredJoin:
    """The join of a new site that has not answered yet, so the time of its first point is unknown.

    ``gap``: the gap of the site, which has ended at ``until`` (ms). ``position``: a position that
    is not after the decision.
    """

    gap: SiteGap
    until: int
    position: int


@dataclass(slots=True, eq=False)
class LatePaneScanner:
    """Scans the decisions of a merge, in order, for panes that the merge missed.

    Decisions before the position ``next`` are processed, except for those in ``unanswered``.
    ``presence``: the gaps of sites after the processed decisions. ``pending``: the decisions that
    are read, but not processed. ``head``: the position after the last decision that was read.
    ``due``: the ticks that the unprocessed decisions affect, or may affect. ``later_due``: the
    ticks among them that cannot be corrected yet. ``complete_until``: the time (ms) up to which
    results were complete before the last decision was read. ``checkpointed``: the position of the
    stored checkpoint; None: no decision is read yet.
    """

    agent: AgentClient
    fragment: Merge
    next: int
    presence: Presence = field(default_factory=Presence)
    pending: list[SiteDecision] = field(default_factory=list)
    head: int = 0
    due: dict[str, list[TickSpan]] = field(default_factory=dict)
    later_due: dict[str, list[TickSpan]] = field(default_factory=dict)
    complete_until: int = 0
    unanswered: tuple[_UnansweredJoin, ...] = ()
    checkpointed: int | None = None
    _next_unanswered: tuple[_UnansweredJoin, ...] = ()

    @property
    def corrected_until(self) -> int:
        """The time (ms) up to which results include all due panes, except those of missing sites.

        The panes of a pending decision were read when the windows up to its time had closed.
        """
        joins = (join.until for join in self.unanswered)
        return min((self.complete_until, *(each.ts for each in self.pending), *joins))

    @property
    def processed_to(self) -> int:
        """The position before which all decisions are processed."""
        return min((self.next, *(join.position for join in self.unanswered)))

    @property
    def is_behind(self) -> bool:
        """Whether decisions are pending."""
        return bool(self.pending)

    def scan(self, frontier: int) -> tuple[dict[str, list[TickSpan]], int] | None:
        """Return (insight uid -> the ticks that the next decisions affect, the next position to
        scan).

        Return None if there is no next decision, or if results are not yet complete up to the
        affected ticks. The ticks that the join of a new site affects are returned once the site
        answers. ``frontier``: the time (ms) up to which results are complete.
        """
        self._read()
        grain = self.fragment.grain_ms
        self.complete_until = max(self.complete_until, frontier // grain * grain)
        presence = Presence(list(self.presence.gaps))
        of_windows: dict[str, set[TickSpan]] = {}
        waiting: dict[str, set[TickSpan]] = {}
        unanswered: list[_UnansweredJoin] = []
        for join in self.unanswered:
            found, is_known = self._missed_windows(join.gap, join.until)
            _add(found, of_windows if is_known else waiting)
            if not is_known:
                unanswered.append(join)
        has_answered = len(unanswered) < len(self.unanswered)
        ready = 0
        for number, decision in enumerate(self.pending[:_MAX_DECISIONS]):
            gap = presence.open_gap(decision.site)
            is_ready = ready == number and _ready_at(decision) <= frontier
            is_known = True
            match decision.decision:
                case Late(spans):
                    found = self._late_windows(spans)
                case Joined() if gap is not None:
                    found, is_known = self._missed_windows(gap, decision.ts)
                    if is_ready and not is_known:
                        unanswered.append(_UnansweredJoin(gap, decision.ts, self.next))
                        log.warning("join_unanswered", site=gap.site)
                case _:
                    found = {}
            _add(found, of_windows if is_ready and is_known else waiting)
            presence.apply([decision])
            ready += is_ready
        self._next_unanswered = tuple(unanswered)
        plan = self.fragment.plan
        touched = dict(spans_of_insights(plan, of_windows))
        self.later_due = dict(spans_of_insights(plan, waiting))
        self.due = merge_spans_of_insights(self.later_due, touched)
        if not ready and not has_answered:
            return None
        return touched, self.head - len(self.pending) + ready

    def move_to(self, position: int) -> None:
        """Continue the scan at a position; the decisions before the position count as processed."""
        ready = max(0, position - (self.head - len(self.pending)))
        self.presence.apply(self.pending[:ready])
        del self.pending[:ready]
        self.unanswered = self._next_unanswered
        self.next = max(self.next, position)
        self.due = self.later_due

    def store_checkpoint(self, epoch: int) -> None:
        """Store a checkpoint of the presence, unless the last one is recent, or decisions are not
        processed.

        ``epoch``: the epoch for the stream of decisions.
        """
        # A claim has a position, but no row: only the presence at the head has a certain position.
        if self.processed_to < self.head or self.head < (self.checkpointed or 0) + _CHECKPOINT_STEP:
            return
        gaps = self.presence.pruned(self.complete_until - RETAINED_MS).gaps
        if len(gaps) > _MAX_GAPS:
            log.warning("checkpoint_omitted", fragment=self.fragment.id, gaps=len(gaps))
            self.checkpointed = self.head
            return
        location, checkpoint = self.fragment.decisions, Checkpoint(self.head, tuple(gaps))
        attributes = {CHECKPOINT: msgspec.to_builtins(checkpoint)}
        self.agent.at(location.site).advance(location.stream, epoch, attributes=attributes)
        self.checkpointed = checkpoint.next

    def _read(self) -> None:
        location = self.fragment.decisions
        site = self.agent.at(location.site)
        if self.checkpointed is None:
            checkpoint = checkpoint_of(site.info(location.stream).attributes)
            # A later checkpoint contains decisions that are not processed yet.
            if checkpoint.next <= self.next:
                self.presence, self.head = Presence(list(checkpoint.gaps)), checkpoint.next
            self.checkpointed = checkpoint.next
        rows = site.read(location.stream, self.head)
        self.pending += from_rows(rows.table)
        # A claim takes a position but has no row: positions are counted from the end.
        self.head = rows.position.next
        done = max(0, len(self.pending) - max(0, self.head - self.next))
        self.presence.apply(self.pending[:done])
        del self.pending[:done]

    def _late_windows(self, spans: tuple[LateSpan, ...]) -> dict[str, set[TickSpan]]:
        plan = self.fragment.plan
        panes = {pane.id: pane.width_ms for pane in plan.panes}
        of_windows: dict[str, set[TickSpan]] = {}
        for span in spans:
            for window in plan.windows:
                # A pane of another version of the plan may be in every window of this one.
                if span.pane in panes and window.pane != span.pane:
                    continue
                size = window.span_ms + window.held_ms - panes.get(span.pane, 1)
                first, last = span.first + window.offset_ms, span.last + window.offset_ms
                ticks = closed_ticks(first, last, span.due, size + 1, window.ticks)
                of_windows.setdefault(window.id, set()).update(ticks)
        return of_windows

    def _missed_windows(self, gap: SiteGap, until: int) -> tuple[dict[str, set[TickSpan]], bool]:
        """Return (window id -> the ticks to correct since the site of a gap joins at ``until``,
        whether the gap's beginning is known).

        If a new site does not answer, its gap may begin at the first tick.
        """
        first = self._first_time(gap.site) if gap.is_of_new_site else None
        ticks = joined_ticks(gap, until, first)
        of_windows: dict[str, set[TickSpan]] = {}
        for window in self.fragment.plan.windows:
            spans = of_windows.setdefault(window.id, set())
            for after, last in ticks:
                begin, end = window.ticks.after(after), window.ticks.last(last)
                if begin <= end:
                    spans.add(TickSpan(begin, end))
        return of_windows, first is not None or not gap.is_of_new_site

    def _first_time(self, site: str) -> int | None:
        """Return the approximate time (ms) of the first point of a new site.

        Points that have expired do not count. Returns ``2**62`` if the site has no points, or is no
        longer a source; 0 if the first points are deleted. Returns None if the site does not
        answer, or 0 if another site stores its panes, which may be readable.
        """
        panes_sites = [one.site for one in self.fragment.sources if one.data_site == site]
        if not panes_sites:
            return _NEVER
        agent = self.agent.at(site)
        try:
            points = agent.info(RAW)
            end = points.first + _FIRST_ROWS
            rows = agent.read(RAW, points.first, end, columns=["ts"]).table
        except UnavailableError:
            return None if site in panes_sites else 0
        first: int | None = pc.min(rows["ts"]).as_py()
        if first is None:
            return 0 if points.rows else _NEVER
        return first


def _add(found: Mapping[str, set[TickSpan]], to: dict[str, set[TickSpan]]) -> None:
    """Add the ticks of windows to those in ``to``."""
    for window, spans in found.items():
        to.setdefault(window, set()).update(spans)


def _ready_at(decision: SiteDecision) -> int:
    """Return the frontier (ms) at which all ticks that a decision affects have a first result."""
    match decision.decision:
        case Late(spans):
            return max(span.due for span in spans)
        case Joined():
            return decision.ts
        case _:
            return 0
