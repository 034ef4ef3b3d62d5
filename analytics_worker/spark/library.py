"""The streaming library that runs on Spark Structured Streaming, in a JVM of its own."""

import itertools
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics.plan.fragments import Merge, Partial, StreamLocation, Whole
from analytics.plan.nodes import Plan
from analytics.plan.resumption import Resumption
from analytics_worker.evaluate.computation import Computation
from analytics_worker.evaluate.operator_failures import OperatorFailure
from analytics_worker.query_lease import QueryLease
from analytics_worker.scratch_folder import scratch_folder
from analytics_worker.settings import WorkerSettings
from analytics_worker.spark.class_archive import java_options
from analytics_worker.spark.failure_accumulator import failure_reporter
from analytics_worker.spark.lowering import lower, lower_merge, lower_partial
from analytics_worker.spark.operator_support import OPERATOR_SUPPORT
from analytics_worker.spark.panes_options import panes_options
from analytics_worker.spark.query import USAGE, FragmentQuery, parse_failure, points_options
from analytics_worker.spark.scheduler_pools import CORRECTIONS, pool_of, use_pool
from analytics_worker.spark.session import adopt_thread, is_alive, start_session, warm_up
from analytics_worker.stateful.state_stream import StateAccess
from analytics_worker.streaming_library import MergeStart, QueryFailure

_MAX_ROWS = 400_000
"""The greatest number of rows of a micro-batch, chosen for the memory of a small machine."""

_query_numbers = itertools.count()


