"""The peers to which an agent sends heartbeats in a round.

In a small fog these are all peers. In a large fog their number is bounded, so the heartbeats of an
agent do not grow with the number of sites. Each round has three kinds of targets:

- *Neighbours*: the next sites on a ring, in the order of a hash of their names. So each site is the
  neighbour of as many others, which detect within a second or two that the site does not answer.
- *Suspects*: sites that other agents report as lost or as back.
- The sites that were contacted least recently, so the latency of each link is measured at times.

The combination of a ring, random probes and dissemination on heartbeats follows SWIM (Das, Gupta,
Motivala, DSN 2002, sections 3 and 4); the ring replaces its random selection.
"""

from collections.abc import Collection, Mapping
from functools import lru_cache
from heapq import nsmallest
from zlib import crc32

MAX_TARGETS = 16
"""The maximum number of peers that are contacted in a round."""

NEIGHBOURS = 8
"""The number of neighbours of a site in a large fog."""

_MAX_SUSPECTS = 4
_MAX_PLACES = 10_000
"""The number of sites whose places on the ring are remembered."""


def neighbours_of(own: str, sites: Collection[str]) -> list[str]:
    """Return the next sites after ``own`` on the ring; all sites if there are few.

    >>> neighbours_of("a", ["b", "c"])
    ['c', 'b']
    """
    begin = _place(own)
    return nsmallest(NEIGHBOURS, sites, lambda site: ((_place(site) - begin) % 2**32, site))


def select_targets(
    own: str, contacted: Mapping[str, int], suspects: Collection[str]
) -> frozenset[str]:
    """Return the sites to contact in the next round.

    ``contacted``: site -> the number of the round in which it was contacted last, for all peers.
    """
    if len(contacted) <= MAX_TARGETS:
        return frozenset(contacted)
    chosen = dict.fromkeys(neighbours_of(own, contacted))
    suspected = [site for site in suspects if site in contacted and site not in chosen]
    chosen |= dict.fromkeys(_oldest(suspected, contacted, _MAX_SUSPECTS))
    others = [site for site in contacted if site not in chosen]
    chosen |= dict.fromkeys(_oldest(others, contacted, MAX_TARGETS - len(chosen)))
    return frozenset(chosen)


def _oldest(sites: Collection[str], contacted: Mapping[str, int], count: int) -> list[str]:
    """Return the sites that were contacted least recently."""
    return nsmallest(count, sites, lambda site: (contacted[site], site))


def select_links(
    own: str, latencies: Mapping[str, float | None], published: Collection[str]
) -> frozenset[str]:
    """Return the sites whose direct links ``own`` publishes: the neighbours and the nearest sites.

    ``latencies``: site -> latency (ms) of its direct link; None: there is no direct link. A link
    that is ``published`` stays so while it is among twice as many nearest links, because latencies
    vary.
    """
    nearest = sorted((latency, site) for site, latency in latencies.items() if latency is not None)
    count = MAX_TARGETS - NEIGHBOURS
    near = [site for _, site in nearest[: 2 * count]]
    near.sort(key=lambda site: site not in published)
    return frozenset([*neighbours_of(own, latencies), *near[:count]])


@lru_cache(_MAX_PLACES)
def _place(site: str) -> int:
    return crc32(site.encode())
