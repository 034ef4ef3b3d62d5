"""Handing data over: from a site that is short of disk, to where insights and workers are."""

from collections.abc import Iterable, Iterator

from storage_agent.replication.filters import EVERYTHING, SeriesFilter, covers, text_of
from storage_agent.replication.places import best, has_room, latency, stays
from storage_agent.replication.view import LEAST_AGE_MS, Decision, Insight, SiteView, View

DISK = "disk"
INSIGHTS = "insights"
WORKERS = "workers"
"""The causes of these decisions."""

SCARCE = 0.85
ROOMY = 0.7
"""A site is short of disk above the one part of what it may take, and until below the other."""

WORKERLESS_MS = 60_000
"""Workers that are started again are not gone."""

_NAMED = 3


def by_disk(view: View) -> Iterator[Decision]:
    """Yield where the history of a site that is short of disk moves: one place, and no other."""
    moving = [copy for copy in view.copies if copy.move and copy.cause == DISK]
    full = view.fullness
    if full < (ROOMY if moving else SCARCE):
        return
    why = f"{view.here.name} has filled {full:.0%} of its disk"
    begun = [copy for copy in view.copies if copy.moved_to is not None]
    sites = {site.name: site for site in view.others}
    for copy in (*moving, *begun):
        # What has begun to move goes on to the same place, or each part would be elsewhere.
        target = sites.get(copy.target)
        if copy.cause == DISK and stays(view, target, copy.filter):
            yield Decision(copy.target, copy.filter, why, DISK, move=True)
            return
    able = (site for site in view.others if view.may_have_all(site, EVERYTHING))
    if not begun and (place := best(view, EVERYTHING, able)) is not None:
        yield Decision(place.name, EVERYTHING, why, DISK, move=True)


def by_insights(view: View) -> Iterator[Decision]:
    """Yield what insights read whose workers are at another site: it is copied to there."""
    for site in view.others:
        read = [each for each in view.insights if each.site == site.name]
        yield from _for_insights(view, site, read, INSIGHTS, f"at {site.name}")


def by_workers(view: View) -> Iterator[Decision]:
    """Yield what insights read of a site that has lost its workers, for the nearest with some."""
    there = {copy.target for copy in view.copies if copy.cause == WORKERS}
    left = [each for each in view.insights if each.site == view.here.name]
    places = [site for site in view.others if site.workers and site.reachable]
    places.sort(key=lambda site: (site.name not in there, latency(site), site.name))
    alone = view.workerless_ms > WORKERLESS_MS
    near = next((site for site in places if has_room(view, site) or site.name in there), None)
    for site in view.others:
        read = left if alone and site is near else []
        why = f"the nearest workers to {view.here.name} are at {site.name}"
        yield from _for_insights(view, site, read, WORKERS, why)


def _for_insights(
    view: View, site: SiteView, read: Iterable[Insight], cause: str, where: str
) -> Iterator[Decision]:
    """Yield what insights read, for a site; what is there for the same cause stays for a while."""
    there = {text_of(copy.filter): copy for copy in view.decided(cause, site.name)}
    wanted = {text_of(each.filter): each.filter for each in read}
    widest = [
        each
        for each in wanted.values()
        if not any(covers(other, each) for other in wanted.values() if other is not each)
    ]
    for each in widest:
        able = text_of(each) in there or (site.reachable and has_room(view, site))
        if able and view.may_have(site, each):
            yield Decision(site.name, each, _why(read, each, where), cause)
    for text, copy in there.items():
        young = view.now - copy.since < LEAST_AGE_MS
        if young and text not in map(text_of, widest) and view.may_have(site, copy.filter):
            yield Decision(site.name, copy.filter, copy.why, cause)


def _why(read: Iterable[Insight], wanted: SeriesFilter, where: str) -> str:
    names = sorted({each.id for each in read if covers(wanted, each.filter)})
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more} read it; {where}"
