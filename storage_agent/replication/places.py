"""Where copies of this site's points may go, and which place is the best."""

from collections.abc import Iterable

from storage_agent.replication.filters import SeriesFilter
from storage_agent.replication.view import SiteView, View

SLOW_MS = 50.0
"""A link with more latency is a bad one."""

LEAST_KEPT = 0.3
"""The stability down to which a place that was good enough still is."""

_LEAST_STABILITY = 0.5
_LEAST_ROOM = 2**30
_WORTH_WORKERS = 1.25
_HEAVY = 50_000.0


def best(view: View, wanted: SeriesFilter, among: Iterable[SiteView]) -> SiteView | None:
    """Return the best place for what is wanted, if any site can be one."""
    places = [site for site in among if _can_be(view, site, wanted)]
    return max(places, key=lambda site: (_worth(site), site.name), default=None)


def stays(view: View, site: SiteView | None, wanted: SeriesFilter) -> bool:
    """Tell whether a place that was good enough still is: it may become somewhat worse."""
    return site is not None and site.stability >= LEAST_KEPT and view.may_have(site, wanted)


def has_room(view: View, site: SiteView) -> bool:
    """Tell whether a site has clearly more room than all of this site's points take."""
    return site.room is not None and site.room > _LEAST_ROOM + 2 * view.stored


def latency(site: SiteView) -> float:
    """Return the latency to a site, milliseconds; a guess where there is no straight link."""
    return 2 * SLOW_MS if site.latency_ms is None else site.latency_ms


def _can_be(view: View, site: SiteView, wanted: SeriesFilter) -> bool:
    stable = site.reachable and site.stability >= _LEAST_STABILITY
    return stable and has_room(view, site) and view.may_have(site, wanted)


def _worth(site: SiteView) -> float:
    """Return how good a place a site is: stable, near, not loaded, with workers beside the data."""
    near = 1 / (1 + latency(site) / SLOW_MS)
    idle = 1 / (1 + site.load / _HEAVY)
    return site.stability * near * idle * (_WORTH_WORKERS if site.workers else 1.0)
