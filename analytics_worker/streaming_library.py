"""The interface between a worker and its engine, which the specification calls streaming library.

A library reports which logical operators (``analytics.plan.logical_operators``) the engine
supports, and runs fragments as queries that read and write streams. The worker decides when a query
starts, at which positions the query begins to read, and which results are corrected. See
docs/adr/0016.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from analytics.plan.fragments import Fragment, Merge, Partial, StreamLocation, Whole
from analytics.plan.nodes import Plan
from analytics.plan.resumption import Resumption
from analytics_worker.evaluate.operator_failures import OperatorFailure
from analytics_worker.merge.decisions import Checkpoint
from analytics_worker.query_lease import QueryLease
from analytics_worker.stateful.state_stream import StateAccess

_MAX_ERROR_LENGTH = 500


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of the work that queries have done.

    ``batches``: the number of micro-batches. ``rows_dropped``: the number of rows that the engine
    dropped as late. ``spent_ms``: phase of a micro-batch -> the time (ms) spent in this phase.
    ``cpu_s``: the CPU time (s) of the queries. ``rows_read``: the number of points or panes that
    the sources have read. These two are measured every few seconds.
    """

    batches: int = 0
    rows_dropped: int = 0
    spent_ms: Counter[str] = field(default_factory=Counter)
    cpu_s: float = 0.0
    rows_read: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.batches + other.batches,
            self.rows_dropped + other.rows_dropped,
            self.spent_ms + other.spent_ms,
            self.cpu_s + other.cpu_s,
            self.rows_read + other.rows_read,
        )


@dataclass(frozen=True, slots=True)
class QueryFailure:
    """The failure that ended a query: the engine's text of the error, and its kind.

    ``is_fenced``: whether the query was refused because a newer writer has claimed a stream.
    ``summary``: the error in one line, for people. ``is_unavailable``: whether a service that the
    query needs did not answer.
    """

    reason: str
    is_fenced: bool = False
    summary: str = ""
    is_unavailable: bool = False

    @property
    def error(self) -> str:
        """The error in one line: the summary, or the beginning of the reason."""
        line = (self.summary or self.reason).strip().partition("\n")[0]
        return line[:_MAX_ERROR_LENGTH] or "the engine gave no reason"


