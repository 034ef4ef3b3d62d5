"""The runner of a fragment: a state machine that starts, replaces, sheds and resumes a query.

A changed fragment starts as a second query while the first query still runs. The second query
begins at an earlier position, and takes over when it has caught up and closed a tick (``Trial``),
so results never pause. The two queries write under the same epoch, so the stream may contain a
result twice. Readers use the row that was written first. The results of the two queries differ
only if one query reads a site that the other query does not read.

If the first query runs on another worker, the second query starts without epochs of its own
(``QueryLease``). When it has caught up, its runner claims the streams, and this fences the first
query. A runner cannot determine whether its fragment runs elsewhere. So each query that finds
results, but no other query of its runner, starts in this way, unless the order says that the former
worker is dead.
"""

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue

import msgspec

from analytics.plan.fragments import Fragment, Merge, Partial, StreamLocation
from analytics.plan.status import FragmentStatus
from analytics_worker.evaluate.operator_failures import describe_failures
from analytics_worker.late_data.corrector import Corrector
from analytics_worker.lifecycle.query_stops import QueryStops
from analytics_worker.lifecycle.runner_state import (
    Accept,
    Command,
    LoadStatus,
    Observe,
    Resume,
    RunnerProgress,
    RunnerState,
    Shed,
    Stop,
    Trial,
)
from analytics_worker.lifecycle.silence import SilenceMonitor
from analytics_worker.lifecycle.source_changes import SourceChanges
from analytics_worker.lifecycle.start import SiteCheck, start, state_access_of
from analytics_worker.lifecycle.start_slot import StartSlot
from analytics_worker.lifecycle.target_writer import TargetWriter, describe_insights, read_positions
from analytics_worker.query_lease import QueryLease
from analytics_worker.scratch_folder import scratch_folder
from analytics_worker.streaming_library import EngineQuery, QueryFailure, StreamingLibrary
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.errors import FencedError, MistbowError, UnavailableError
from mistbow.runtime.periodic import PeriodicThread, Schedule
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_TRIAL_S = 10.0
"""The time after its start in which a candidate must close a tick before it replaces a query."""
_OUTDATED_PATIENCE_S = 60.0
"""The time in which an outdated candidate may still take over."""

_MIN_CORRECTION_PAUSE_S = 1.0
_MAX_CORRECTION_PAUSE_S = 10.0