class SparkLibrary:
    """The streaming library of a Spark session; queries access streams through the agent at
    ``url``.
    """

    support = OPERATOR_SUPPORT

    def __init__(self, session: SparkSession, url: str) -> None:
        self._session = session
        self._url = url
        self._failures = failure_reporter(session)

    @classmethod
    def start(cls, settings: WorkerSettings, heap: str) -> "SparkLibrary":
        """Start a Spark session, and return its library; the start takes about 6 s.

        ``heap``: the size of the JVM's heap, in the notation of Java.
        """
        session = start_session(settings.spark_master, heap, java_options())
        return cls(session, settings.agent_url)

    def warm_up(self) -> None:
        """Run a small query, so that the first real query starts faster.

        Raises the error of the small query if this query fails.
        """
        warm_up(self._session)

    def is_alive(self) -> bool:
        """Return whether the JVM still runs."""
        return is_alive(self._session)

    def stop(self) -> None:
        """Stop the Spark session and all of its queries."""
        self._session.stop()

    def adopt_thread(self) -> None:
        """Make the Spark session the active session of the calling thread."""
        adopt_thread(self._session)

    def set_salience(self, salience: int | None) -> None:
        """Set the scheduler pool of the queries that the calling thread starts from now on.

        ``salience``: None selects the pool of corrections.
        """
        use_pool(self._session, CORRECTIONS if salience is None else pool_of(salience))

    def failure_of(self, error: Exception) -> QueryFailure:
        """Convert an error that Spark or py4j has raised to a ``QueryFailure``."""
        return parse_failure(str(error))

    def operator_failures(self) -> Mapping[str, OperatorFailure]:
        """Return a mapping: insight uid -> the failure of the insight's operators at the newest
        tick.
        """
        return self._failures.accumulator.value

    def run_whole(
        self,
        fragment: Whole,
        resumption: Resumption,
        start: int,
        lease: QueryLease,
        access: StateAccess | None,
    ) -> FragmentQuery:
        """Start and return a query that computes results from points."""
        plan, folder = resumption.plan, _folder()
        points = (
            self._session.readStream.format("mistbow")
            .options(**points_options(self._url, fragment.source, plan.panes, plan.grain_ms))
            .options(start=start, max_rows=_MAX_ROWS, usage=str(folder / USAGE))
            .load()
        )
        results = lower(points, self._computation(resumption, access, folder), folder / USAGE)
        return FragmentQuery(fragment, results, self._sink(lease), folder, lease)

    def run_partial(
        self, fragment: Partial, after: int, start: int, lease: QueryLease
    ) -> FragmentQuery:
        """Start and return a query that computes panes from points."""
        folder = _folder()
        points = (
            self._session.readStream.format("mistbow")
            .options(
                **points_options(self._url, fragment.source, fragment.panes, fragment.grain_ms)
            )
            .options(start=start, max_rows=_MAX_ROWS, usage=str(folder / USAGE))
            .load()
        )
        panes = lower_partial(points, fragment.panes, after=after)
        sink = {**self._sink(lease), "kind": "panes"}
        return FragmentQuery(fragment, panes, sink, folder, lease)

    def run_merge(
        self,
        fragment: Merge,
        resumption: Resumption,
        start: MergeStart,
        lease: QueryLease,
        access: StateAccess | None,
    ) -> FragmentQuery:
        """Start and return a query that computes results from panes."""
        plan, folder = resumption.plan, _folder()
        panes = (
            self._session.readStream.format("mistbow-panes")
            .options(**panes_options(self._url, fragment.sources, plan))
            .options(
                decisions=_json(fragment.decisions),
                checkpoint=_json(start.checkpoint),
                target=_json(fragment.target),
                fingerprint=fragment.fingerprint,
                starts=_json(start.starts),
                needs=resumption.needs,
                unsought=_json(start.unreachable),
                resumed=_json(start.resumed),
                recorded=_json(start.recorded),
                patience=fragment.patience_ms,
                since=start.since,
                after=min(resumption.after.values()),
                lease=_json(lease),
                usage=str(folder / USAGE),
            )
            .load()
        )
        results = lower_merge(panes, self._computation(resumption, access, folder), folder / USAGE)
        sink = {
            **self._sink(lease),
            "decisions": _json(fragment.decisions),
            "checkpoint": _json(start.checkpoint),
            "sites": _json([location.data_site for location in fragment.sources]),
        }
        return FragmentQuery(fragment, results, sink, folder, lease, start.decided)

    def recompute_from_points(
        self,
        starts: Mapping[StreamLocation, int],
        plan: Plan,
        after: Mapping[str, int],
        times: tuple[int, int],
        access: StateAccess | None,
        limit: int | None = None,
    ) -> pa.Table:
        """Return results that a batch recomputes from stored points, at most the latest ``limit``.

        None: all results.
        """
        parts = [
            self._session.read.format("mistbow")
            .options(**points_options(self._url, location, plan.panes, plan.grain_ms), start=start)
            .options(min_ts=times[0], max_ts=times[1])
            .load()
            for location, start in starts.items()
        ]
        computation = Computation(plan=plan, after=after, access=access)
        results = lower(reduce(DataFrame.union, parts), computation)
        if limit is not None:
            results = results.where(F.col("ts") <= times[1]).orderBy(F.desc("ts")).limit(limit)
        return results.toArrow()

    def recompute_from_panes(
        self,
        sources: Sequence[StreamLocation],
        plan: Plan,
        after: Mapping[str, int],
        times: tuple[int, int],
        access: StateAccess | None,
    ) -> pa.Table:
        """Return results that a batch recomputes from stored panes."""
        panes = (
            self._session.read.format("mistbow-panes")
            .options(**panes_options(self._url, sources, plan))
            .options(min_ts=times[0], max_ts=times[1])
            .load()
        )
        computation = Computation(plan=plan, after=after, access=access)
        return lower_merge(panes, computation).toArrow()

    def _computation(
        self, resumption: Resumption, access: StateAccess | None, folder: Path
    ) -> Computation:
        return Computation(
            plan=resumption.plan,
            after=resumption.after,
            access=access,
            report_failure=self._failures,
            pane_folder=folder / "panes",
        )

    def _sink(self, lease: QueryLease) -> dict[str, Any]:
        target = lease.target
        return {
            "url": self._url, "site": target.site, "stream": target.stream, "lease": _json(lease),
        }  # fmt: skip


def _folder() -> Path:
    return scratch_folder() / f"query-{next(_query_numbers)}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
