"""Asking agents to keep what fragments still need, however short streams are kept."""

import time
from collections.abc import Callable, Iterable, Iterator

from analytics_worker.accumulating.accumulators import accumulators_of
from analytics_worker.accumulating.stored import snapshot_ms
from mistbow.client.agent import AgentClient
from mistbow.errors import MistbowError
from mistbow.panes.routing import metrics_needed
from mistbow.plan.feeds import Feed
from mistbow.plan.fragments import Fragment, Merge, Partial, Place, Whole
from mistbow.streams.schemas import states_stream
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_AGAIN_S = 600.0
_FOR_MS = 3_600_000
_MOST_METRICS = 1000
_MOST_NAME = 512
_MOST_MS = 366 * 86_400_000
"""For so long an agent holds anything."""

_SPARE_MS = 600_000
"""So much more than a window: who restarts, or was cut off, reads from before."""


_Hold = tuple[int, tuple[str, ...]]
"""For how long (ms) rows are needed, and of which metrics."""


class Holder:
    """Holds the streams of the fragments that ``fragments`` returns, again and again."""

    def __init__(self, agent: AgentClient, fragments: Callable[[], Iterable[Fragment]]) -> None:
        self._agent = agent
        self._fragments = fragments
        self._held: dict[tuple[str, Place], tuple[_Hold, float]] = {}

    def hold(self) -> None:
        """Ask for what is new, or was asked for long ago; who is away is asked again later."""
        now = time.monotonic()
        wanted = {
            (fragment.id, place): (keep_ms, metrics_of(fragment))
            for fragment in self._fragments()
            for place, keep_ms in needs(fragment)
        }
        self._held = {key: held for key, held in self._held.items() if key in wanted}
        for (holder, place), hold in wanted.items():
            before = self._held.get((holder, place))
            if before is not None and before[0] == hold and now - before[1] < _AGAIN_S:
                continue
            keep_ms, metrics = hold
            try:
                self._agent.at(place.site).hold(place.stream, holder, keep_ms, _FOR_MS, metrics)
            except MistbowError as error:
                log.info("not held", stream=place.stream, site=place.site, reason=error.message)
                continue
            self._held[holder, place] = (hold, now)


def metrics_of(fragment: Fragment) -> tuple[str, ...]:
    """Return the metrics of which a fragment reads points of storage; a merge reads none.

    None as well if they are more than an agent takes: they only help it to decide what to copy.
    """
    match fragment:
        case Merge():
            return ()
        case Whole(source=Place(feed=Feed())):
            return ()
        case Partial(panes=panes):
            needed = metrics_needed(panes)
        case _:
            needed = metrics_needed(fragment.plan.panes)
    # No point has a metric of so long a name.
    named = tuple(metric for metric in needed if len(metric) <= _MOST_NAME)
    return named if len(named) <= _MOST_METRICS else ()


def needs(fragment: Fragment) -> Iterator[tuple[Place, int]]:
    """Yield the streams that a fragment reads, and for how long (ms) it needs their rows."""
    if not isinstance(fragment, Partial):
        yield from _states(fragment)
    match fragment:
        case Merge(plan=plan):
            for source in fragment.sources:
                yield source, plan.reach_ms + _SPARE_MS
        case Partial():
            yield fragment.source, fragment.reach_ms + _SPARE_MS
        case _:
            yield fragment.source, fragment.plan.reach_ms + _SPARE_MS


def _states(fragment: Whole | Merge) -> Iterator[tuple[Place, int]]:
    spans = [snapshot_ms(each.window.every_ms) for each in accumulators_of(fragment.plan)]
    if spans:
        place = Place(fragment.target.site, states_stream(fragment.target.stream))
        # Of two such sets, one is always whole.
        yield place, min(2 * max(spans) + _SPARE_MS, _MOST_MS)
