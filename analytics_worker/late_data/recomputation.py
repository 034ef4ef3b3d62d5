"""The recomputation of ticks, from stored panes if these are complete, else from stored points."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import msgspec
import pyarrow as pa

from analytics.plan.fragments import Merge, StreamLocation, Whole
from analytics.plan.nodes import Insight, Plan
from analytics.plan.resumption import resume, subplan
from analytics.plan.target_attributes import TargetAttributes
from analytics_worker.late_data.silent_sites import SilentSites
from analytics_worker.late_data.tick_spans import TickSpan
from analytics_worker.merge.site_gaps import LastGaps
from analytics_worker.stateful.state_stream import StateAccess
from analytics_worker.streaming_library import StreamingLibrary
from mistbow.client.agent import AgentClient
from mistbow.errors import MistbowError, NotFoundError, UnavailableError
from mistbow.streams.schemas import RAW
from mistbow.telemetry import get_logger

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RecomputableTicks:
    """Ticks (insight uid -> span), and the streams from which the ticks can be recomputed.

    ``locations``: streams that have all panes (if ``from_panes``) or all points of the ticks.
    ``named``: the sites that the results name as missing.
    """

    spans: Mapping[str, TickSpan]
    locations: tuple[StreamLocation, ...]
    from_panes: bool
    named: frozenset[str]


@dataclass(frozen=True, slots=True)
class Recomputation:
    """Recomputes the results at ticks."""

    library: StreamingLibrary
    agent: AgentClient

    def split(
        self,
        fragment: Whole | Merge,
        spans: Mapping[str, TickSpan],
        gaps: LastGaps,
        silent: SilentSites,
    ) -> Iterator[RecomputableTicks]:
        """Yield the ticks of insights, grouped by the streams from which the ticks can be
        recomputed.

        Ticks whose rows have expired, or whose sites have been removed, are omitted: the stored
        results are better than results from the remaining rows. Raises ``UnavailableError`` if a
        site is in ``silent`` or does not answer. ``gaps``: the gaps of the sites; none of
        their ``bounds`` is within ``spans``.
        """
        first = min(span.first for span in spans.values())
        if removed := gaps.removed(first):
            log.warning("correction_sites_removed", sites=sorted(removed), first=first)
            return
        absent, named = gaps.absent(first), gaps.named(first)
        left = dict(spans)
        for locations, from_panes in _alternatives(fragment, absent):
            # Many insights share few windows.
            has_all = cache(partial(self._has_all_rows, locations, silent, from_panes))
            complete = {
                uid: span
                for uid, span in left.items()
                if has_all(_needs(fragment.plan, {uid: span}), span.last)
            }
            if complete:
                yield RecomputableTicks(complete, locations, from_panes, named)
            left = {uid: span for uid, span in left.items() if uid not in complete}
        if left:
            log.warning("correction_rows_expired", insights=sorted(left), first=first)

    def compute(
        self,
        ticks: RecomputableTicks,
        plan: Plan,
        access: StateAccess | None,
        silent: SilentSites,
    ) -> pa.Table:
        """Return a plan's results (``RESULT_ROWS``) at ``ticks``, and possibly at further ticks.

        Raises ``UnavailableError`` if a site does not answer, also to the engine.
        """
        with silent.asking(*ticks.locations):
            try:
                return self._compute(ticks, plan, access)
            except MistbowError:
                raise
            except Exception as error:
                failure = self.library.failure_of(error)
                if failure.is_fenced or not failure.is_unavailable:
                    raise
                # The error does not say which site did not answer.
                raise UnavailableError(failure.error) from error

    def _compute(
        self, ticks: RecomputableTicks, plan: Plan, access: StateAccess | None
    ) -> pa.Table:
        resumption = resume(subplan(plan, _starting_at(plan, ticks.spans)), 0, ())
        times = resumption.needs + 1, max(span.last for span in ticks.spans.values())
        if ticks.from_panes:
            return self.library.recompute_from_panes(
                ticks.locations, resumption.plan, resumption.after, times, access
            )
        starts = {
            location: self.agent.at(location.site).seek(location.stream, resumption.needs)
            for location in ticks.locations
        }
        return self.library.recompute_from_points(
            starts, resumption.plan, resumption.after, times, access
        )

    def _has_all_rows(
        self,
        locations: Sequence[StreamLocation],
        silent: SilentSites,
        from_panes: bool,
        needs: int,
        last: int,
    ) -> bool:
        """Return whether the streams have all rows from which ticks up to ``last`` are computed.

        ``needs``: the earliest beginning of a window; all these rows are later. Times are in ms.
        """
        if from_panes and not self._has_all_panes(locations, silent, needs, last):
            return False
        return not are_expired(self.agent, locations, silent, needs)

    def _has_all_panes(
        self, locations: Sequence[StreamLocation], silent: SilentSites, needs: int, last: int
    ) -> bool:
        """Return whether all sites have stored all panes that end in ``(needs, last]`` (ms)."""
        silent.check(locations)
        for location in locations:
            try:
                with silent.asking(location):
                    info = self.agent.at(location.site).info(location.stream)
            except NotFoundError:
                return False
            begin = TargetAttributes.of(info).begin
            if begin is None or begin > needs or info.frontier < last:
                return False
        return True


def _starting_at(plan: Plan, spans: Mapping[str, TickSpan]) -> tuple[Insight, ...]:
    """Return copies of the insights that have a span; results begin at the first tick of the span.

    The field ``since`` of a copy is 1 ms before this tick.
    """
    return tuple(
        msgspec.structs.replace(one, since=spans[one.uid].first - 1)
        for one in plan.insights
        if one.uid in spans
    )


def are_expired(
    agent: AgentClient, locations: Sequence[StreamLocation], silent: SilentSites, needs: int
) -> bool:
    """Return whether rows after the time ``needs`` (ms) may have expired in at least one stream.

    Raises ``UnavailableError`` if a site is in ``silent`` or does not answer.
    """
    silent.check(locations)
    for location in locations:
        with silent.asking(location):
            site = agent.at(location.site)
            first = site.info(location.stream).first
            if first > 0 and site.seek(location.stream, max(needs, 0)) <= first:
                return True
    return False


def _alternatives(
    fragment: Whole | Merge, absent: frozenset[str]
) -> Iterator[tuple[tuple[StreamLocation, ...], bool]]:
    """Yield the alternatives for a recomputation: (streams, whether the streams contain panes).

    The alternative with the fewest rows comes first.
    """
    if isinstance(fragment, Whole):
        yield (fragment.source,), False
        return
    present = tuple(location for location in fragment.sources if location.data_site not in absent)
    yield present, True
    yield tuple(StreamLocation(location.data_site, RAW) for location in present), False


def _needs(plan: Plan, spans: Mapping[str, TickSpan]) -> int:
    """Return the time (ms) after which all points in the windows of these ticks lie."""
    return resume(subplan(plan, _starting_at(plan, spans)), 0, ()).needs
