"""The states of a fragment runner, its commands, and its progress.

::

    WAITING -> STARTING -> RUNNING <-> HANDING_OVER
    any state -> WAITING        all queries failed; the next query starts after a pause
    any state -> SHED           back to WAITING on Resume
    any state -> FENCED         another writer has claimed the target; back to WAITING on Accept
    any state -> STOPPED        final
"""

import time
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from analytics.plan.fragments import Fragment, Partial
from analytics.plan.status import FragmentState, FragmentStatus
from analytics_worker.streaming_library import Counts, EngineQuery


@dataclass(frozen=True, slots=True)
class LoadStatus:
    """The lag of a fragment, and whether the fragment is shed; times in ms since the epoch.

    ``lag_ms``: for how long (ms) results have been overdue. ``lagging_since``: the time since which
    the fragment has lagged; None: the fragment does not lag. ``shed_since``: the time since which
    the fragment has been shed; None: the fragment is not shed.
    """

    lag_ms: int = 0
    lagging_since: int | None = None
    shed_since: int | None = None


_OBSERVE_PERIOD_S = 0.2
_CATCH_UP_PERIOD_S = 0.05
"""The period of observations while results may wait for the next observation."""

_RETRY_PAUSES_S = (1.0, 2.0, 4.0, 8.0)
"""The pauses after failures of queries in a row; the last one repeats."""

_SHORT_PAUSE_S = 1.0
_SHORT_PAUSES_MS = 60_000
"""The time (ms) after the first failure in which the pauses for silent sites are short.

A site that restarts answers within this time. For a long outage, the requests of many fragments
would cost more than they gain.
"""

_FAILURES_REPORTED = 3
"""The number of consecutive failures after which a fragment is reported as failed."""


class RunnerState(Enum):
    """The states of a runner; each state determines the queries that the runner has."""

    WAITING = auto()
    """No query runs: the next query waits for the start slot, or for the pause after a failure."""
    STARTING = auto()
    """The first query runs, and catches up with the stored results."""
    RUNNING = auto()
    """One query writes results."""
    HANDING_OVER = auto()
    """One query writes results, and a query of a newer version catches up."""
    SHED = auto()
    """No query runs until the worker has capacity again; the next query continues where results
    end.
    """
    FENCED = auto()
    """No query runs until the fragment is accepted again: another writer has claimed the target."""
    STOPPED = auto()
    """No query will run again."""


@dataclass(frozen=True, slots=True, eq=False)
class Accept:
    """The command to run ``fragment`` from now on; the command also restarts a fenced runner."""

    fragment: Fragment


@dataclass(frozen=True, slots=True)
class Shed:
    """The command to stop the queries until the command ``Resume``."""


@dataclass(frozen=True, slots=True)
class Resume:
    """The command to start a query again, which continues where the results end."""


@dataclass(frozen=True, slots=True)
class Observe:
    """The command to update the progress of queries, and to start, shed or hand over queries."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The command to stop the queries and the thread."""


Command = Accept | Shed | Resume | Observe | Stop


@dataclass(frozen=True, slots=True)
class Trial:
    """The period after the start of a candidate in which it must close a tick to take over.

    A query that has only read may still fail when it evaluates its first tick. After the period, a
    candidate takes over without a tick: two queries need too much memory to wait for a long EVERY.
    ``frontier``: the frontier (ms) at the start. ``until``: the end, on the monotonic clock (s).
    """

    frontier: int
    until: float

    def is_passed(self, candidate: EngineQuery) -> bool:
        """Return whether the candidate has closed a tick, or the period has ended."""
        return candidate.frontier > self.frontier or time.monotonic() >= self.until


