"""Spark Structured Streaming as a streaming library: a session, in a JVM of its own."""

import itertools
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from analytics_worker.accumulating.stored import Account
from analytics_worker.class_archive import java_options
from analytics_worker.computing import Computation
from analytics_worker.scratch import scratch_folder
from analytics_worker.spark.hearsay import teller_of
from analytics_worker.spark.lowering import lower, lower_merge, lower_partial
from analytics_worker.spark.pools import CORRECTIONS, pool_of, use_pool
from analytics_worker.spark.query import (
    FragmentQuery,
    panes_options,
    points_options,
)
from analytics_worker.spark.session import adopt_thread, is_alive, start_session, warm_up
from analytics_worker.spark.support import SUPPORT
from analytics_worker.streaming_library import MergeStart
from analytics_worker.troubles import Trouble
from mistbow.plan.fragments import Merge, Partial, Place, Whole
from mistbow.plan.nodes import Plan
from mistbow.plan.resumption import Resumption
from mistbow.settings import WorkerSettings

_SAFE_ROWS = 400_000
_numbers = itertools.count()


class SparkLibrary:
    """The library over a session; streams are read and written by the agent at ``url``."""

    support = SUPPORT

    def __init__(self, session: SparkSession, url: str) -> None:
        self._session = session
        self._url = url
        self._teller = teller_of(session)

    @classmethod
    def started(cls, settings: WorkerSettings) -> "SparkLibrary":
        """Start a session; takes about 6 s."""
        session = start_session(settings.spark_master, settings.driver_memory, java_options())
        return cls(session, settings.agent_url)

    def warm_up(self) -> None:
        """Run a small query; raises what it fails of."""
        warm_up(self._session)

    def is_alive(self) -> bool:
        """Return whether the JVM still runs."""
        return is_alive(self._session)

    def stop(self) -> None:
        """Stop the session."""
        self._session.stop()

    def adopt_thread(self) -> None:
        """Make the session the calling thread's own."""
        adopt_thread(self._session)

    def weigh(self, salience: int | None) -> None:
        """Have what the calling thread starts run in the pool of a salience, or of corrections."""
        use_pool(self._session, CORRECTIONS if salience is None else pool_of(salience))

    def troubles(self) -> Mapping[str, Trouble]:
        """Return what its queries told of insights."""
        return self._teller.heard.value

    def run_whole(
        self,
        fragment: Whole,
        resumption: Resumption,
        start: int,
        epoch: int,
        account: Account | None,
    ) -> FragmentQuery:
        """Run a query from points to results."""
        plan = resumption.plan
        points = (
            self._session.readStream.format("mistbow")
            .options(**points_options(self._url, fragment.source, plan.panes, plan.grain_ms))
            .options(start=start, max_rows=_SAFE_ROWS)
            .load()
        )
        folder = _folder()
        results = lower(points, self._computation(resumption, account, folder))
        return FragmentQuery(fragment, results, self._sink(fragment.target, epoch), folder)

    def run_partial(self, fragment: Partial, after: int, start: int, epoch: int) -> FragmentQuery:
        """Run a query from points to panes."""
        points = (
            self._session.readStream.format("mistbow")
            .options(
                **points_options(self._url, fragment.source, fragment.panes, fragment.grain_ms)
            )
            .options(start=start, max_rows=_SAFE_ROWS)
            .load()
        )
        panes = lower_partial(points, fragment.panes, after=after)
        sink = {**self._sink(fragment.target, epoch), "kind": "panes"}
        return FragmentQuery(fragment, panes, sink, _folder())

    def run_merge(
        self,
        fragment: Merge,
        resumption: Resumption,
        start: MergeStart,
        epoch: int,
        account: Account | None,
    ) -> FragmentQuery:
        """Run a query from panes to results."""
        plan = resumption.plan
        panes = (
            self._session.readStream.format("mistbow-panes")
            .options(**panes_options(self._url, fragment.sources, plan))
            .options(
                decisions=_json(fragment.decisions),
                target=_json(fragment.target),
                fingerprint=fragment.fingerprint,
                starts=_json(start.starts),
                needs=resumption.needs,
                unsought=_json(start.unsought),
                patience=fragment.patience_ms,
                since=start.since,
                after=min(resumption.after.values()),
                epoch=start.epoch,
            )
            .load()
        )
        folder = _folder()
        results = lower_merge(panes, self._computation(resumption, account, folder))
        sink = {**self._sink(fragment.target, epoch), "decisions": _json(fragment.decisions)}
        return FragmentQuery(fragment, results, sink, folder, start.decided)

    def recompute_from_points(
        self,
        starts: Mapping[Place, int],
        plan: Plan,
        after: Mapping[str, int],
        times: tuple[int, int],
        account: Account | None,
    ) -> pa.Table:
        """Compute results again, in a batch over stored points."""
        parts = [
            self._session.read.format("mistbow")
            .options(**points_options(self._url, place, plan.panes, plan.grain_ms), start=start)
            .options(min_ts=times[0], max_ts=times[1])
            .load()
            for place, start in starts.items()
        ]
        computation = Computation(plan=plan, after=after, account=account)
        return lower(reduce(DataFrame.union, parts), computation).toArrow()

    def recompute_from_panes(
        self,
        sources: Sequence[Place],
        plan: Plan,
        after: Mapping[str, int],
        times: tuple[int, int],
        account: Account | None,
    ) -> pa.Table:
        """Compute results again, in a batch over stored panes."""
        panes = (
            self._session.read.format("mistbow-panes")
            .options(**panes_options(self._url, sources, plan))
            .options(min_ts=times[0], max_ts=times[1])
            .load()
        )
        computation = Computation(plan=plan, after=after, account=account)
        return lower_merge(panes, computation).toArrow()

    def _computation(
        self, resumption: Resumption, account: Account | None, folder: Path
    ) -> Computation:
        return Computation(
            plan=resumption.plan,
            after=resumption.after,
            account=account,
            tell=self._teller,
            kept=folder / "panes",
        )

    def _sink(self, target: Place, epoch: int) -> dict[str, Any]:
        return {"url": self._url, "site": target.site, "stream": target.stream, "epoch": epoch}


def _folder() -> Path:
    return scratch_folder() / f"query-{next(_numbers)}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
