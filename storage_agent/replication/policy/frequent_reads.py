"""Decides to copy series to sites that often read them; under overload, fewer reads suffice."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mistbow.client.operation_model import Copy, ReadRate, SeriesFilter
from storage_agent.replication.filters import EVERYTHING, canonical_text, covers
from storage_agent.replication.policy.targets import SLOW_MS, has_space
from storage_agent.replication.policy.view import MIN_AGE_MS, CopyDecision, SiteView, View

READS = "reads"
LOAD = "load"
"""``READS`` and ``LOAD``: the values of ``CopyDecision.cause`` in the decisions of this module."""

START = 30.0
KEEP = 10.0
"""The limits for the rate of weighted reads (reads per minute) of a copy.

A copy starts at a rate of ``START`` or more, and ends at a rate below ``KEEP``.
"""

OVERLOADED = 0.8
"""The share of busy time above which a site is overloaded."""

START_LOADED = 6.0
KEEP_LOADED = 2.0
"""The limits in place of ``START`` and ``KEEP`` for copies because of overload."""

_BAD_LINK_WEIGHT = 4.0
_CONGESTION_FACTOR = 3.0
_CONGESTION_MS = 10.0
_MAX_LOSSES = 1.0
_MAX_FILTERS = 8
_MAX_EXACT = 3


@dataclass(frozen=True, slots=True)
class _Terms:
    """The conditions for the start and the end of copies.

    ``start``, ``keep``: a copy starts at a rate of ``start`` weighted reads per minute or more, and
    ends at a rate below ``keep``. ``weight``: the weight of one read. ``because``: the end of the
    message that explains the copy.
    """

    cause: str
    start: float
    keep: float
    weight: float
    because: str


def by_reads(view: View) -> Iterator[CopyDecision]:
    """Yield decisions to copy series to other sites that read the series often.

    Reads across bad links have a greater weight.
    """
    for site in view.others:
        weight = link_weight(site)
        because = " across a bad link" if weight > 1 else ""
        yield from _for_reader(view, site, _Terms(READS, START, KEEP, weight, because))


def by_load(view: View) -> Iterator[CopyDecision]:
    """Yield decisions to copy series from an overloaded site to the sites that read the series."""
    start = START_LOADED if view.busy > OVERLOADED else math.inf
    because = f", and {view.here.name} is overloaded"
    for site in view.others:
        yield from _for_reader(view, site, _Terms(LOAD, start, KEEP_LOADED, 1.0, because))


def link_weight(site: SiteView) -> float:
    """Return the weight of a read across the link to a site, which is 1 for a good link."""
    if site.latency_ms is None:
        return _BAD_LINK_WEIGHT  # through a third site, if at all
    usual = site.latency_ms if site.usual_latency_ms is None else site.usual_latency_ms
    congested = max(_CONGESTION_FACTOR * usual, usual + _CONGESTION_MS)
    is_bad = site.latency_ms > congested or site.latency_ms > SLOW_MS or site.losses >= _MAX_LOSSES
    return _BAD_LINK_WEIGHT if is_bad else 1.0


def _for_reader(view: View, site: SiteView, terms: _Terms) -> list[CopyDecision]:
    """Return the decisions to copy to ``site`` the series that ``site`` reads often enough.

    ``terms``: the conditions for a copy.
    """
    reads = [read for read in view.reads if read.by == site.name]

    def rate(series_filter: SeriesFilter) -> float:
        return sum(read.per_minute for read in reads if covers(series_filter, read.filter))

    def stays(copy: Copy) -> bool:
        is_young = view.now - copy.since < MIN_AGE_MS
        is_read = terms.weight * rate(copy.filter) >= terms.keep
        return view.may_receive_some(site, copy.filter) and (is_young or is_read)

    def decision(series_filter: SeriesFilter, why: str) -> CopyDecision:
        return CopyDecision(site.name, series_filter, why, terms.cause)

    present = view.decided(terms.cause, site.name)
    decisions = [decision(copy.filter, copy.why) for copy in present if stays(copy)]
    if not (site.reachable and has_space(view, site)):
        return decisions
    for series_filter in _candidates(reads):
        is_covered = any(covers(each.filter, series_filter) for each in decisions)
        is_frequent = terms.weight * rate(series_filter) >= terms.start
        if is_frequent and not is_covered and view.may_receive_some(site, series_filter):
            often = f"{rate(series_filter):.0f} times a minute"
            why = f"{site.name} reads this data {often}{terms.because}"
            decisions.append(decision(series_filter, why))
    if len(decisions) > _MAX_FILTERS:
        return [decision(EVERYTHING, f"{site.name} often reads {len(decisions)} parts")]
    return decisions


def _candidates(reads: Iterable[ReadRate]) -> Iterator[SeriesFilter]:
    """Yield the filter of each read.

    If many filters name the same metrics, also yield a filter for all points of these metrics.
    """
    parts: dict[tuple[str, ...], dict[str, SeriesFilter]] = defaultdict(dict)
    for read in reads:
        parts[read.filter.metric][canonical_text(read.filter)] = read.filter
    for metric, filters in sorted(parts.items()):
        if metric and len(filters) > _MAX_EXACT:
            yield SeriesFilter(metric=metric)
        for _, series_filter in sorted(filters.items()):
            yield series_filter
