"""The last gaps of the sites of a merge: they decide which sites a recomputed tick includes."""

from collections.abc import Iterator
from dataclasses import dataclass

from analytics.plan.fragments import Merge, Whole
from analytics_worker.merge.decisions import SiteGap, read_presence
from mistbow.client.agent import AgentClient


@dataclass(frozen=True, slots=True)
class LastGaps:
    """The open gaps of the sources of a merge, and the gaps of removed sites.

    Earlier gaps of sources have ended because their site joined again, so their ticks are
    corrected. Stored results lack a source in its open gap. The rows of a removed site cannot be
    read again; ``Presence.removal`` tells which results include them.
    """

    gaps: tuple[SiteGap, ...] = ()

    @property
    def bounds(self) -> Iterator[int]:
        """Yield the times (ms) after which another set of sites is absent or removed."""
        for gap in self.gaps:
            yield gap.after
            if gap.until is not None:
                yield gap.until

    def absent(self, tick: int) -> frozenset[str]:
        """Return the names of the sites that a result at a tick (ms) lacks, and is to lack.

        Corrections do not wait for these sites, since a site may never return.
        """
        return frozenset(gap.site for gap in self.gaps if gap.contains(tick))

    @property
    def removed_until(self) -> int:
        """The time (ms) up to which results include rows of removed sites; -1: no results do."""
        return max((gap.after for gap in self.gaps if gap.until is not None), default=-1)

    def removed(self, tick: int) -> frozenset[str]:
        """Return the names of the removed sites whose rows a result at a tick (ms) includes."""
        return self.removed_since(tick) - self.absent(tick)

    def removed_since(self, tick: int) -> frozenset[str]:
        """Return the names of the removed sites whose rows results at or after a tick (ms)
        include.
        """
        return frozenset(
            gap.site for gap in self.gaps if gap.until is not None and tick <= gap.after
        )


def read_last_gaps(agent: AgentClient, fragment: Whole | Merge) -> LastGaps:
    """Return the last gaps of the sites of a merge; a whole fragment has none."""
    if isinstance(fragment, Whole):
        return LastGaps()
    presence = read_presence(agent, fragment.decisions)
    sources = {location.data_site for location in fragment.sources}
    # Another site may have an open gap too: a query with this site has begun, but may never take
    # over.
    of_sources = [gap for gap in presence.open_gaps() if gap.site in sources]
    others = sorted(presence.last_gaps.keys() - sources)
    return LastGaps((*of_sources, *(gap for site in others for gap in presence.removal(site))))
