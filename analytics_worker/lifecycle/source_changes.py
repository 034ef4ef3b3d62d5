"""Records, among the decisions of a merge, the changes of its sources at a handover."""

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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
from analytics_worker.merge.site_gaps import (
    NEVER,
    SiteGap,
    gap_of_former_source,
    is_provisional,
    removal,
    removed_gap,
    uncertain_of_new_source,
    with_certain_end,
)
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.errors import ConflictError


class SourceChanges:
    """Records the changes of the sources of one runner's merges.

    A change begins before the handover to another fragment. It is settled when the query of the
    former fragment has stopped.
    """

    def __init__(
        self, agent: AgentClient, target: TargetWriter, clock: Callable[[], int] = system_clock
    ) -> None:
        self._agent = agent
        self._target = target
        self._clock = clock
        self._until: int | None = None
        self._late_stops: dict[str, int] = {}
        """Site -> the time (ms) after which queries that stopped late may have written its points.

        Such a query has written results after a call of ``settle``.
        """

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
            self._record_removed(fragment, former_sites, until, target.attributes)
            if former_sites:
                self._record_new(fragment, former_sites, until)

    def reopen(self, until: int) -> None:
        """Let the next call of ``settle`` forget sites, although no other fragment takes over.

        A query that read these sites has begun, but its fragment is no longer needed. ``until``: as
        in ``begin``.
        """
        self._until = until

    def note_late_stop(self, fragment: Fragment, frontier: int) -> None:
        """Let the next call of ``settle`` bound the results of a query that has stopped late.

        The stop of the query of ``fragment`` had raised an error. ``frontier``: the frontier (ms)
        of the query at that time. Since then, the query may have written results, and decisions
        about its sites, after a call of ``settle``.
        """
        if isinstance(fragment, Merge):
            self._until = frontier if self._until is None else self._until
            for site in fragment.sites:
                self._late_stops[site] = min(frontier, self._late_stops.get(site, frontier))

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
        self._late_stops.clear()

    def _record_removed(
        self, merge: Merge, former_sites: Set[str], until: int, attributes: Mapping[str, Any]
    ) -> None:
        """Record that former sources which ``merge`` does not read are removed at ``until``.

        The query of the former fragment still runs, so later results are uncertain, and an open gap
        stays open. ``attributes``: the attributes of the target.
        """
        removed_sites = former_sites - merge.sites
        if not removed_sites:
            return
        presence = read_presence(self._agent, merge.decisions)
        # In this order: a join that is decided just now counts as uncorrected.
        joins = self._uncorrected_joins(merge, attributes)
        for site in sorted(removed_sites):
            gaps, gap = presence.gaps_of(site), presence.open_gap(site)
            recorded = next((each for each in reversed(gaps) if each.is_removed), None)
            is_last = recorded is not None and gaps[-1] in (recorded, gap)
            if is_last and recorded is not None and (recorded.until or 0) >= until:
                continue
            removed = removal(gaps, site, until, lambda each: (each.site, each.until) not in joins)
            decided: list[SiteDecision] = [*_decisions_of(removed)]
            if gap is not None:
                decided.append(SiteDecision(gap.after, site, Left(until)))
            self._append(merge, *decided)

    def _uncorrected_joins(
        self, merge: Merge, attributes: Mapping[str, Any]
    ) -> set[tuple[str, int | None]]:
        """Return (site, time (ms)) of the joins whose corrections may not have ended.

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
        over in the meantime, on the former worker. Since then, no site was missing for the query,
        so its results may include the sites.
        """
        new_sites = merge.sites - former_sites
        presence = read_presence(self._agent, merge.decisions) if new_sites else Presence()
        for site in sorted(new_sites):
            gap = presence.last_gaps.get(site)
            if gap is not None and gap.is_removed:
                # The query may write further results until it reads this decision.
                end = max(self._clock(), self._last_result(merge, until))
                written = (gap.until or 0) - 1, end
                uncertain = uncertain_of_new_source(presence.gaps_of(site), end, [written])
                self._append(merge, SiteDecision(gap.after, site, Left(until, uncertain)))

    def _forget_others(self, merge: Merge, until: int) -> None:
        """Record that sites which ``merge`` does not read are no sources after ``until``.

        A site may have joined and left a query that did not take over. Nevertheless, results lack
        the site since its removal, except those that this query may have written.
        """
        presence = read_presence(self._agent, merge.decisions)
        others = presence.last_gaps.keys() - merge.sites
        removed = [(site, self._removed_gap(presence, site)) for site in sorted(others)]
        changed = [
            gap for site, gap in removed if gap != presence.last_gaps[site] or is_provisional(gap)
        ]
        end = self._last_result(merge, until) if changed else until
        for gap in changed:
            last = max(until, gap.after, gap.until or 0)
            at_end = replace(with_certain_end(gap, end), until=last)
            missing = presence.open_gap(gap.site)
            self._append(merge, *_end_of_other_gap(missing, at_end), *_decisions_of(at_end))

    def _removed_gap(self, presence: Presence, site: str) -> SiteGap:
        """Return the gap of a site that is no source, with the results of a late stop."""
        gap = gap_of_former_source(presence.gaps_of(site))
        if (since := self._late_stops.get(site)) is None:
            return gap
        return removed_gap(
            site, gap.after, gap.until or 0, (*gap.uncertain, (since, NEVER)), gap.named
        )

    def _last_result(self, merge: Merge, until: int) -> int:
        """Return the time (ms) of the last stored result, or ``until`` if this time is later."""
        site, stream = self._agent.at(merge.target.site), merge.target.stream
        start = site.seek(stream, until)
        rows = site.read(stream, start, columns=["ts"], min_ts=until).table
        return max(until, pc.max(rows["ts"]).as_py() or 0)

    def _append(self, merge: Merge, *decided: SiteDecision) -> None:
        """Append decisions at once, so that none is stored without the others."""
        location = merge.decisions
        epoch = self._target.leases.claim(merge)[location.stream]
        rows = pa.Table.from_batches([row_of(each) for each in decided])
        self._agent.at(location.site).append(location.stream, rows, epoch=epoch)


def _end_of_other_gap(missing: SiteGap | None, removed: SiteGap) -> Iterator[SiteDecision]:
    """Yield the decision that ends an open gap with other ticks or names than those of a removal.

    Otherwise, a worker of a former version would take the open gap for that of the removal.
    """
    if missing is None:
        return
    if (missing.after, missing.named_after) != (removed.after, _named_after(removed)):
        yield SiteDecision(removed.after, removed.site, Forgotten())


def _named_after(removed: SiteGap) -> int | None:
    """Return the time (ms) after which results name a removed site, as in ``Left``."""
    until = removed.until or 0
    first = removed.named[0][0] if removed.named else until
    return None if first <= removed.after else first


def _decisions_of(removed: SiteGap) -> Iterator[SiteDecision]:
    """Yield the decisions that record the gap of a removal.

    A worker of a former version reads only the times of the second decision. There, it ends the gap
    that the first decision has begun, unless the site has an open gap already.
    """
    gap, until = removed, removed.until or 0
    yield SiteDecision(gap.after, gap.site, Left(_named_after(gap)))
    yield SiteDecision(until, gap.site, Forgotten(gap.after, gap.uncertain, gap.named))
