"""Computes ticks again, of what is still kept: panes where all are there, else points."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import msgspec
import pyarrow as pa

from analytics_worker.accumulating.stored import Account
from analytics_worker.correcting.spans import Span
from analytics_worker.merging.known import presence
from analytics_worker.streaming_library import StreamingLibrary
from mistbow.client.agent import AgentClient
from mistbow.errors import NotFoundError
from mistbow.plan.fragments import Merge, Place, Whole
from mistbow.plan.nodes import Insight, Plan
from mistbow.plan.resumption import only, resume
from mistbow.streams.schemas import RAW
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_NO_PANE = 2**62


@dataclass(frozen=True, slots=True)
class Part:
    """Ticks, by insight, and the streams of panes or points that have all that they need.

    The sites ``away`` have no part in them.
    """

    spans: Mapping[str, Span]
    places: tuple[Place, ...]
    of_panes: bool
    away: frozenset[str]


@dataclass(frozen=True, slots=True)
class Recomputing:
    """Computes ticks of fragments again."""

    library: StreamingLibrary
    agent: AgentClient

    def parts(self, fragment: Whole | Merge, spans: Mapping[str, Span]) -> Iterator[Part]:
        """Part ticks by what they can be computed of; those that lack some of it are left out.

        What stands was made of all of it, and is more right than what is left would say.
        """
        first = min(span.first for span in spans.values())
        missing = frozenset[str]()
        if isinstance(fragment, Merge):
            missing = away(self.agent, fragment, first)
        left = dict(spans)
        for places, of_panes in _choices(fragment, missing):
            # Many insights, but few windows.
            has_all = cache(partial(self._has_all, places, of_panes))
            able = {
                uid: span
                for uid, span in left.items()
                if has_all(_needs(fragment.plan, {uid: span}), span.last)
            }
            if able:
                yield Part(able, places, of_panes, missing)
            left = {uid: span for uid, span in left.items() if uid not in able}
        if left:
            log.warning("too late to be corrected", insights=sorted(left), first=first)

    def compute(self, part: Part, plan: Plan, account: Account | None) -> pa.Table:
        """Return what all insights of a part say at its ticks, and some more (``RESULT_ROWS``)."""
        again = resume(only(plan, beginning(plan, part.spans)), 0, ())
        times = again.needs + 1, max(span.last for span in part.spans.values())
        if part.of_panes:
            return self.library.recompute_from_panes(
                part.places, again.plan, again.after, times, account
            )
        starts = {
            place: self.agent.at(place.site).seek(place.stream, again.needs)
            for place in part.places
        }
        return self.library.recompute_from_points(starts, again.plan, again.after, times, account)

    def _has_all(self, places: Sequence[Place], of_panes: bool, needs: int, last: int) -> bool:
        """Return whether streams have all that is later than ``needs``, up to ``last`` (ms)."""
        if of_panes and not self._all_panes_are_there(places, needs, last):
            return False
        return not are_gone(self.agent, places, needs)

    def _all_panes_are_there(self, places: Sequence[Place], needs: int, last: int) -> bool:
        """Return whether all sites have made panes of all points from ``needs`` to ``last``."""
        for place in places:
            try:
                info = self.agent.at(place.site).info(place.stream)
            except NotFoundError:
                return False
            if info.attributes.get("begin", _NO_PANE) > needs or info.frontier < last:
                return False
        return True


def beginning(plan: Plan, spans: Mapping[str, Span]) -> tuple[Insight, ...]:
    """Return the insights that have a span, as if they began with it."""
    return tuple(
        msgspec.structs.replace(one, since=spans[one.uid].first - 1)
        for one in plan.insights
        if one.uid in spans
    )


def are_gone(agent: AgentClient, places: Sequence[Place], needs: int) -> bool:
    """Return whether rows later than a time (ms) may be kept no more in one of the streams."""
    for place in places:
        site = agent.at(place.site)
        kept = site.info(place.stream).first
        if kept > 0 and site.seek(place.stream, max(needs, 0)) <= kept:
            return True
    return False


def away(agent: AgentClient, fragment: Merge, first: int) -> frozenset[str]:
    """Return the sites that are missing since before a tick (ms), and have not joined again.

    Also those that were missing in it, and are forgotten since.

    What stands does without them, and is corrected when they are back: who is gone for good
    must not hold up the others' corrections.
    """
    sources = {place.site for place in fragment.sources}
    return frozenset(
        gap.site
        for gap in presence(agent, fragment.decisions).gaps
        if gap.after < first
        and (gap.until is None or (gap.site not in sources and first <= gap.until))
    )


def _choices(
    fragment: Whole | Merge, missing: frozenset[str]
) -> Iterator[tuple[tuple[Place, ...], bool]]:
    """Yield what ticks can be computed of, the least first, and whether it is panes."""
    if isinstance(fragment, Whole):
        yield (fragment.source,), False
        return
    there = tuple(place for place in fragment.sources if place.site not in missing)
    yield there, True
    yield tuple(Place(place.site, RAW) for place in there), False


def _needs(plan: Plan, spans: Mapping[str, Span]) -> int:
    """Return the time (ms) that only later points than are in windows of these ticks."""
    return resume(only(plan, beginning(plan, spans)), 0, ()).needs
