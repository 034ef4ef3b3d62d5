"""The built-in policy: fragile sites wholly, others by reads, load, disk, insights and workers."""

from collections.abc import Callable, Iterable, Iterator

from storage_agent.replication.filters import EVERYTHING, covers
from storage_agent.replication.frequent_reads import by_load, by_reads
from storage_agent.replication.places import best, stays
from storage_agent.replication.rebalancing import by_disk, by_insights, by_workers
from storage_agent.replication.view import Decision, View

FRAGILE = 0.4
STEADY = 0.55
"""A site is fragile below the one stability, and until it is above the other."""

FRAGILITY = "fragility"

_FRAGILE_LABELS = {"fragile": ("true", "1", "yes"), "battery": ("true", "1", "yes")}


class FragileFirst:
    """See ``docs/replication.md`` for what it decides, and why."""

    def decide(self, view: View) -> tuple[Decision, ...]:
        """Return the copies of this site's points that there are to be."""
        found: list[Decision] = []
        asked_for = [(copy.target, copy.filter) for copy in view.copies if copy.manual]
        for trigger in _TRIGGERS:
            for each in trigger(view):
                there = [*asked_for, *((other.target, other.filter) for other in found)]
                if not any(t == each.target and covers(wider, each.filter) for t, wider in there):
                    found.append(each)
        return tuple(found)


def by_fragility(view: View) -> Iterator[Decision]:
    """Yield where a fragile site's points are copied: one place, and more while it is silent."""
    if not is_fragile(view):
        return
    sites = {site.name: site for site in view.others}
    why = f"{view.here.name} is fragile"
    running = sorted(view.decided(FRAGILITY), key=lambda copy: copy.since)
    kept = [c.target for c in running if stays(view, sites.get(c.target), EVERYTHING)]
    for target in kept:
        yield Decision(target, EVERYTHING, why, FRAGILITY)
        if sites[target].reachable:
            return
    others = (site for site in view.others if site.name not in kept)
    if (place := best(view, EVERYTHING, others)) is not None:
        yield Decision(place.name, EVERYTHING, why, FRAGILITY)


def is_fragile(view: View) -> bool:
    """Tell whether this site's points may be gone at any time."""
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
