"""Records, among the decisions of a merge, the changes of its sources at a handover."""

from collections.abc import Set

import pyarrow as pa

from analytics.plan.fragments import Fragment, Merge, Whole
from analytics_worker.lifecycle.runner_state import RunnerProgress
from analytics_worker.lifecycle.target_writer import TargetWriter, describe_insights
from analytics_worker.merge.decisions import (
    Forgotten,
    Left,
    Presence,
    SiteDecision,
    read_presence,
    row_of,
)
from mistbow.client.agent import AgentClient


class SourceChanges:
    """Records the changes of the sources of one runner's merges.

    A change begins before the handover to another fragment. It is settled when the query of the
    former fragment has stopped.
    """

    def __init__(self, agent: AgentClient, target: TargetWriter) -> None:
        self._agent = agent
        self._target = target
        self._until: int | None = None

    def begin(self, fragment: Fragment, until: int) -> None:
        """Begin the change to the sources of ``fragment``, and record which sites change.

        ``until``: the time (ms) up to which the query of the former fragment has written results.
        Call this method before the target describes ``fragment``, and before ``fragment`` is
        corrected.
        """
        self._until = until
        if isinstance(fragment, Merge):
            target = self._agent.at(fragment.target.site).info(fragment.target.stream)
            former_sites = set(target.attributes.get("sites", ()))
            self._record_removed(fragment, former_sites, until)
            if former_sites:
                self._record_new(fragment, former_sites, until)

    def reopen(self, until: int) -> None:
        """Let the next call of ``settle`` forget sites, although no other fragment takes over.

        A query that read these sites has begun, but its fragment is no longer needed. ``until``: as
        in ``begin``.
        """
        self._until = until

    def settle(self, progress: RunnerProgress) -> None:
        """Let the active query decide about its sites, and forget all other sites.

        Does nothing if another query of the runner runs, or if no change has begun since the last
        call that succeeded. A site that joins while the former query writes results, but does not
        read the site, would never be included in these results.
        """
        active, until = progress.active, self._until
        if active is None or progress.candidate is not None or until is None:
            return
        fragment = active.fragment
        if isinstance(fragment, Whole | Merge):
            decides = {"decides": fragment.fingerprint}
            self._target.advance(fragment, describe_insights(fragment) | decides)
        if isinstance(fragment, Merge):
            self._forget_others(fragment, until)
        self._until = None

    def _record_removed(self, merge: Merge, former_sites: Set[str], until: int) -> None:
        """Record that results up to ``until`` include former sources that ``merge`` lacks.

        The gap of such a site has no tick. It marks the last result with points of the site, also
        for the ticks in earlier gaps of the site, since these were corrected. An open gap is marked
        in the same way, and stays open: the query of the former fragment still runs.
        """
        removed_sites = former_sites - _sites_of(merge)
        presence = read_presence(self._agent, merge.decisions) if removed_sites else Presence()
        for site in sorted(removed_sites):
            gap = presence.last_gaps.get(site)
            if gap is None or (gap.until is not None and gap.until < until):
                self._append(merge, (until, site, Left()), (until, site, Forgotten()))
            elif gap.until is None:
                if presence.removed_after(site) != gap.after:
                    # Record a removal at the start of the gap, and open the gap again. The first
                    # row has an effect only if a query has let the site join since the presence
                    # was read. Then no gap is open, and the second row alone would do nothing.
                    removed = (gap.after, site, Left()), (gap.after, site, Forgotten())
                    self._append(merge, *removed, (gap.after, site, Left(gap.named_after)))
            elif not gap.is_removed:
                # The results in a gap that ends later lack the site, as do those in an open gap.
                self._append(merge, (gap.after, site, Left()), (gap.until, site, Forgotten()))

    def _record_new(self, merge: Merge, former_sites: Set[str], until: int) -> None:
        """Record that results up to ``until`` lack new sites that another worker has forgotten.

        The start of the query has recorded this too. Another fragment without these sites can take
        over in the meantime, on the former worker.
        """
        new_sites = _sites_of(merge) - former_sites
        presence = read_presence(self._agent, merge.decisions) if new_sites else Presence()
        for site in sorted(new_sites):
            gap = presence.last_gaps.get(site)
            if gap is not None and gap.is_removed:
                self._append(merge, (presence.removed_after(site), site, Left(until)))

    def _forget_others(self, merge: Merge, until: int) -> None:
        """Record that sites which ``merge`` does not read are not missing after ``until``.

        A site may have left after its removal, if a query that read the site began, but did not
        take over. Nevertheless, results lack the site since its removal.
        """
        presence = read_presence(self._agent, merge.decisions)
        for site, gap in presence.last_gaps.items():
            if site in _sites_of(merge) or gap.is_removed:
                continue
            decided: list[tuple[int, str, Left | Forgotten]] = []
            if gap.until is None:
                decided.append((until, site, Forgotten()))
            removed_after = presence.removed_after(site)
            if removed_after < gap.after:
                decided += [(removed_after, site, Left()), (removed_after, site, Forgotten())]
            if decided:
                self._append(merge, *decided)

    def _append(self, merge: Merge, *decided: tuple[int, str, Left | Forgotten]) -> None:
        """Append decisions at once, so that none is stored without the others."""
        location = merge.decisions
        epoch = self._target.leases.claim(merge)[location.stream]
        rows = pa.Table.from_batches([row_of(SiteDecision(*each)) for each in decided])
        self._agent.at(location.site).append(location.stream, rows, epoch=epoch)


def _sites_of(merge: Merge) -> set[str]:
    return {location.data_site for location in merge.sources}
