"""The corrector of a fragment, which recomputes the results that late data change."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.plan.fragments import Merge, Whole
from analytics.plan.resumption import resume, subplan
from analytics.plan.target_attributes import TargetAttributes
from analytics_worker.evaluate.results import append_results
from analytics_worker.late_data.differences import differences
from analytics_worker.late_data.last_gaps import point_streams, read_last_gaps
from analytics_worker.late_data.late_panes import LatePaneScanner
from analytics_worker.late_data.late_points import LatePointScanner
from analytics_worker.late_data.recomputation import RecomputableTicks, Recomputation
from analytics_worker.late_data.silent_sites import SilentSites
from analytics_worker.late_data.stateful_insights import StatefulInsights
from analytics_worker.late_data.stored_results import (
    naming_changes,
    spans_that_name,
    split_unanswered,
    with_missing_sites,
    within,
)
from analytics_worker.late_data.tick_spans import (
    TickSpan,
    cluster_spans,
    merge_spans_of_insights,
    split_after,
    split_by_rows,
)
from analytics_worker.late_data.unanswered_ticks import UnansweredTicks
from analytics_worker.merge.site_gaps import LastGaps
from analytics_worker.stateful.state_stream import StateAccess
from analytics_worker.streaming_library import StreamingLibrary
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.errors import UnavailableError
from mistbow.streams.results import current_results
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_NO_ROW = 2**62
_POSITION_STEP = 1_000_000
"""The number of scanned rows after which the position is stored even if no row was late, so that no
later scan repeats these rows.
"""

_MAX_ROWS = 100_000
"""The greatest number of results that are corrected at once, so that they fit into memory."""


class LateDataScanner(Protocol):
    """Scans a stream for late data, in ascending order of positions.

    ``next``: the position at which the next scan begins. ``due``: insight uid -> the ticks that
    scanned, unprocessed rows affect.
    """

    next: int
    due: dict[str, list[TickSpan]]

    @property
    def corrected_until(self) -> int:
        """All rows that arrived before the frontier reached this time (ms) are processed."""
        ...

    @property
    def processed_to(self) -> int:
        """The position before which all rows are processed: no later position is stored."""
        ...

    @property
    def is_behind(self) -> bool:
        """Whether the stream has rows that the present scan does not reach."""
        ...

    def scan(self, frontier: int) -> tuple[dict[str, list[TickSpan]], int] | None:
        """Return (insight uid -> the ticks that late data affect, the position after the scanned
        rows).

        Return None if there is nothing to scan yet. ``frontier``: the time (ms) up to which results
        are complete.
        """
        ...

    def move_to(self, position: int) -> None:
        """Continue the scan at a position, after the ticks that the last scan returned are
        corrected.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class _CorrectionTask:
    """The fragment whose results are corrected, and the scanner that finds the affected ticks.

    ``epoch``: the epoch for the fragment's target. ``access``: the access to the states of the
    fragment's accumulators; None: the fragment has no accumulators. ``decisions_epoch``: the epoch
    for the decisions of a merge.
    """

    fragment: Whole | Merge
    epoch: int
    scanner: LateDataScanner
    access: StateAccess | None
    decisions_epoch: int


@dataclass(frozen=True, slots=True)
class _WaitingTicks:
    """Ticks of a merge whose correction waits for a site that does not answer.

    The site had not left at these ticks, so their results include it. ``spans``: insight uid -> the
    ticks. ``position``: the position of the first decision that affects them; no later position is
    stored. ``corrected_until``: as in ``LateDataScanner``, before this decision.
    """

    spans: Mapping[str, list[TickSpan]]
    position: int
    corrected_until: int


_NONE_WAIT = _WaitingTicks({}, _NO_ROW, _NO_ROW)


