"""Records, among the decisions of a merge, the changes of its sources at a handover."""

from collections.abc import Iterable, Mapping, Set
from typing import Any

import pyarrow as pa

from analytics.plan.fragments import Fragment, Merge, Whole
from analytics_worker.late_data.corrector import POSITION_ATTRIBUTES
from analytics_worker.lifecycle.runner_state import RunnerProgress
from analytics_worker.lifecycle.target_writer import TargetWriter, describe_insights
from analytics_worker.merge.decisions import (
    Forgotten,
    Joined,
    Left,
    Presence,
    SiteDecision,
    from_rows,
    read_presence,
    row_of,
)
from mistbow.client.agent import AgentClient
from mistbow.errors import ConflictError

_Decided = tuple[int, str, Left | Joined | Forgotten]
_Ticks = tuple[int, int]
"""The ticks t with ``after < t <= until`` (ms), whose results lack a removed site."""


class SourceChanges:
    """Records the changes of the sources of one runner's merges.

    A change begins before the handover to another fragment. It is settled when the query of the
    former fragment has stopped.
    """

    def __init__(self, agent: AgentClient, target: TargetWriter) -> None:
        self._agent = agent
        self._target = target
        self._until = 0
        self._is_open = False
        self._former_sites: Set[str] = frozenset()

    def begin(self, fragment: Fragment, until: int) -> None:
        """Begin the change to the sources of ``fragment``, and record which sites change.

        ``until``: the time (ms) up to which the query of the former fragment has written results.
        Call this method before the target describes ``fragment``, and before ``fragment`` is
        corrected.
        """
        self._until, self._is_open = until, True
        if isinstance(fragment, Merge):
            target = self._agent.at(fragment.target.site).info(fragment.target.stream)
            former_sites = set(target.attributes.get("sites", ()))
            self._former_sites = former_sites
            self._record_removed(fragment, former_sites, until, target.attributes)
            if former_sites:
                self._record_new(fragment, former_sites, until)

    def reopen(self) -> None:
        """Let the next call of ``settle`` forget sites, although no other fragment takes over.

        A query that read these sites has begun, but its fragment is no longer needed.
        """
        self._is_open = True

    def settle(self, progress: RunnerProgress) -> None:
        """Let the active query decide about its sites, and forget all other sites.

        Does nothing if another query of the runner runs, or if no change has begun since the last
        call that succeeded. A site that joins while the former query writes results, but does not
        read the site, would never be included in these results.
        """
        active = progress.active
        if active is None or progress.candidate is not None or not self._is_open:
            return
        fragment = active.fragment
        if isinstance(fragment, Whole | Merge):
            decides = {"decides": fragment.fingerprint}
            self._target.advance(fragment, describe_insights(fragment) | decides)
        if isinstance(fragment, Merge):
            self._forget_others(fragment)
        self._is_open, self._former_sites = False, frozenset()

    def _record_removed(
        self, merge: Merge, former_sites: Set[str], until: int, attributes: Mapping[str, Any]
    ) -> None:
        """Record which results up to ``until`` include former sources that ``merge`` lacks.

        They include such a site, except in gaps that are not corrected yet: no later correction
        reads the site. An open gap stays open, since the query of the former fragment still runs.
        """
        removed_sites = former_sites - _sites_of(merge)
        presence = read_presence(self._agent, merge.decisions) if removed_sites else Presence()
        joins = self._uncorrected_joins(merge, attributes) if removed_sites else set()
        for site in sorted(removed_sites):
            gaps = [gap for gap in presence.gaps if gap.site == site]
            lacking: set[_Ticks] = {
                (gap.after, gap.until)
                for gap in gaps
                if gap.until is not None and gap.after < gap.until and (site, gap.until) in joins
            }
            open_gap = presence.open_gap(site)
            if open_gap is not None:
                lacking.add((open_gap.after, open_gap.after))
            elif max((end for _, end in lacking), default=0) < until:
                lacking.add((until, until))
            ended = [gap for gap in gaps if gap.until is not None]
            is_recorded = bool(ended) and ended[-1].is_removed
            new = lacking - (_recorded_removal(presence, site) if is_recorded else set())
            if open_gap is None:
                self._append(merge, *_removal(site, new))
            elif new:
                # Record a removal at the start of the gap, and open the gap again. The first row
                # has an effect only if a query has let the site join since the presence was read.
                # Then no gap is open, and the second row alone would do nothing.
                closed = (open_gap.after, site, Left()), (open_gap.after, site, Forgotten())
                again = (open_gap.after, site, Left(open_gap.named_after))
                self._append(merge, *closed, *_removal(site, new), again)

    def _uncorrected_joins(
        self, merge: Merge, attributes: Mapping[str, Any]
    ) -> set[tuple[str, int]]:
        """Return (site, time (ms)) of joins after gaps that may not be corrected yet.

        ``attributes``: the attributes of the target of ``merge``.
        """
        location, position = merge.decisions, attributes.get(POSITION_ATTRIBUTES[Merge], 0)
        site = self._agent.at(location.site)
        try:
            rows = site.read(location.stream, position)
        except ConflictError:
            # The site lost its store: its stream begins anew.
            rows = site.read(location.stream, 0)
        decided = from_rows(rows.table)
        return {(one.site, one.ts) for one in decided if isinstance(one.decision, Joined)}

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

    def _forget_others(self, merge: Merge) -> None:
        """Record that sites which ``merge`` does not read are not missing any more.

        A site may have left or joined in a query that began, but did not take over. Nevertheless,
        results lack the site since its removal.
        """
        presence = read_presence(self._agent, merge.decisions)
        for site, gap in presence.last_gaps.items():
            recorded = _recorded_removal(presence, site)
            if site in _sites_of(merge):
                if gap.is_removed:
                    # The fragment without the site has not taken over.
                    self._append(merge, (max(gap.after, 1), site, Left()), (0, site, Joined()))
            elif gap.is_removed:
                continue
            elif site not in self._former_sites:
                self._forget_unread(merge, site, presence)
            elif gap.until is None:
                self._append(merge, (self._until, site, Forgotten()))
            else:
                # The results in a gap that has just ended lack the site, as those in an open gap.
                self._append(merge, *_removal(site, recorded | {(gap.after, gap.until)}))

    def _forget_unread(self, merge: Merge, site: str, presence: Presence) -> None:
        """Forget a site whose points no stored result since its last removal includes."""
        gap, removed_after = presence.open_gap(site), presence.removed_after(site)
        if gap is not None and gap.after == removed_after:
            self._append(merge, (removed_after, site, Forgotten()))
            return
        former = _recorded_removal(presence, site) or {(removed_after, removed_after)}
        ended = () if gap is None else ((0, site, Joined()),)
        self._append(merge, *ended, *_removal(site, former))

    def _append(self, merge: Merge, *decided: _Decided) -> None:
        """Append decisions at once: a site that leaves here never stays away."""
        if not decided:
            return
        location = merge.decisions
        epoch = self._target.leases.claim(merge)[location.stream]
        rows = pa.Table.from_batches([row_of(SiteDecision(*each)) for each in decided])
        self._agent.at(location.site).append(location.stream, rows, epoch=epoch)


def _recorded_removal(presence: Presence, site: str) -> set[_Ticks]:
    return {(gap.after, gap.until) for gap in presence.removal(site) if gap.until is not None}


def _removal(site: str, lacking: Iterable[_Ticks]) -> list[_Decided]:
    """Return the decisions that record a removal; see ``Presence.removal``."""
    decided: list[_Decided] = []
    for after, until in sorted(lacking):
        decided += [(after, site, Left()), (until, site, Forgotten())]
    return decided


def _sites_of(merge: Merge) -> set[str]:
    return {location.data_site for location in merge.sources}
