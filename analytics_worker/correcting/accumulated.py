"""What accumulates: the states that late points touch are mended before any result of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from analytics_worker.accumulating.accumulators import accumulators_of
from analytics_worker.accumulating.mending import Mender
from analytics_worker.accumulating.stored import Account
from analytics_worker.correcting.recomputing import are_gone
from analytics_worker.correcting.spans import Span
from mistbow.client.agent import AgentClient
from mistbow.plan.fragments import Place
from mistbow.plan.nodes import Insight, Plan
from mistbow.plan.resumption import only
from mistbow.telemetry import get_logger

log = get_logger(__name__)

Spans = dict[str, list[Span]]


@dataclass(frozen=True, slots=True)
class Accumulated:
    """The accumulators of a plan; ``sources`` says where the points from a tick (ms) on are."""

    agent: AgentClient
    plan: Plan
    account: Account
    sources: Callable[[int], tuple[Place, ...]]

    def mended(self, spans: Mapping[str, list[Span]], frontier: int) -> Spans:
        """Mend the states that late points touch: all that came of them is to be corrected too.

        Returns the ticks to correct, by insight; results are complete up to ``frontier`` (ms).
        """
        touched: dict[int, list[Insight]] = {}
        for insight in self.plan.insights:
            if insight.uid in spans and accumulators_of(only(self.plan, (insight,))):
                touched.setdefault(insight.every_ms, []).append(insight)
        found = dict(spans)
        # Each interval by itself: the points of a daily one's step are those of a whole day.
        for insights in touched.values():
            for insight in insights:
                del found[insight.uid]
            found |= self._mended(tuple(insights), spans, frontier)
        return found

    def _mended(
        self, insights: tuple[Insight, ...], spans: Mapping[str, list[Span]], frontier: int
    ) -> Spans:
        first = min(spans[insight.uid][0].first for insight in insights)
        sources = self.sources(first)
        if are_gone(self.agent, sources, first - 2 * insights[0].every_ms):
            uids = sorted(insight.uid for insight in insights)
            log.warning("too late to be corrected", insights=uids, first=first)
            return {}
        accumulators = accumulators_of(only(self.plan, insights))
        mender = Mender(self.agent, sources, self.plan.panes, accumulators, self.account)
        last = mender.mend(first, frontier)
        return {one.uid: [Span(spans[one.uid][0].first, last)] for one in insights}
