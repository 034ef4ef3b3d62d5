"""What a replication policy decides from, and what it answers: frozen data only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mistbow.streams.schemas import RAW
from storage_agent.replication.filters import SeriesFilter, covers, may_overlap
from storage_agent.replication.restrictions import withheld
from storage_agent.replication.told import Copy, Rule

LEAST_AGE_MS = 300_000
"""No copy that was decided is given up sooner."""


@dataclass(frozen=True, slots=True)
class SiteView:
    """A site, this one or another.

    ``stability``: from 0 to 1. ``latency_ms``: straight from this site, and ``usual_ms`` the least
    that it lately was; None where there is no straight link. ``losses``: how often the link was
    lost lately, fading. ``room``: bytes free on its disk, None if it did not say.
    """

    name: str
    region: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    reachable: bool = True
    stability: float = 1.0
    latency_ms: float | None = None
    usual_ms: float | None = None
    losses: float = 0.0
    room: int | None = None
    load: float = 0.0
    workers: int = 0


@dataclass(frozen=True, slots=True)
class Read:
    """How often a minute a site reads what of this site's points."""

    by: str
    filter: SeriesFilter
    per_minute: float


@dataclass(frozen=True, slots=True)
class Insight:
    """Which of this site's points an insight reads, and the site whose worker runs it."""

    id: str
    site: str
    filter: SeriesFilter


@dataclass(frozen=True, slots=True)
class View:
    """The fog as the site ``here`` sees it when it decides about its own points.

    ``load``: points a second that it takes; ``busy``: for which part of its time its agent works.
    ``stored``: bytes that its points take, ``taken`` that all streams take, of ``most`` that they
    may, if that is bounded. ``workerless_ms``: how long there has been no worker here. ``copies``:
    what there is already, with ``since`` in milliseconds, as ``now``; ``rules``: the restrictions.
    ``records``: the streams of what it keeps by key.
    """

    now: int
    here: SiteView
    others: tuple[SiteView, ...] = ()
    reads: tuple[Read, ...] = ()
    insights: tuple[Insight, ...] = ()
    load: float = 0.0
    busy: float = 0.0
    stored: int = 0
    taken: int = 0
    most: int | None = None
    workerless_ms: int = 0
    copies: tuple[Copy, ...] = ()
    rules: tuple[Rule, ...] = ()
    records: tuple[str, ...] = ()

    def may_have(self, site: SiteView, wanted: SeriesFilter) -> bool:
        """Tell whether restrictions leave anything of what is wanted to a site."""
        kept_back = withheld(self.rules, site.name, site.region)
        return not any(covers(each, wanted) for each in kept_back)

    def may_have_all(self, site: SiteView, wanted: SeriesFilter) -> bool:
        """Tell whether restrictions leave all of what is wanted to a site, as moving needs it."""
        kept_back = withheld(self.rules, site.name, site.region)
        return not any(may_overlap(each, wanted) for each in kept_back)

    def decided(self, cause: str, target: str | None = None) -> list[Copy]:
        """Return the copies that were decided for a cause, for one site or all."""
        return [
            copy
            for copy in self.copies
            if copy.cause == cause and not copy.manual and target in (None, copy.target)
        ]

    @property
    def fullness(self) -> float:
        """Which part of the room that it may have, and that its disk has, this site takes."""
        there = [] if self.here.room is None else [self.taken + self.here.room]
        bounds = there if self.most is None else [*there, self.most]
        return self.taken / max(1, min(bounds)) if bounds else 0.0


@dataclass(frozen=True, slots=True)
class Decision:
    """A copy of this site's points that ``target`` is to hold, and why, in words.

    ``cause`` names what the policy went by, so that it knows its copies again. ``move``: what the
    target has is to be forgotten here once it is old enough. ``stream``: one of records instead of
    points, of which only ``EVERYTHING`` can be copied.
    """

    target: str
    filter: SeriesFilter
    why: str
    cause: str = ""
    move: bool = False
    stream: str = RAW


class Policy(Protocol):
    """Decides which copies there are to be; pure: the same view, the same decisions."""

    def decide(self, view: View) -> tuple[Decision, ...]:
        """Return all copies; those that there are and that are not among them are dropped."""
        ...
