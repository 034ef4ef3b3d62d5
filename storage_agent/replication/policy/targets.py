"""The choice of a target for a copy: the eligible site with the highest score."""

from collections.abc import Iterable

from mistbow.client.operation_model import SeriesFilter
from storage_agent.replication.policy.view import SiteView, View

SLOW_MS = 50.0
"""The latency (ms) above which a link is a bad link."""

MIN_KEPT_STABILITY = 0.3
"""The minimum stability with which a site remains a target; a new target needs more."""

_MIN_STABILITY = 0.5
_MIN_FREE_BYTES = 2**30
_WORKER_WEIGHT = 1.25
_HEAVY_LOAD = 50_000.0


def best_target(
    view: View, series_filter: SeriesFilter, sites: Iterable[SiteView]
) -> SiteView | None:
    """Return the eligible site with the highest score; None if no site is eligible."""
    eligible = [site for site in sites if _is_eligible(view, site, series_filter)]
    return max(eligible, key=lambda site: (_score(site), site.name), default=None)


def remains_eligible(view: View, site: SiteView | None, series_filter: SeriesFilter) -> bool:
    """Return whether a site that is a target already may remain a target.

    ``site``: None if the site is unknown. A new target needs a higher stability than a present
    target.
    """
    if site is None or site.stability < MIN_KEPT_STABILITY:
        return False
    return view.may_receive_some(site, series_filter)


def has_space(view: View, site: SiteView) -> bool:
    """Return whether a site has free space for twice this site's points, plus 1 GiB."""
    return site.free_bytes is not None and site.free_bytes > _MIN_FREE_BYTES + 2 * view.stored_bytes


def latency(site: SiteView) -> float:
    """Return the latency of the link to a site (ms), or an estimate if no direct link exists."""
    return 2 * SLOW_MS if site.latency_ms is None else site.latency_ms


def _is_eligible(view: View, site: SiteView, series_filter: SeriesFilter) -> bool:
    is_stable = site.reachable and site.stability >= _MIN_STABILITY
    return is_stable and has_space(view, site) and view.may_receive_some(site, series_filter)


def _score(site: SiteView) -> float:
    """Return the score of a target, which is high for a stable, near and idle site with workers."""
    nearness = 1 / (1 + latency(site) / SLOW_MS)
    idleness = 1 / (1 + site.load / _HEAVY_LOAD)
    return site.stability * nearness * idleness * (_WORKER_WEIGHT if site.workers else 1.0)
