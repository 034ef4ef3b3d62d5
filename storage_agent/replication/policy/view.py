"""The interface of replication policies: their input (a view) and their decisions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mistbow.client.operation_model import Copy, ReadRate, Restriction, SeriesFilter
from mistbow.streams.schemas import RAW
from storage_agent.replication.filters import covers, may_overlap
from storage_agent.replication.restrictions import withheld_from

MIN_AGE_MS = 300_000
"""The age (ms) below which a copy remains although its cause has ended."""


@dataclass(frozen=True, slots=True)
class SiteView:
    """The properties of one site that a policy can read.

    ``stability``: from 0 to 1. ``latency_ms``: the latency of the direct link from this site; None
    without a direct link. ``usual_latency_ms``: the recent minimum of this latency; None if not
    measured. ``losses``: how often the link was lost, as a decaying count. ``free_bytes``: the free
    disk space; None if the site has published no value. ``load``: the points that the site stores
    per second. ``workers``: the number of workers.
    """

    name: str
    region: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    reachable: bool = True
    stability: float = 1.0
    latency_ms: float | None = None
    usual_latency_ms: float | None = None
    losses: float = 0.0
    free_bytes: int | None = None
    load: float = 0.0
    workers: int = 0


@dataclass(frozen=True, slots=True)
class InsightRead:
    """The series of this site that an insight reads, as a filter.

    ``id``: the holder of the retention lease of the insight. ``site``: the site of the insight's
    worker.
    """

    id: str
    site: str
    filter: SeriesFilter


@dataclass(frozen=True, slots=True)
class View:
    """The input of a policy: the fabric and the reads, as seen from the site ``here``.

    ``load``: the points that ``here`` stores per second. ``busy``: the share of the time, from 0 to
    1, for which its agent uses the CPU. ``stored_bytes``: the size of its points. ``used_bytes``:
    the size of all its streams. ``max_bytes``: the bound of ``used_bytes``; None if unbounded.
    ``workerless_ms``: the time since ``here`` last had a worker. ``copies``: the present copies of
    its streams. ``record_streams``: the names of its streams of records.
    """

    now: int
    here: SiteView
    others: tuple[SiteView, ...] = ()
    reads: tuple[ReadRate, ...] = ()
    insights: tuple[InsightRead, ...] = ()
    load: float = 0.0
    busy: float = 0.0
    stored_bytes: int = 0
    used_bytes: int = 0
    max_bytes: int | None = None
    workerless_ms: int = 0
    copies: tuple[Copy, ...] = ()
    restrictions: tuple[Restriction, ...] = ()
    record_streams: tuple[str, ...] = ()

    def may_receive_some(self, site: SiteView, series_filter: SeriesFilter) -> bool:
        """Return whether restrictions allow a site to receive some series that match a filter."""
        withheld = withheld_from(self.restrictions, site.name, site.region)
        return not any(covers(each, series_filter) for each in withheld)

    def may_receive_all(self, site: SiteView, series_filter: SeriesFilter) -> bool:
        """Return whether restrictions allow a site to receive all series that match a filter."""
        withheld = withheld_from(self.restrictions, site.name, site.region)
        return not any(may_overlap(each, series_filter) for each in withheld)

    def decided(self, cause: str, target: str | None = None) -> list[Copy]:
        """Return the copies that the policy decided because of ``cause``.

        ``target``: the site whose copies are selected; None: the copies at all sites are selected.
        """
        return [
            copy
            for copy in self.copies
            if copy.cause == cause and not copy.manual and target in (None, copy.target)
        ]

    @property
    def fullness(self) -> float:
        """The share of the available space that the streams of this site use.

        The share is 0 if the available space is unknown. The available space is bounded by
        ``max_bytes`` and by the free space of the disk.
        """
        bounds = []
        if self.here.free_bytes is not None:
            bounds.append(self.used_bytes + self.here.free_bytes)
        if self.max_bytes is not None:
            bounds.append(self.max_bytes)
        return self.used_bytes / max(1, min(bounds)) if bounds else 0.0


@dataclass(frozen=True, slots=True)
class CopyDecision:
    """A copy of one of this site's streams that ``target`` must store.

    ``why``: the reason, as a message. ``cause``: the name by which the policy recognizes its
    copies. ``offload``: whether old points are deleted at this site once the target has stored
    them. ``stream``: ``raw`` or a stream of records; ``filter`` must be ``EVERYTHING`` for a stream
    of records.
    """

    target: str
    filter: SeriesFilter
    why: str
    cause: str = ""
    offload: bool = False
    stream: str = RAW


class Policy(Protocol):
    """A replication policy: decides which copies exist.

    ``decide`` must be a pure function of the view.
    """

    def decide(self, view: View) -> tuple[CopyDecision, ...]:
        """Return all copies that must exist.

        The copies of earlier decisions that are not returned again are withdrawn.
        """
        ...
