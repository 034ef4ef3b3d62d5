"""Corrects the states of stateful insights after late data, before results are corrected."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from analytics.plan.fragments import StreamLocation
from analytics.plan.nodes import Insight, Plan
from analytics.plan.resumption import subplan
from analytics_worker.late_data.recomputation import are_expired
from analytics_worker.late_data.silent_sites import SilentSites
from analytics_worker.late_data.tick_spans import TickSpan, spans_after, spans_until
from analytics_worker.late_data.unanswered_ticks import UnansweredTicks
from analytics_worker.merge.site_gaps import LastGaps
from analytics_worker.stateful.accumulators import accumulators_of
from analytics_worker.stateful.state_correction import StateCorrector
from analytics_worker.stateful.state_stream import StateAccess
from mistbow.client.agent import AgentClient
from mistbow.errors import UnavailableError
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_NEVER = 2**62

Spans = dict[str, list[TickSpan]]


@dataclass(frozen=True, slots=True)
class StatefulInsights:
    """The insights of a plan, and the access to the states of their accumulators.

    ``gaps``: the gaps of the sites. ``sources`` returns the streams that have the points from a
    tick (ms) on.
    """

    agent: AgentClient
    plan: Plan
    access: StateAccess
    gaps: LastGaps
    sources: Callable[[int], tuple[StreamLocation, ...]]

    def correct_states(
        self, spans: Mapping[str, list[TickSpan]], frontier: int, unanswered: UnansweredTicks
    ) -> Spans:
        """Correct the states that late data affect; return insight uid -> the ticks to correct.

        The results of an accumulating insight are corrected from the first corrected state up to
        ``frontier`` (ms) at least. If the points have expired, the insight is omitted, as are the
        ticks whose states include points of a removed site. Ticks with points of a site that does
        not answer are added to ``unanswered``. The ticks of other insights are returned unchanged.
        """
        touched: dict[int, list[Insight]] = {}
        for insight in self.plan.insights:
            if insight.uid in spans and accumulators_of(subplan(self.plan, (insight,))):
                touched.setdefault(insight.every_ms, []).append(insight)
        corrected = dict(spans)
        # Each interval by itself: a step of a daily insight needs the points of a whole day.
        for insights in touched.values():
            own = {insight.uid: corrected.pop(insight.uid) for insight in insights}
            corrected |= self._correct_readable(
                self._without_removed_sites(own), frontier, unanswered
            )
        return corrected

    def _correct_readable(self, spans: Spans, frontier: int, unanswered: UnansweredTicks) -> Spans:
        """Correct the states from the first tick on whose points can be read."""
        while spans:
            try:
                return self._correct(spans, frontier, unanswered.silent)
            except UnavailableError as error:
                # States after a site has left do not include its points.
                first = _first_tick(spans)
                bound = min((time for time in self.gaps.bounds if time >= first), default=_NEVER)
                unanswered.add(spans_until(spans, bound), error)
                spans = spans_after(spans, bound)
        return {}

    def _without_removed_sites(self, spans: Spans) -> Spans:
        """Return the ticks whose states, and all later states, include no points of a removed site.

        The points of a removed site cannot be read again, so no state that includes them can be
        recomputed. Later states continue from the last one of these.
        """
        first = _first_tick(spans)
        if not (removed := self.gaps.removed_since(first)):
            return spans
        log.warning("correction_sites_removed", sites=sorted(removed), first=first)
        return spans_after(spans, self.gaps.removed_until)

    def _correct(self, spans: Spans, frontier: int, silent: SilentSites) -> Spans:
        insights = tuple(insight for insight in self.plan.insights if insight.uid in spans)
        first = _first_tick(spans)
        sources = self.sources(first)
        if are_expired(self.agent, sources, silent, first - 2 * insights[0].every_ms):
            uids = sorted(insight.uid for insight in insights)
            log.warning("correction_rows_expired", insights=uids, first=first)
            return {}
        accumulators = accumulators_of(subplan(self.plan, insights))
        corrector = StateCorrector(self.agent, sources, self.plan.panes, accumulators, self.access)
        with silent.asking(*sources):
            last = corrector.correct(first, frontier)
        return {one.uid: [TickSpan(spans[one.uid][0].first, last)] for one in insights}


def _first_tick(spans: Spans) -> int:
    return min(each[0].first for each in spans.values())
