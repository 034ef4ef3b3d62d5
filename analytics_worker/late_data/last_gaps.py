"""The last gap of each site of a merge: it decides which sites a recomputed tick includes."""

from collections.abc import Iterator
from dataclasses import dataclass

from analytics.plan.fragments import Merge, Whole
from analytics_worker.merge.decisions import SiteGap, read_presence
from mistbow.client.agent import AgentClient


@dataclass(frozen=True, slots=True)
class LastGaps:
    """The last gap of each site whose gap is open, or that is no longer a source.

    Earlier gaps have ended because their site joined again, so their ticks are corrected. Stored
    results lack a site in its last gap. A removed site is no longer a source: its last gap has
    ended, and its rows cannot be read again.
    """

    gaps: tuple[SiteGap, ...] = ()

    @property
    def bounds(self) -> Iterator[int]:
        """Yield the times (ms) after which another set of sites is absent, named or removed."""
        for gap in self.gaps:
            yield gap.after
            if gap.named_after is not None:
                yield gap.named_after
            if gap.until is not None:
                yield gap.until

    def absent(self, tick: int) -> frozenset[str]:
        """Return the names of the sites that a result at a tick (ms) lacks, and is to lack.

        Corrections do not wait for these sites, since a site may never return.
        """
        return frozenset(gap.site for gap in self.gaps if gap.contains(tick))

    def named(self, tick: int) -> frozenset[str]:
        """Return the names of the absent sites that a result at a tick (ms) names as missing."""
        return frozenset(gap.site for gap in self.gaps if gap.is_named(tick))

    @property
    def removed_until(self) -> int:
        """The time (ms) up to which results include rows of removed sites; -1: no results do."""
        return max((gap.after for gap in self.gaps if gap.until is not None), default=-1)

    def removed(self, tick: int) -> frozenset[str]:
        """Return the names of the removed sites whose rows a result at a tick (ms) includes."""
        return frozenset(
            gap.site for gap in self.gaps if gap.until is not None and tick <= gap.after
        )


def read_last_gaps(agent: AgentClient, fragment: Whole | Merge) -> LastGaps:
    """Return the last gaps of the sites of a merge; a whole fragment has none."""
    if isinstance(fragment, Whole):
        return LastGaps()
    sources = {location.data_site for location in fragment.sources}
    gaps = read_presence(agent, fragment.decisions).last_gaps
    return LastGaps(
        tuple(gap for gap in gaps.values() if gap.until is None or gap.site not in sources)
    )