class FragmentRunner:
    """Runs one fragment from ``start`` to ``stop``; one thread executes the commands."""

    def __init__(
        self, library: StreamingLibrary, agent: AgentClient, fragment: Fragment, slot: StartSlot
    ) -> None:
        self._library = library
        self._agent = agent
        self._slot = slot
        self._target = TargetWriter(agent)
        self._sources = SourceChanges(agent, self._target)
        self._sites = SiteCheck(agent)
        self._corrector = Corrector(library, agent)
        self._silence = SilenceMonitor(agent)
        self._accepted = Accept(fragment)
        self._progress = RunnerProgress(self._accepted)
        self._load = LoadStatus()
        self._is_shed = False
        self._retry_at = 0.0
        self._outdated_patience_s = _OUTDATED_PATIENCE_S
        self._abandon_at = 0.0
        self._trial = Trial(0, 0.0)
        self._is_orphan = False
        self._orphaned_sites: Mapping[str, int] = {}
        self._stops = QueryStops(library, self._sources.note_late_stop)
        self._commands: SimpleQueue[Command] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"run-{fragment.id}", daemon=True)
        self._corrections = PeriodicThread(
            self._correct,
            Schedule(
                "correction",
                interval_s=_MIN_CORRECTION_PAUSE_S,
                delay_s=_MIN_CORRECTION_PAUSE_S,
                max_retry_s=_MAX_CORRECTION_PAUSE_S,
                fields={"fragment": fragment.id},
            ),
        )

    def start(self) -> None:
        """Start the threads, and request the start slot for the first query."""
        self._slot.request(self, self.fragment)
        self._commands.put(Observe())
        self._thread.start()
        self._corrections.start()

    def accept(self, fragment: Fragment) -> None:
        """Replace the fragment by a new version; a fenced runner claims the target stream again."""
        self._accepted = Accept(fragment)
        self._commands.put(self._accepted)
        self._commands.put(Observe())

    def note_orphan(self, is_orphan: bool) -> None:
        """Let the first query claim its streams at once if the former worker is dead."""
        self._is_orphan = is_orphan and self._progress.active is None

    def note_orphaned_sites(self, sites: Mapping[str, int]) -> None:
        """Let the queries of a merge wait less for sites; see ``QueryLease.orphaned_sites``."""
        if self._progress.active is None:
            self._orphaned_sites = sites
        for query in self._progress.queries:
            query.lease.note_orphaned_sites(sites)

    def set_load(self, load: LoadStatus) -> None:
        """Set the load status; shed or resume the fragment accordingly."""
        before, self._load = self._load, load
        if (before.shed_since is None) != (load.shed_since is None):
            self._commands.put(Resume() if load.shed_since is None else Shed())

    def stop(self) -> None:
        """Stop the queries and threads, and wait until they have ended."""
        self._commands.put(Stop())
        self._corrector.stop()
        self._corrections.stop()
        if self._thread.is_alive():
            self._thread.join()
        self._slot.release(self)

    @property
    def fragment(self) -> Fragment:
        """The last accepted version of the fragment."""
        return self._accepted.fragment

    @property
    def target(self) -> StreamLocation:
        """The stream that the fragment writes."""
        return self.fragment.target

    @property
    def query_count(self) -> int:
        """The number of queries that run now."""
        return len(self._progress.queries)

    @property
    def load(self) -> LoadStatus:
        """The lag of the fragment, and the time since which the fragment has been shed."""
        return self._load

    @property
    def frontier(self) -> int | None:
        """The time (ms) up to which results are complete; None: the fragment is starting.

        ``status`` reports a later time if an earlier query has written further results.
        """
        progress = self._progress
        if progress.active is not None:
            return progress.active.frontier
        return None if self._load.shed_since is None else progress.frontier

    def status(self) -> FragmentStatus:
        """Return the status of the fragment."""
        accepted = self._accepted
        return msgspec.structs.replace(
            self._progress.status(accepted, self._load),
            rows_written=self._target.rows,
            bytes_written=self._target.bytes,
            operator_failures=describe_failures(
                accepted.fragment, self._library.operator_failures()
            ),
            silent=dict(self._silence.reasons),
            missing=self._corrector.missing_sites,
            correcting=dict(self._corrector.correcting),
            corrections_due=dict(self._corrector.ticks_due),
            corrected_until=self._corrector.corrected_until,
            searched_until=self._corrector.searched_until,
        )

    def _correct(self) -> float:
        """Correct the results at complete ticks; return the pause (s) until the next correction."""
        progress = self._progress
        if progress.active is None or isinstance(progress.accepted.fragment, Partial):
            return _MIN_CORRECTION_PAUSE_S
        began = time.monotonic()
        # If they have to wait, the status reports nevertheless which corrections are due.
        may_compute = self._slot.may_correct(self)
        self._library.adopt_thread()
        self._library.set_salience(None)
        with suppress(FencedError):  # the runner notices it too
            self._corrector.step(progress.frontier, may_compute=may_compute)
        with suppress(MistbowError):
            if may_compute:
                self._silence.check(progress.active.fragment, progress.frontier)
        seconds = time.monotonic() - began
        return min(max(_MIN_CORRECTION_PAUSE_S, 4 * seconds), _MAX_CORRECTION_PAUSE_S)

    # The following methods run in the runner's own thread.

    def _run(self) -> None:
        self._library.adopt_thread()
        self._execute_commands()
        self._stops.finish()

    def _execute_commands(self) -> None:
        """Execute commands until the runner is stopped, or the library has died."""
        while self._progress.state is not RunnerState.STOPPED:
            try:
                command: Command = self._commands.get(timeout=self._progress.observe_period_s)
            except Empty:
                command = Observe()
            try:
                self._stops.retry()
                self._execute(command)
            except FencedError as error:
                self._fail(QueryFailure(error.message, is_fenced=True))
            except MistbowError as error:
                self._fail(QueryFailure(error.message))
            except Exception as error:
                if not self._library.is_alive():
                    return
                self._fail(self._library.failure_of(error))

    def _execute(self, command: Command) -> None:
        match command:
            case Accept():
                if self._is_accepted(self._progress.candidate):
                    self._abandon_at = time.monotonic() + self._outdated_patience_s
                self._progress = replace(self._progress, accepted=command)
                active = self._progress.active
                if active is not None and self._is_accepted(active):
                    self._sources.reopen(active.frontier)
                if self._progress.state is RunnerState.FENCED:
                    waiting = replace(self._progress, state=RunnerState.WAITING)
                    self._progress = waiting.without_error()
            case Shed():
                self._is_shed = True
            case Resume():
                self._is_shed = False
                if self._progress.state is RunnerState.SHED:
                    self._progress = replace(self._progress, state=RunnerState.WAITING)
            case Stop():
                self._end_queries(RunnerState.STOPPED)
            case Observe() if self._progress.state not in (RunnerState.SHED, RunnerState.FENCED):
                self._observe()

    def _observe(self) -> None:
        """Update the progress of the queries; then shed, start or hand over queries as needed."""
        self._observe_queries()
        if self._progress.state is RunnerState.FENCED:
            return
        active = self._progress.active
        if self._progress.has_started:
            self._slot.release(self)
        if active is not None and active.frontier > self._progress.frontier:
            self._advance(active)
        if self._is_shed:
            self._shed()
        elif time.monotonic() >= self._retry_at:
            self._start_or_hand_over()

    def _observe_queries(self) -> None:
        """Update the progress of both queries; end a query that has failed, but not the other."""
        for query in self._progress.queries:
            if self._progress.state is RunnerState.FENCED:
                return
            query.observe()
            failure = query.failure
            if failure is None:
                continue
            was_active = query is self._progress.active
            self._fail(failure)
            if failure.is_fenced:
                return
            self._end(query)
            if was_active and (candidate := self._progress.candidate) is not None:
                # No other query is left to decide which sites are missing.
                self._let_decide(candidate.fragment)

    def _let_decide(self, fragment: Fragment) -> None:
        self._target.advance(fragment, {"decides": fragment.fingerprint})

    def _shed(self) -> None:
        self._slot.release(self)
        self._end_queries(RunnerState.SHED)
        self._progress = self._progress.without_failures()
        self._retry_at = 0.0

    def _start_or_hand_over(self) -> None:
        candidate = self._progress.candidate
        if candidate is not None and not self._is_accepted(candidate):
            self._end_if_obsolete(candidate)
        progress = self._progress
        self._sources.settle(progress)
        if self._is_accepted(progress.active):
            self._slot.end_wait(self)
        elif progress.candidate is None:
            if not self._acquire_slot():
                return
            query = self._start(progress.accepted.fragment)
            self._progress = self._progress.with_queries(self._progress.active, query)
            # The note of an order that arrived while the query started.
            query.lease.note_orphaned_sites(self._orphaned_sites)
        candidate = self._progress.candidate
        if candidate is None:
            return
        if candidate.lease.epochs is None and self._may_claim(candidate):
            self._claim(candidate.fragment, candidate.lease)
        has_passed = self._progress.active is None or self._trial.is_passed(candidate)
        is_owner = candidate.lease.epochs is not None
        if is_owner and has_passed and self._progress.has_caught_up(candidate):
            self._hand_over(candidate)

    def _acquire_slot(self) -> bool:
        """Return whether a query may start; end the active query if memory for both stays short."""
        fragment = self._progress.accepted.fragment
        try:
            self._sites.check(fragment, self._target.leases)
        except UnavailableError as error:
            self._slot.withdraw(self)
            self._fail(QueryFailure(error.message, is_unavailable=True), is_silence=True)
            return False
        if self._slot.acquire(self, fragment, for_handover=self._progress.active is not None):
            return True
        if not self._slot.acquire_without_memory(self):
            return False
        log.warning("handover_interrupted", fragment=self.fragment.id, reason="memory")
        self._end_queries(RunnerState.WAITING)
        return self._progress.state is RunnerState.WAITING  # fenced, if another writer was noticed

    def _is_accepted(self, query: EngineQuery | None) -> bool:
        accepted = self._progress.accepted.fragment
        return query is not None and query.fragment.fingerprint == accepted.fingerprint

    def _end_if_obsolete(self, candidate: EngineQuery) -> None:
        """End an outdated candidate for which no command waits, or that is too slow to take over.

        Other outdated candidates may take over, so that frequent changes do not delay all versions.
        Each candidate that was too slow doubles the patience with the next.
        """
        # The panes of a merge may never catch up, now that no fragment needs them any more.
        is_unneeded = isinstance(candidate.fragment, Merge)
        if is_unneeded or self._is_accepted(self._progress.active):
            self._end(candidate)
        elif time.monotonic() >= self._abandon_at:
            fragment = candidate.fragment
            self._outdated_patience_s *= 2
            log.warning("query_abandoned", fragment=fragment.id, fingerprint=fragment.fingerprint)
            self._end(candidate)

    def _start(self, fragment: Fragment) -> EngineQuery:
        is_sole_writer = self._progress.active is None
        target = None
        if is_sole_writer:
            self._target.renew_leases()
            target = self._sites.take_target(fragment, is_orphan=self._is_orphan)
        target = target or self._target.leases.describe_target(fragment)
        self._progress = replace(self._progress, frontier=max(target.frontier, 0))
        self._trial = Trial(self._progress.frontier, time.monotonic() + _TRIAL_S)
        self._library.set_salience(fragment.salience)
        lease = QueryLease.create(self._agent.url, fragment.target, scratch_folder())
        try:
            lease.note_orphaned_sites(self._orphaned_sites)
            if not is_sole_writer:
                lease.grant(self._target.leases.claim(fragment))
            elif target.frontier <= 0:
                # No query has written results yet, so there is nothing to catch up with.
                self._claim(fragment, lease)
            query = start(self._library, self._agent, fragment, target, lease)
        except BaseException:
            lease.delete()
            raise
        log.info(
            "query_started", fragment=fragment.id, fingerprint=fragment.fingerprint,
            frontier=self._progress.frontier,
        )  # fmt: skip
        return query

    def _may_claim(self, candidate: EngineQuery) -> bool:
        """Return whether a query without epochs has caught up, or cannot continue without them.

        If the former worker is dead, no other query writes meanwhile.
        """
        if self._is_orphan or candidate.lease.is_requested:
            return True
        if not self._progress.has_caught_up(candidate):
            return False
        self._read_frontier(candidate.fragment)
        return self._progress.has_caught_up(candidate)

    def _claim(self, fragment: Fragment, lease: QueryLease) -> None:
        """Claim the streams of a fragment for a query, which fences the query of another runner."""
        epochs = self._target.leases.claim(fragment)
        if isinstance(fragment, Merge):
            self._let_decide(fragment)
        self._read_frontier(fragment)
        lease.grant(epochs)
        self._is_orphan = False
        log.info("streams_claimed", fragment=fragment.id, frontier=self._progress.frontier)

    def _read_frontier(self, fragment: Fragment) -> None:
        target = self._agent.at(fragment.target.site).info(fragment.target.stream)
        self._progress = replace(self._progress, frontier=max(target.frontier, 0))

    def _hand_over(self, candidate: EngineQuery) -> None:
        """Make the candidate the active query, and end the query that was active before."""
        fragment = candidate.fragment
        epochs = self._target.leases.claim(fragment)
        former = self._progress.active
        frontier = self._progress.frontier if former is None else former.frontier
        self._sources.begin(fragment, frontier + fragment.grain_ms)
        if not isinstance(fragment, Partial):
            epoch = epochs[fragment.target.stream]
            access = state_access_of(self._agent, fragment, candidate.lease)
            decisions = epochs[fragment.decisions.stream] if isinstance(fragment, Merge) else 0
            decided = candidate.decided
            attributes = self._corrector.begin(fragment, epoch, decided, access, decisions)
            self._target.advance(fragment, attributes | describe_insights(fragment))
        self._retain_queries(candidate, None)
        self._slot.end_start(self)
        self._is_orphan, self._orphaned_sites = False, {}
        self._outdated_patience_s = _OUTDATED_PATIENCE_S
        counts = candidate.counts
        log.info(
            "query_running", fragment=fragment.id, frontier=candidate.frontier,
            batches=counts.batches, spent_ms=dict(counts.spent_ms),
        )  # fmt: skip
        self._sources.settle(self._progress)

    def _advance(self, active: EngineQuery) -> None:
        frontier = active.frontier
        self._target.advance(active.fragment, read_positions(active), frontier)
        self._progress = replace(self._progress, frontier=frontier)
        if self._is_accepted(active):
            self._progress = self._progress.without_error()

    def _fail(self, failure: QueryFailure, *, is_silence: bool = False) -> None:
        """Record a failure; ``is_silence``: as in ``RunnerProgress.after_failure``."""
        is_known = is_silence and failure.error == self._progress.error
        self._progress, pause_s = self._progress.after_failure(
            failure.error, system_clock(), is_silence=is_silence
        )
        self._retry_at = time.monotonic() + pause_s
        self._slot.end_start(self)
        fragment = self._progress.accepted.fragment
        if failure.is_fenced:
            # Another worker has taken over, which is the usual end of a fragment that has moved.
            log.info("fragment_fenced", fragment=fragment.id)
            self._slot.release(self)
            self._is_orphan = False
            self._end_queries(RunnerState.FENCED)
        elif not is_known:
            log.warning("fragment_failed", fragment=fragment.id, reason=failure.error)
            log.debug("fragment_failure_traced", fragment=fragment.id, trace=failure.reason)

    def _end(self, query: EngineQuery) -> None:
        progress = self._progress
        active, candidate = (
            None if each is query else each for each in (progress.active, progress.candidate)
        )
        self._retain_queries(active, candidate)

    def _end_queries(self, state: RunnerState) -> None:
        self._retain_queries(None, None, state)

    def _retain_queries(
        self,
        active: EngineQuery | None,
        candidate: EngineQuery | None,
        state: RunnerState | None = None,
    ) -> None:
        """Retain the queries ``active`` and ``candidate``, and stop all other queries.

        ``state``: the new state of the runner; None: the state that follows from the retained
        queries.
        """
        progress = self._progress.with_queries(active, candidate)
        ending = [each for each in self._progress.queries if each not in progress.queries]
        ended = sum((each.counts for each in ending), start=progress.ended)
        self._progress = replace(progress, ended=ended, state=state or progress.state)
        failures = self._stops.stop(ending)
        fence = next((failure for failure in failures if failure.is_fenced), None)
        if fence is not None and self._progress.state is not RunnerState.STOPPED:
            self._fail(fence)
