"""Decides to offload points from a full disk, and to copy series to sites that compute insights."""

from collections.abc import Iterable, Iterator

from mistbow.client.operation_model import SeriesFilter
from mistbow.first_names import first_names
from storage_agent.replication.filters import EVERYTHING, canonical_text, covers
from storage_agent.replication.policy.targets import (
    best_target,
    has_space,
    latency,
    remains_eligible,
)
from storage_agent.replication.policy.view import (
    MIN_AGE_MS,
    CopyDecision,
    InsightRead,
    SiteView,
    View,
)

DISK = "disk"
INSIGHTS = "insights"
WORKERS = "workers"
"""``DISK``, ``INSIGHTS``, ``WORKERS``: the values of ``CopyDecision.cause`` in this module."""

SCARCE = 0.85
ROOMY = 0.7
"""The limits for the used share of a site's space.

A site begins to offload at a share of ``SCARCE`` or more, and stops at a share below ``ROOMY``.
"""

WORKERLESS_MS = 60_000
"""The time (ms) without workers after which series are copied to a site with workers.

The restart of a worker takes less time.
"""

_MAX_NAMED = 3


def by_disk(view: View) -> Iterator[CopyDecision]:
    """Yield a decision to offload this site's points to one target, if this site's disk is full."""
    offloads = [copy for copy in view.copies if copy.offload and copy.cause == DISK]
    full = view.fullness
    if full < (ROOMY if offloads else SCARCE):
        return
    why = f"{view.here.name} has filled {full:.0%} of its disk"
    begun = [copy for copy in view.copies if copy.offloaded_to is not None]
    sites = {site.name: site for site in view.others}
    for copy in (*offloads, *begun):
        # An offload that has begun has one target, or the history would be in several places.
        target = sites.get(copy.target)
        if copy.cause == DISK and remains_eligible(view, target, copy.filter):
            yield CopyDecision(copy.target, copy.filter, why, DISK, offload=True)
            return
    allowed = (site for site in view.others if view.may_receive_all(site, EVERYTHING))
    if not begun and (target := best_target(view, EVERYTHING, allowed)) is not None:
        yield CopyDecision(target.name, EVERYTHING, why, DISK, offload=True)


def by_insights(view: View) -> Iterator[CopyDecision]:
    """Yield decisions to copy the series that insights read to the sites of these insights."""
    for site in view.others:
        read = [each for each in view.insights if each.site == site.name]
        yield from _for_insights(view, site, read, INSIGHTS, f"at {site.name}")


def by_workers(view: View) -> Iterator[CopyDecision]:
    """Yield decisions to copy series to the nearest site with workers, if this site has no workers.

    The series are those that insights at this site read.
    """
    present = {copy.target for copy in view.copies if copy.cause == WORKERS}
    stranded = [each for each in view.insights if each.site == view.here.name]
    sites = [site for site in view.others if site.workers and site.reachable]
    sites.sort(key=lambda site: (site.name not in present, latency(site), site.name))
    is_workerless = view.workerless_ms > WORKERLESS_MS
    nearest = next((site for site in sites if has_space(view, site) or site.name in present), None)
    for site in view.others:
        read = stranded if is_workerless and site is nearest else []
        why = f"the nearest workers to {view.here.name} are at {site.name}"
        yield from _for_insights(view, site, read, WORKERS, why)


def _for_insights(
    view: View, site: SiteView, read: Iterable[InsightRead], cause: str, where: str
) -> Iterator[CopyDecision]:
    """Yield decisions to copy to ``site`` the series that the insights in ``read`` read.

    Also yields decisions for the present copies of the same cause that are younger than
    ``MIN_AGE_MS``. ``where``: the end of the message that explains a copy.
    """
    present = {canonical_text(copy.filter): copy for copy in view.decided(cause, site.name)}
    filters = {canonical_text(each.filter): each.filter for each in read}
    widest = [
        each
        for each in filters.values()
        if not any(covers(other, each) for other in filters.values() if other is not each)
    ]
    for each in widest:
        is_possible = canonical_text(each) in present or (site.reachable and has_space(view, site))
        if is_possible and view.may_receive_some(site, each):
            yield CopyDecision(site.name, each, _reason(read, each, where), cause)
    for text, copy in present.items():
        is_young = view.now - copy.since < MIN_AGE_MS
        is_unwanted = text not in map(canonical_text, widest)
        if is_young and is_unwanted and view.may_receive_some(site, copy.filter):
            yield CopyDecision(site.name, copy.filter, copy.why, cause)


def _reason(read: Iterable[InsightRead], series_filter: SeriesFilter, where: str) -> str:
    names = sorted({each.id for each in read if covers(series_filter, each.filter)})
    return f"read by {first_names(names, _MAX_NAMED)}; {where}"
