"""The built-in policy: fragile sites wholly, others what is read often or across bad links."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from storage_agent.replication.filters import EVERYTHING, SeriesFilter, covers, text_of
from storage_agent.replication.told import Copy
from storage_agent.replication.view import Decision, Read, SiteView, View

FRAGILE = 0.4
STEADY = 0.55
"""A site is fragile below the one stability, and until it is above the other."""

START = 30.0
KEEP = 10.0
"""Reads a minute, weighted, from which something is copied, and down to which it stays so."""

LEAST_AGE_MS = 300_000
"""No copy that was decided is given up sooner."""

_WEIGHT_BAD = 4.0
_SLOW_MS = 50.0
_CONGESTED = 3.0
_CONGESTED_MS = 10.0
_LOSSES = 1.0
_LEAST_ROOM = 2**30
_LEAST_STABILITY = 0.5
_LEAST_KEPT = 0.3
_WORTH_WORKERS = 1.25
_MOST_FILTERS = 8
_MOST_EXACT = 3

_FRAGILE_LABELS = {"fragile": ("true", "1", "yes"), "battery": ("true", "1", "yes")}


class FragileFirst:
    """See ``docs/replication.md`` for what it decides, and why."""

    def decide(self, view: View) -> tuple[Decision, ...]:
        """Return the copies of this site's points that there are to be."""
        whole = [Decision(site, EVERYTHING, why) for site, why in _whole(view)]
        there = {decision.target for decision in whole}
        read = [each for site in view.others if site.name not in there for each in _hot(view, site)]
        return (*whole, *read)


def is_fragile(view: View) -> bool:
    """Tell whether this site's points may be gone at any time."""
    here = view.here
    told = any(here.labels.get(name, "").lower() in yes for name, yes in _FRAGILE_LABELS.items())
    running = any(copy.filter.all and not copy.manual for copy in view.copies)
    return told or here.stability < (STEADY if running else FRAGILE)


def weight(site: SiteView) -> float:
    """Return how much a read across the link to a site costs, against one across a good link."""
    if site.latency_ms is None:
        return _WEIGHT_BAD  # only through a third site, if at all
    usual = site.latency_ms if site.usual_ms is None else site.usual_ms
    grown = max(_CONGESTED * usual, usual + _CONGESTED_MS)
    bad = site.latency_ms > grown or site.latency_ms > _SLOW_MS or site.losses >= _LOSSES
    return _WEIGHT_BAD if bad else 1.0


def _whole(view: View) -> Iterator[tuple[str, str]]:
    """Yield where a fragile site's points are copied: one place, and more while it is silent."""
    if not is_fragile(view):
        return
    sites = {site.name: site for site in view.others}
    why = f"{view.here.name} is fragile"
    running = sorted(
        (copy for copy in view.copies if copy.filter.all and not copy.manual),
        key=lambda copy: copy.since,
    )
    kept = [copy.target for copy in running if _stays(view, sites.get(copy.target))]
    for target in kept:
        yield target, why
        if sites[target].reachable:
            return
    places = [
        site
        for site in view.others
        if site.name not in kept and site.reachable and _has_place(view, site, EVERYTHING)
    ]
    if places:
        best = max(places, key=lambda site: (_worth(site), site.name))
        yield best.name, why


def _stays(view: View, site: SiteView | None) -> bool:
    """Tell whether a place that was good enough still is: it may become somewhat worse."""
    return site is not None and site.stability >= _LEAST_KEPT and view.may_have(site, EVERYTHING)


def _has_place(view: View, site: SiteView, wanted: SeriesFilter) -> bool:
    stable = site.stability >= _LEAST_STABILITY
    return stable and _has_room(view, site) and view.may_have(site, wanted)


def _has_room(view: View, site: SiteView) -> bool:
    return site.room is not None and site.room > _LEAST_ROOM + 2 * view.stored


def _worth(site: SiteView) -> float:
    """Return how good a place a site is: stable, near, not loaded, with workers beside the data."""
    latency = 2 * _SLOW_MS if site.latency_ms is None else site.latency_ms
    near = 1 / (1 + latency / _SLOW_MS)
    idle = 1 / (1 + site.load / 50_000)
    return site.stability * near * idle * (_WORTH_WORKERS if site.workers else 1.0)


def _hot(view: View, site: SiteView) -> list[Decision]:
    """Return what a site reads so often that it should have it."""
    reads = [read for read in view.reads if read.by == site.name]
    copies = [each for each in view.copies if each.target == site.name]
    asked_for = [copy.filter for copy in copies if copy.manual]
    decided = [copy for copy in copies if not copy.manual]
    cost = weight(site)

    def pressure(wanted: SeriesFilter) -> float:
        return cost * sum(read.per_minute for read in reads if covers(wanted, read.filter))

    kept = [copy for copy in decided if _worth_keeping(view, site, copy, pressure(copy.filter))]
    decisions = [Decision(site.name, copy.filter, copy.why) for copy in kept]
    if not (site.reachable and _has_room(view, site)):
        return decisions
    for wanted in _candidates(reads):
        held = any(covers(each, wanted) for each in (*asked_for, *(d.filter for d in decisions)))
        if not held and pressure(wanted) >= START and view.may_have(site, wanted):
            often = pressure(wanted) / cost
            across = " across a bad link" if cost > 1 else ""
            why = f"{site.name} reads it {often:.0f} times a minute{across}"
            decisions.append(Decision(site.name, wanted, why))
    if len(decisions) > _MOST_FILTERS:
        return [
            Decision(site.name, EVERYTHING, f"{site.name} reads {len(decisions)} parts of it often")
        ]
    return decisions


def _worth_keeping(view: View, site: SiteView, copy: Copy, pressure: float) -> bool:
    young = view.now - copy.since < LEAST_AGE_MS
    return view.may_have(site, copy.filter) and (young or pressure >= KEEP)


def _candidates(reads: Iterable[Read]) -> Iterator[SeriesFilter]:
    """Yield what might be copied: what is read by itself, and metrics of which many parts are."""
    parts: dict[tuple[str, ...], dict[str, SeriesFilter]] = defaultdict(dict)
    for read in reads:
        parts[read.filter.metric][text_of(read.filter)] = read.filter
    for metric, filters in sorted(parts.items()):
        if metric and len(filters) > _MOST_EXACT:
            yield SeriesFilter(metric=metric)
        for _, wanted in sorted(filters.items()):
            yield wanted
