"""The built-in policy: fragile sites wholly, others by reads, load, disk, insights and workers."""

from collections.abc import Callable, Iterable, Iterator

from mistbow.streams.schemas import RAW
from storage_agent.replication.filters import EVERYTHING, covers
from storage_agent.replication.frequent_reads import by_load, by_reads
from storage_agent.replication.places import best, stays
from storage_agent.replication.rebalancing import by_disk, by_insights, by_workers
from storage_agent.replication.told import Copy
from storage_agent.replication.view import Decision, View

FRAGILE = 0.4
STEADY = 0.55
"""A site is fragile below the one stability, and until it is above the other."""

FRAGILITY = "fragility"

_FRAGILE_LABELS = {"fragile": ("true", "1", "yes"), "battery": ("true", "1", "yes")}


class FragileFirst:
    """See ``docs/replication.md`` for what it decides, and why."""

    def decide(self, view: View) -> tuple[Decision, ...]:
        """Return the copies of this site's data that there are to be."""
        found: list[Decision] = []
        taken: list[Decision | Copy] = [copy for copy in view.copies if copy.manual]
        for trigger in _TRIGGERS:
            for each in trigger(view):
                if not any(_is_in(each, other) for other in taken):
                    found.append(each)
                    taken.append(each)
        return tuple(found)


def _is_in(decision: Decision, other: Decision | Copy) -> bool:
    """Tell whether all of a copy is in another one at the same place."""
    same = (decision.target, decision.stream) == (other.target, other.stream)
    return same and covers(other.filter, decision.filter)


def by_fragility(view: View) -> Iterator[Decision]:
    """Yield where a fragile site's points and records are copied: each stream to one place.

    While that is silent, to more.
    """
    if is_fragile(view):
        for stream in (RAW, *view.records):
            yield from _wholly(view, stream)


def _wholly(view: View, stream: str) -> Iterator[Decision]:
    # Of what are no points it cannot be told what restrictions would keep back.
    may_have = view.may_have if stream == RAW else view.may_have_all
    sites = {site.name: site for site in view.others if may_have(site, EVERYTHING)}
    why = f"{view.here.name} is fragile"
    running = [copy for copy in view.decided(FRAGILITY) if copy.stream == stream]
    running.sort(key=lambda copy: copy.since)
    kept = [c.target for c in running if stays(view, sites.get(c.target), EVERYTHING)]
    for target in kept:
        yield Decision(target, EVERYTHING, why, FRAGILITY, stream=stream)
        if sites[target].reachable:
            return
    others = (site for name, site in sites.items() if name not in kept)
    if (place := best(view, EVERYTHING, others)) is not None:
        yield Decision(place.name, EVERYTHING, why, FRAGILITY, stream=stream)


def is_fragile(view: View) -> bool:
    """Tell whether this site's data may be gone at any time."""
    here = view.here
    told = any(here.labels.get(name, "").lower() in yes for name, yes in _FRAGILE_LABELS.items())
    running = bool(view.decided(FRAGILITY))
    return told or here.stability < (STEADY if running else FRAGILE)


_TRIGGERS: tuple[Callable[[View], Iterable[Decision]], ...] = (
    by_disk,  # a copy that moves serves whoever wants one
    by_fragility,
    by_reads,
    by_load,
    by_insights,
    by_workers,
)