class Corrector:
    """Corrects the results of one fragment, a part at each call of ``step``."""

    def __init__(self, library: StreamingLibrary, agent: AgentClient) -> None:
        self._agent = agent
        self._recomputation = Recomputation(library, agent)
        self._lock = threading.Lock()
        self._storing = threading.Lock()
        """Held while a position is stored, and while another fragment begins: for requests."""
        self._task: _CorrectionTask | None = None
        self._former: LatePointScanner | None = None
        self._waiting = _NONE_WAIT
        self._provisional: frozenset[str] = frozenset()
        self._stored_position = 0
        self._stopping = threading.Event()
        self._correcting: Mapping[str, int] = {}
        self._ticks_due: Mapping[str, int] = {}

    @property
    def correcting(self) -> Mapping[str, int]:
        """Insight uid -> the time (ms) since which results of the insight lack late data.

        All late data that has arrived is processed when it is empty.
        """
        return self._correcting

    @property
    def ticks_due(self) -> Mapping[str, int]:
        """Insight uid -> the number of ticks whose results lack late data."""
        return self._ticks_due

    @property
    def corrected_until(self) -> int:
        """Results include all rows that arrived before the frontier reached this time (ms).

        The frontier is the frontier of the stream of the points. Results may still lack rows of
        ``missing_sites``.
        """
        with self._lock:
            return min(self._searched_until(), self._waiting.corrected_until)

    @property
    def searched_until(self) -> int:
        """As ``corrected_until``, but ticks that wait for a silent site do not count."""
        with self._lock:
            return self._searched_until()

    def _searched_until(self) -> int:
        if self._task is None or self._former is not None:
            return 0
        return self._task.scanner.corrected_until

    @property
    def missing_sites(self) -> dict[str, int]:
        """Site -> the time (ms) after which results are computed without this site."""
        task = self._task
        if task is None or not isinstance(task.scanner, LatePaneScanner):
            return {}
        sites, gaps = task.scanner.fragment.sites, task.scanner.presence.open_gaps()
        return {gap.site: gap.after for gap in gaps if gap.site in sites}

    def begin(
        self,
        fragment: Whole | Merge,
        epoch: int,
        decided: int = 0,
        access: StateAccess | None = None,
        decisions_epoch: int = 0,
    ) -> TargetAttributes:
        """Start to correct the results of ``fragment``, from the position stored in the fragment's
        target.

        ``decided``: the position in the stream of decisions at which the decisions of the merge's
        own query begin. ``access``: the access to the states of the fragment's accumulators.
        ``decisions_epoch``: the epoch for the decisions of a merge. Unfinished corrections of the
        previous fragment are completed. Return the attributes that store the position in the
        target.
        """
        target = self._agent.at(fragment.target.site)
        attributes = TargetAttributes.of(target.info(fragment.target.stream))
        with self._storing:
            scanner: LateDataScanner
            if isinstance(fragment, Merge):
                position = min(attributes.decided or 0, decided)
                scanner = LatePaneScanner(self._agent, fragment, position)
            else:
                position = self._first_uncorrected(fragment, attributes)
                scanner = LatePointScanner(self._agent, fragment, position)
            former = None if self._task is None else self._task.scanner
            if isinstance(former, type(scanner)):
                scanner.next = min(scanner.next, former.next)
            elif isinstance(former, LatePointScanner):
                # It still finds the rows up to now; the ticks are computed over all sites.
                former.end_at_head()
                self._former = None if former.is_finished else former
            with self._lock:
                # The new scanner begins at the stored position, which is not after theirs.
                self._waiting, self._provisional = _NONE_WAIT, frozenset()
                self._task = _CorrectionTask(fragment, epoch, scanner, access, decisions_epoch)
        return _position_of(fragment, scanner.next)

    def step(self, frontier: int, *, may_compute: bool = True) -> bool:
        """Correct the results at those affected ticks that are complete.

        Return whether any affected ticks were processed. ``frontier``: the time (ms) up to which
        results are complete. ``may_compute``: whether results may be computed now; otherwise, late
        data is only searched for, and reported as due.
        """
        task = self._task
        if task is None:
            return False
        former = self._former
        if former is None:
            return self._scan_and_correct(task, task.scanner, frontier, may_compute=may_compute)
        corrected = self._scan_and_correct(task, former, frontier, may_compute=may_compute)
        if former.is_finished:
            self._former = None
        return corrected

    def stop(self) -> None:
        """Stop ``step`` after the present batch.

        The next corrector of the fragment completes the corrections.
        """
        self._stopping.set()

    def _scan_and_correct(
        self,
        task: _CorrectionTask,
        scanner: LateDataScanner,
        frontier: int,
        *,
        may_compute: bool,
    ) -> bool:
        # Between two multiples of its grain there is no tick to wait for.
        grain = task.fragment.grain_ms
        found = scanner.scan(frontier // grain * grain + grain - 1)
        waiting = self._waiting if scanner is task.scanner else _NONE_WAIT
        self._report(task, merge_spans_of_insights(scanner.due, waiting.spans))
        if found is None and not waiting.spans:
            return False
        touched, position = found or ({}, scanner.next)
        # A scanner of the former fragment may find insights that this one does not have.
        uids = {insight.uid for insight in task.fragment.plan.insights}
        due = merge_spans_of_insights(touched, waiting.spans)
        spans = {uid: each for uid, each in due.items() if uid in uids}
        if spans and not may_compute:
            return False
        is_behind = scanner.is_behind
        gaps = read_last_gaps(self._agent, task.fragment)
        if spans and self._is_too_early(spans, gaps):
            return False
        # Only the stored position of a merge can wait for a site.
        may_wait = scanner is task.scanner and isinstance(task.fragment, Merge)
        unanswered = UnansweredTicks(may_wait)
        spans = self._correct_states(task, spans, gaps, frontier, unanswered)
        if not self._correct_spans(task, spans, gaps, unanswered):
            return False
        if unanswered.reason is not None and not waiting.spans:
            insights = sorted(unanswered.spans)
            log.warning("correction_waits", insights=insights, reason=unanswered.reason)
        with self._storing:
            if scanner is not task.scanner:
                scanner.move_to(position)
            elif task is self._task:  # else another fragment has begun, at an earlier position
                with self._lock:
                    self._waiting = waiting = _still_waiting(waiting, unanswered.spans, scanner)
                    scanner.move_to(position)
                to_store = min(scanner.processed_to, waiting.position)
                is_far = to_store >= self._stored_position + _POSITION_STEP
                if spans or isinstance(task.fragment, Merge) or is_far:
                    self._store_position(task, to_store)
                if isinstance(scanner, LatePaneScanner) and to_store == scanner.head:
                    scanner.store_checkpoint(task.decisions_epoch)
        if not is_behind:
            self._report(task, merge_spans_of_insights(scanner.due, waiting.spans))
        return bool(spans or unanswered.spans)

    def _is_too_early(self, spans: Mapping[str, list[TickSpan]], gaps: LastGaps) -> bool:
        """Return whether a query may still write results with points of removed sites."""
        sites, before = gaps.provisional, self._provisional
        if sites and sites != before:
            reason = f"the handover that removes {', '.join(sorted(sites))} has not ended"
            log.warning("correction_waits", insights=sorted(spans), reason=reason)
        self._provisional = sites
        return bool(sites)

    def _correct_spans(
        self,
        task: _CorrectionTask,
        spans: Mapping[str, list[TickSpan]],
        gaps: LastGaps,
        unanswered: UnansweredTicks,
    ) -> bool:
        """Correct the results at ticks; return False if this corrector is to stop.

        Ticks for which a site does not answer are added to ``unanswered``.
        """
        plan = task.fragment.plan
        for cluster in cluster_spans(spans, plan):
            for part in split_after(cluster, plan, gaps.bounds):
                try:
                    for ticks in self._readable_ticks(task, part, gaps, unanswered.silent):
                        if self._stopping.is_set():
                            return False
                        self._correct(task, ticks, unanswered.silent)
                except UnavailableError as error:
                    unanswered.add({uid: [span] for uid, span in part.items()}, error)
        return True

    def _readable_ticks(
        self,
        task: _CorrectionTask,
        spans: Mapping[str, TickSpan],
        gaps: LastGaps,
        silent: SilentSites,
    ) -> Iterator[RecomputableTicks]:
        """Yield the ticks that can be recomputed, in parts whose results fit into memory."""
        for part in self._split_by_rows(task, spans):
            for ticks, of_ticks in self._certain_gaps(task, part, gaps):
                yield from self._recomputation.split(task.fragment, ticks, of_ticks, silent)

    def _certain_gaps(
        self, task: _CorrectionTask, spans: Mapping[str, TickSpan], gaps: LastGaps
    ) -> Iterator[tuple[Mapping[str, TickSpan], LastGaps]]:
        """Yield the ticks whose results certainly lack the sites of their gaps, and these gaps.

        Uncertain results lack the removed sites that they name.
        """
        sites = gaps.uncertain(min(span.first for span in spans.values()))
        if not sites:
            yield spans, gaps
            return
        stored = current_results(self._stored(task, spans))
        for part in split_after(spans, task.fragment.plan, naming_changes(stored, sites)):
            first = min(span.first for span in part.values())
            if named := spans_that_name(stored, part, sites):
                yield named, gaps.lacking(sites, first)
            else:
                log.warning("correction_sites_removed", sites=sorted(sites), first=first)

    def _report(self, task: _CorrectionTask, due: Mapping[str, list[TickSpan]]) -> None:
        """Set what ``correcting`` and ``ticks_due`` return; ``due``: the ticks to correct."""
        periods = {insight.uid: insight.every_ms for insight in task.fragment.plan.insights}
        counts = {
            uid: sum((span.last - span.first) // periods[uid] + 1 for span in spans)
            for uid, spans in due.items()
            if uid in periods
        }
        now, before = system_clock(), self._correcting
        self._correcting = {uid: before.get(uid, now) for uid in counts}
        self._ticks_due = counts

    def _correct_states(
        self,
        task: _CorrectionTask,
        spans: dict[str, list[TickSpan]],
        gaps: LastGaps,
        frontier: int,
        unanswered: UnansweredTicks,
    ) -> dict[str, list[TickSpan]]:
        if task.access is None:
            return spans
        plan, sources = task.fragment.plan, partial(point_streams, task.fragment, gaps)
        insights = StatefulInsights(self._agent, plan, task.access, gaps, sources)
        return insights.correct_states(spans, frontier, unanswered)

    def _first_uncorrected(self, fragment: Whole, attributes: TargetAttributes) -> int:
        """Return the first position in the source at which a late row may not be corrected yet."""
        covered = set(attributes.insights or ())
        new = tuple(one for one in fragment.plan.insights if one.uid not in covered)
        since = (attributes.corrected or 0) if covered else _NO_ROW
        if new:
            needs = resume(subplan(fragment.plan, new), 0, ()).needs
            source = fragment.source
            since = min(since, self._agent.at(source.site).seek(source.stream, needs))
        return since

    def _store_position(self, task: _CorrectionTask, position: int) -> None:
        if position == self._stored_position:
            return
        target = task.fragment.target
        self._stored_position = position
        attributes = _position_of(task.fragment, position).stored()
        self._agent.at(target.site).advance(target.stream, task.epoch, attributes=attributes)

    def _split_by_rows(
        self, task: _CorrectionTask, spans: Mapping[str, TickSpan]
    ) -> Iterator[dict[str, TickSpan]]:
        """Yield parts of a cluster of ticks, such that the results of each part fit into memory."""
        times = np.sort(self._stored(task, spans, ["ts"])["ts"].to_numpy())
        return split_by_rows(spans, task.fragment.plan, times, _MAX_ROWS)

    def _correct(
        self, task: _CorrectionTask, ticks: RecomputableTicks, silent: SilentSites
    ) -> None:
        fragment, target = task.fragment, task.fragment.target
        access = None if task.access is None else task.access.read_only
        computed = self._recomputation.compute(ticks, fragment.plan, access, silent)
        computed, unanswered = split_unanswered(computed)
        if unanswered:
            # The stored results were right before, and a retry would block other corrections.
            log.warning("correction_unanswered", reasons=unanswered)
        spans = {uid: span for uid, span in ticks.spans.items() if uid not in unanswered}
        if not spans:
            return
        if isinstance(fragment, Merge):
            computed = with_missing_sites(computed, ticks.named)
        stored = self._stored(task, spans)
        revision = 1 + (pc.max(stored["revision"]).as_py() or 0)
        rows = differences(
            within(computed, spans), within(current_results(stored), spans), revision
        )
        append_results(self._agent.at(target.site), target.stream, rows, task.epoch)
        log.info("results_corrected", insights=len(spans), rows=rows.num_rows, revision=revision)

    def _stored(
        self,
        task: _CorrectionTask,
        spans: Mapping[str, TickSpan],
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Return the stored results of the insights in ``spans``, from the first to the last tick.

        The table contains all revisions. ``columns``: None returns all columns.
        """
        target = task.fragment.target
        results = self._agent.at(target.site)
        first = min(span.first for span in spans.values())
        return results.read(
            target.stream,
            results.seek(target.stream, first - 1),
            match={"insight": list(spans)},
            columns=columns,
            min_ts=first,
            max_ts=max(span.last for span in spans.values()),
        ).table


def _position_of(fragment: Whole | Merge, position: int) -> TargetAttributes:
    """Return the position before which all late data of a fragment is processed, as attribute."""
    if isinstance(fragment, Merge):
        return TargetAttributes(decided=position)
    return TargetAttributes(corrected=position)


def _still_waiting(
    before: _WaitingTicks, unanswered: Mapping[str, list[TickSpan]], scanner: LateDataScanner
) -> _WaitingTicks:
    """Return the ticks that wait after a scan; ``scanner`` has not moved to the next position."""
    if not unanswered:
        return _NONE_WAIT
    return _WaitingTicks(
        unanswered,
        min(before.position, scanner.processed_to),
        min(before.corrected_until, scanner.corrected_until),
    )
