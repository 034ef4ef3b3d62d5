"""What is read often from afar is copied to where it is read; sooner from an overloaded site."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from storage_agent.replication.filters import EVERYTHING, SeriesFilter, covers, text_of
from storage_agent.replication.places import SLOW_MS, has_room
from storage_agent.replication.told import Copy
from storage_agent.replication.view import LEAST_AGE_MS, Decision, Read, SiteView, View

READS = "reads"
LOAD = "load"
"""The causes of these decisions."""

START = 30.0
KEEP = 10.0
"""Reads a minute, weighted, from which something is copied, and down to which it stays so."""

OVERLOADED = 0.8
START_LOADED = 6.0
KEEP_LOADED = 2.0
"""The same for a site whose agent works for more than such a part of its time."""

_WEIGHT_BAD = 4.0
_CONGESTED = 3.0
_CONGESTED_MS = 10.0
_LOSSES = 1.0
_MOST_FILTERS = 8
_MOST_EXACT = 3


@dataclass(frozen=True, slots=True)
class _Terms:
    """From how many reads a minute on there is a copy, down to how many, and why, in words."""

    cause: str
    start: float
    keep: float
    cost: float
    because: str


def by_reads(view: View) -> Iterator[Decision]:
    """Yield what is read so often across a link, a bad one above all, that it pays to copy it."""
    for site in view.others:
        cost = weight(site)
        because = " across a bad link" if cost > 1 else ""
        yield from _read_at(view, site, _Terms(READS, START, KEEP, cost, because))


def by_load(view: View) -> Iterator[Decision]:
    """Yield what readers take over from an overloaded site, for as long as they read it."""
    start = START_LOADED if view.busy > OVERLOADED else math.inf
    because = f", and {view.here.name} is overloaded"
    for site in view.others:
        yield from _read_at(view, site, _Terms(LOAD, start, KEEP_LOADED, 1.0, because))


def weight(site: SiteView) -> float:
    """Return how much a read across the link to a site costs, against one across a good link."""
    if site.latency_ms is None:
        return _WEIGHT_BAD  # only through a third site, if at all
    usual = site.latency_ms if site.usual_ms is None else site.usual_ms
    grown = max(_CONGESTED * usual, usual + _CONGESTED_MS)
    bad = site.latency_ms > grown or site.latency_ms > SLOW_MS or site.losses >= _LOSSES
    return _WEIGHT_BAD if bad else 1.0


def _read_at(view: View, site: SiteView, terms: _Terms) -> list[Decision]:
    """Return what a site reads so often that it should have it."""
    reads = [read for read in view.reads if read.by == site.name]

    def pressure(wanted: SeriesFilter) -> float:
        return sum(read.per_minute for read in reads if covers(wanted, read.filter))

    def stays(copy: Copy) -> bool:
        young = view.now - copy.since < LEAST_AGE_MS
        often = terms.cost * pressure(copy.filter) >= terms.keep
        return view.may_have(site, copy.filter) and (young or often)

    def decision(wanted: SeriesFilter, why: str) -> Decision:
        return Decision(site.name, wanted, why, terms.cause)

    there = view.decided(terms.cause, site.name)
    decisions = [decision(copy.filter, copy.why) for copy in there if stays(copy)]
    if not (site.reachable and has_room(view, site)):
        return decisions
    for wanted in _candidates(reads):
        often = pressure(wanted)
        held = any(covers(each.filter, wanted) for each in decisions)
        if not held and terms.cost * often >= terms.start and view.may_have(site, wanted):
            why = f"{site.name} reads it {often:.0f} times a minute{terms.because}"
            decisions.append(decision(wanted, why))
    if len(decisions) > _MOST_FILTERS:
        return [decision(EVERYTHING, f"{site.name} reads {len(decisions)} parts of it often")]
    return decisions


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
