"""Records, among the decisions of a merge, the changes of its sources at a handover."""

from dataclasses import dataclass

import pyarrow as pa

from analytics.plan.fragments import Fragment, Merge
from analytics_worker.merge.decisions import (
    Forgotten,
    Joined,
    Left,
    SiteDecision,
    SiteGap,
    read_presence,
    row_of,
)
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock

_MAX_HANDOVER_MS = 5000
"""The time (ms) within which a handover usually stops the query of the former fragment."""


@dataclass(frozen=True, slots=True)
class SourceChanges:
    """The changes of the sources with which ``merge`` takes over.

    ``until``: the time (ms) up to which the query of the former fragment has written results.
    ``epoch``: the epoch for the decisions of ``merge``.
    """

    agent: AgentClient
    merge: Merge
    until: int
    epoch: int

    def record_removed(self) -> None:
        """Record that results up to ``until`` include former sources that ``merge`` lacks.

        The gap of such a site has no tick. It marks the last result with points of the site, also
        for the ticks in earlier gaps of the site, since these were corrected. Call this method
        before the target describes ``merge``, and before ``merge`` is corrected.
        """
        target = self.agent.at(self.merge.target.site).info(self.merge.target.stream)
        removed = set(target.attributes.get("sites", ())) - _sites_of(self.merge)
        gaps = self._last_gaps() if removed else {}
        for site in sorted(removed):
            gap = gaps.get(site)
            if gap is None or (gap.until is not None and gap.until < self.until):
                self._append((self.until, site, Left()), (self.until, site, Forgotten()))
            elif gap.until is not None and not gap.is_removed:
                # The results in a gap that ends later lack the site, as do those in an open gap.
                self._append((gap.after, site, Left()), (gap.until, site, Forgotten()))

    def forget_removed(self) -> None:
        """Record that sites which ``merge`` does not read are not missing after ``until``.

        Call this method when the query of the former fragment no longer decides: it would wait for
        these sites, and decide again that they leave.
        """
        for gap in read_presence(self.agent, self.merge.decisions).open_gaps():
            if gap.site not in _sites_of(self.merge):
                self._append((self.until, gap.site, Forgotten()))

    def record_joined(self, former: Fragment) -> None:
        """Record that sites which ``merge`` reads, but ``former`` does not, were missing up to the
        end of the handover.

        During the handover, the queries of both fragments write results. Readers use the row that
        was written first, even if the query of ``former`` wrote the row without these sites. Call
        this method before the target describes ``merge``: the handover is repeated if the site with
        the decisions does not answer.
        """
        grain = self.merge.grain_ms
        # The query of ``former`` may go on up to the clock until it is stopped.
        until = max(self.until, (system_clock() + _MAX_HANDOVER_MS) // grain * grain)
        new = _sites_of(self.merge) - _sites_of(former)
        gaps = self._last_gaps() if new else {}
        for site in sorted(new):
            gap = gaps.get(site)
            if gap is not None and gap.until is not None and gap.until < until:
                self._append((gap.until, site, Left()), (until, site, Joined()))

    def _last_gaps(self) -> dict[str, SiteGap]:
        return read_presence(self.agent, self.merge.decisions).last_gaps

    def _append(self, *decided: tuple[int, str, Left | Joined | Forgotten]) -> None:
        """Append decisions at once: a site that leaves here never stays away."""
        rows = pa.Table.from_batches([row_of(SiteDecision(*each)) for each in decided])
        decisions = self.agent.at(self.merge.decisions.site)
        decisions.append(self.merge.decisions.stream, rows, epoch=self.epoch)


def _sites_of(fragment: Fragment) -> set[str]:
    return {location.data_site for location in fragment.sources}
