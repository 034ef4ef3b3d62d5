"""What a replication policy decides from, and what it answers: frozen data only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from storage_agent.replication.filters import SeriesFilter, covers
from storage_agent.replication.restrictions import withheld
from storage_agent.replication.told import Copy, Rule


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
class View:
    """The fog as the site ``here`` sees it when it decides about its own points.

    ``load``: points a second that it takes; ``stored``: bytes that its points take. ``copies``:
    what there is already, with ``since`` in milliseconds, as ``now``; ``rules``: the restrictions.
    """

    now: int
    here: SiteView
    others: tuple[SiteView, ...] = ()
    reads: tuple[Read, ...] = ()
    load: float = 0.0
    stored: int = 0
    copies: tuple[Copy, ...] = ()
    rules: tuple[Rule, ...] = ()

    def may_have(self, site: SiteView, wanted: SeriesFilter) -> bool:
        """Tell whether restrictions leave anything of what is wanted to a site."""
        kept_back = withheld(self.rules, site.name, site.region)
        return not any(covers(each, wanted) for each in kept_back)


@dataclass(frozen=True, slots=True)
class Decision:
    """A copy of this site's points that ``target`` is to hold, and why, in words."""

    target: str
    filter: SeriesFilter
    why: str


class Policy(Protocol):
    """Decides which copies there are to be; pure: the same view, the same decisions."""

    def decide(self, view: View) -> tuple[Decision, ...]:
        """Return all copies; those that there are and that are not among them are dropped."""
        ...