@dataclass(frozen=True, slots=True)
class RunnerProgress:
    """The immutable progress of a runner; only the runner's thread replaces the object.

    ``accepted``: the command with the fragment to run. ``active``: the query that writes results.
    ``candidate``: the query that catches up. ``frontier``: the time (ms) up to which results are
    complete. ``error``, ``failures``: the last error, and the number of consecutive failures.
    ``failed_queries``: the number of these failures that were not silent sites before a start.
    ``error_since``: the time (ms) of the first of these failures; None: there is no error.
    ``ended``: the counts of the queries that have ended.
    """

    accepted: Accept
    state: RunnerState = RunnerState.WAITING
    active: EngineQuery | None = None
    candidate: EngineQuery | None = None
    frontier: int = 0
    error: str | None = None
    error_since: int | None = None
    failures: int = 0
    failed_queries: int = 0
    ended: Counts = field(default_factory=Counts)

    def without_error(self) -> "RunnerProgress":
        """Return the progress without an error and failures, after a success or a new request."""
        return replace(self.without_failures(), error=None, error_since=None)

    def without_failures(self) -> "RunnerProgress":
        """Return the progress without failures, but with the last error."""
        return replace(self, failures=0, failed_queries=0)

    def after_failure(
        self, error: str, now: int, *, is_silence: bool
    ) -> tuple["RunnerProgress", float]:
        """Return the progress after a failure at the time ``now`` (ms), and the pause (s) then.

        ``is_silence``: whether no query has started or ended, since a site did not answer before.
        The next attempt is cheap then, so the pause is short at first.
        """
        since = now if self.error_since is None else self.error_since
        progress = replace(
            self,
            error=error,
            error_since=since,
            failures=self.failures + 1,
            failed_queries=self.failed_queries + (not is_silence),
        )
        if is_silence:
            is_short = now - since < _SHORT_PAUSES_MS
            return progress, _SHORT_PAUSE_S if is_short else _RETRY_PAUSES_S[-1]
        return progress, _RETRY_PAUSES_S[min(progress.failed_queries, len(_RETRY_PAUSES_S)) - 1]

    def status(self, accepted: Accept, load: LoadStatus) -> FragmentStatus:
        """Return the status of the fragment; ``accepted``: the newest accepted version."""
        counts = sum((query.counts for query in self.queries), start=self.ended)
        return FragmentStatus(
            id=accepted.fragment.id,
            fingerprint=accepted.fragment.fingerprint,
            state=self._reported_state(accepted, is_shed=load.shed_since is not None),
            active=None if self.active is None else self.active.fragment.fingerprint,
            frontier=self.frontier,
            error=self.error,
            error_since=self.error_since,
            lag_ms=load.lag_ms,
            lagging_since=load.lagging_since,
            shed_since=load.shed_since,
            queries=len(self.queries),
            batches=counts.batches,
            rows_dropped=counts.rows_dropped,
            spent_ms=dict(counts.spent_ms),
            cpu_s=counts.cpu_s,
            rows_read=counts.rows_read,
        )

    def _reported_state(self, accepted: Accept, *, is_shed: bool) -> FragmentState:
        # A version that was accepted after the fence is not fenced.
        if self.state is RunnerState.FENCED and self.accepted is accepted:
            return "fenced"
        if self.failures >= _FAILURES_REPORTED:
            return "failed"
        if is_shed:
            return "shed"
        return "starting" if self.active is None else "running"

    @property
    def queries(self) -> list[EngineQuery]:
        """The queries that run now."""
        return [query for query in (self.active, self.candidate) if query is not None]

    @property
    def has_started(self) -> bool:
        """Whether the next query of the worker may start.

        A query that replaces no running query, except of a partial, starts alone until its first
        micro-batch ends.
        """
        candidate = self.candidate
        if candidate is None or not candidate.begun:
            return candidate is None
        is_urgent = self.active is None and not isinstance(candidate.fragment, Partial)
        return candidate.counts.batches > 0 or not is_urgent

    @property
    def observe_period_s(self) -> float:
        """The time (s) until the next observation: short while a query is to start or catch up."""
        is_waiting = self.state is RunnerState.WAITING and not self.failures
        is_urgent = is_waiting or self.candidate is not None
        return _CATCH_UP_PERIOD_S if is_urgent else _OBSERVE_PERIOD_S

    def has_caught_up(self, candidate: EngineQuery) -> bool:
        """Return whether a query has written all results up to the frontier of the target."""
        frontier = max(0 if self.active is None else self.active.frontier, self.frontier)
        # Other ticks may have moved the frontier further: it closes multiples of its own grain.
        grain = candidate.fragment.grain_ms
        return candidate.frontier >= max(frontier // grain * grain, 1)

    def with_queries(
        self, active: EngineQuery | None, candidate: EngineQuery | None
    ) -> "RunnerProgress":
        """Return the progress with these queries, and with the state that the queries determine."""
        match active, candidate:
            case None, None:
                state = RunnerState.WAITING
            case None, _:
                state = RunnerState.STARTING
            case _, None:
                state = RunnerState.RUNNING
            case _:
                state = RunnerState.HANDING_OVER
        return replace(self, active=active, candidate=candidate, state=state)