class EngineQuery(Protocol):
    """A running query of a fragment, as seen by the worker."""

    @property
    def fragment(self) -> Fragment:
        """The fragment that the query runs."""
        ...

    @property
    def decided(self) -> int:
        """The position in the merge's stream of decisions at which this query's decisions begin.

        The position is 0 if the fragment is not a merge.
        """
        ...

    @property
    def lease(self) -> QueryLease:
        """The lease under which the query writes."""
        ...

    @property
    def frontier(self) -> int:
        """The time (ms) up to which the query has written all rows."""
        ...

    @property
    def counts(self) -> Counts:
        """The counts of the query's work so far."""
        ...

    @property
    def begun(self) -> bool:
        """Whether the most expensive part of the query's start is over."""
        ...

    @property
    def failure(self) -> QueryFailure | None:
        """The failure that ended the query; None while the query runs."""
        ...

    def observe(self) -> None:
        """Update ``frontier`` and ``counts`` to the present progress of the query."""
        ...

    def read_to(self, frontier: int | None = None) -> Any:
        """Return the position up to which the query has read its source; None if unknown.

        A merge returns a dict: site -> position. With ``frontier``, the method returns the last
        known position at which the frontier of the source was at most ``frontier`` (ms).
        """
        ...

    def stop(self) -> None:
        """Stop the query and delete its state; a later query of the fragment replays streams."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStart:
    """The positions at which a merge begins to read, and the progress of earlier queries.

    ``starts``: site -> the position of the first row to read. ``unreachable``: the sites that did
    not answer; the query determines their positions once they answer. ``resumed``: the sites whose
    panes an earlier query has read. ``recorded``: site -> the position before which an earlier
    query of the same plan has recorded the late panes. ``since``: the time (ms) up to which stored
    results are complete; 0 without results. ``decided``: the position in the stream of decisions at
    which the query's decisions begin. ``checkpoint``: the presence of sites at which the query
    begins to read decisions.
    """

    starts: Mapping[str, int]
    unreachable: Sequence[str]
    resumed: Sequence[str]
    recorded: Mapping[str, int]
    since: int
    decided: int
    checkpoint: Checkpoint


class StreamingLibrary(Protocol):
    """The engine of one worker.

    In all methods, ``lease`` is the lease under which a query writes, and ``access`` is the access
    to the states of accumulators (None: the plan has no accumulators).
    """

    @property
    def support(self) -> Mapping[str, str | None]:
        """The support of logical operators: operator -> the reason why the library cannot run the
        operator, or None if the library can run the operator.
        """
        ...

    def warm_up(self) -> None:
        """Do in advance the one-time work that would delay the first query.

        Raises the error that ended this work.
        """
        ...

    def is_alive(self) -> bool:
        """Return whether the engine's process still runs."""
        ...

    def stop(self) -> None:
        """Stop all queries and the engine."""
        ...

    def adopt_thread(self) -> None:
        """Prepare the calling thread for starting queries and recomputing results."""
        ...

    def set_salience(self, salience: int | None) -> None:
        """Set the salience of the queries that the calling thread starts from now on.

        None gives these queries a lower priority than any salience.
        """
        ...

    def failure_of(self, error: Exception) -> QueryFailure:
        """Convert an error that the library or a query has raised to a ``QueryFailure``."""
        ...

    def operator_failures(self) -> Mapping[str, OperatorFailure]:
        """Return a mapping: insight uid -> the failure of the insight's operators at the newest
        tick.

        An entry whose ``missing`` is 0 means that operators gave all answers at this tick.
        """
        ...

    def run_whole(
        self,
        fragment: Whole,
        resumption: Resumption,
        start: int,
        lease: QueryLease,
        access: StateAccess | None,
    ) -> EngineQuery:
        """Start and return a query that computes a ``Whole`` fragment from points.

        The query reads the fragment's source from the position ``start`` on.
        """
        ...

    def run_partial(
        self, fragment: Partial, after: int, start: int, lease: QueryLease
    ) -> EngineQuery:
        """Start and return a query that computes a ``Partial`` fragment from points.

        The query reads the fragment's source from the position ``start`` on, and writes the panes
        that close after the time ``after`` (ms).
        """
        ...

    def run_merge(
        self,
        fragment: Merge,
        resumption: Resumption,
        start: MergeStart,
        lease: QueryLease,
        access: StateAccess | None,
    ) -> EngineQuery:
        """Start and return a query that computes a ``Merge`` fragment from the panes of several
        sites.
        """
        ...

    def recompute_from_points(
        self,
        starts: Mapping[StreamLocation, int],
        plan: Plan,
        after: Mapping[str, int],
        times: tuple[int, int],
        access: StateAccess | None,
        limit: int | None = None,
    ) -> pa.Table:
        """Return a plan's results (``RESULT_ROWS``), recomputed from stored points.

        ``starts``: stream -> the position to read from. ``after``: window id -> the time (ms) after
        which the window's ticks begin. ``times``: the first and the last time (ms) of the points to
        read. States are read, not written. If an operator of another package gave no answer, the
        insight that calls the operator has an additional row, with neither a value nor a text,
        whose ``missing`` contains the reason. ``limit``: only the latest results up to the last
        time are returned, at most this number; None: all results.
        """
        ...

    def recompute_from_panes(
        self,
        sources: Sequence[StreamLocation],
        plan: Plan,
        after: Mapping[str, int],
        times: tuple[int, int],
        access: StateAccess | None,
    ) -> pa.Table:
        """Return a plan's results (``RESULT_ROWS``), recomputed from the stored panes in
        ``sources``.

        ``times``: the first and the last end (ms) of the panes to read. For the other parameters
        and the rows, see ``recompute_from_points``.
        """
        ...
