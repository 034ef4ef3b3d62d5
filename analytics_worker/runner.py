"""Runs one fragment: starts its query, replaces it when the fragment changes, revives it.

A changed fragment starts as a second query beside the first, from an earlier number, and takes
over when it has caught up: results never pause. Both write under one epoch; what both emit is
equal, and the first write of a row counts.
"""

import threading
import time

from pyspark.sql import SparkSession

from analytics_worker.corrections import Corrector
from analytics_worker.resumption import only, resume
from analytics_worker.spark.query import Counts, FragmentQuery
from analytics_worker.spark.session import adopt_thread, is_alive
from mistbow.client.agent import AgentClient
from mistbow.errors import MistbowError
from mistbow.plan.nodes import Fragment
from mistbow.plan.status import FragmentStatus, State
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_PAUSE = 0.1
_BACK_OFF = (1.0, 2.0, 4.0, 8.0)
_FENCED = "FencedError"
_NO_ROW = 2**62
_FAILURES_TOLD = 3
"""So many failures in a row are told as such; it goes on trying."""


class FragmentRunner:
    """The queries of one fragment, watched by a thread of their own."""

    def __init__(self, spark: SparkSession, agent: AgentClient, fragment: Fragment) -> None:
        self._spark = spark
        self._agent = agent
        self._wanted = fragment
        self._active: FragmentQuery | None = None
        self._candidate: FragmentQuery | None = None
        self._epoch: int | None = None
        self._frontier = 0
        self._error: str | None = None
        self._failures = 0
        self._retry_at = 0.0
        self._fenced = False
        self._past = Counts()
        self._stopped = threading.Event()
        self._corrector = Corrector(spark, agent)
        self._threads = [
            threading.Thread(target=self._watch, name=f"run-{fragment.id}", daemon=True),
            threading.Thread(target=self._correct, name=f"correct-{fragment.id}", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def accept(self, fragment: Fragment) -> None:
        """Run this version of the fragment from now on."""
        self._wanted = fragment
        if self._fenced:
            self._epoch, self._fenced, self._error = None, False, None

    def status(self) -> FragmentStatus:
        """Return how far the fragment is."""
        queries = [query for query in (self._active, self._candidate) if query is not None]
        counts = sum((query.counts for query in queries), start=self._past)
        state: State = "starting" if self._active is None else "running"
        if self._fenced:
            state = "fenced"
        elif self._failures >= _FAILURES_TOLD:
            state = "failed"
        return FragmentStatus(
            id=self._wanted.id,
            fingerprint=self._wanted.fingerprint,
            state=state,
            frontier=self._frontier,
            error=self._error,
            queries=len(queries),
            batches=counts.batches,
            rows_dropped=counts.rows_dropped,
            computed_windows=counts.computed_windows,
        )

    def stop(self) -> None:
        """Stop everything; returns when nothing runs any more."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        self._drop_queries()

    def _watch(self) -> None:
        adopt_thread(self._spark)
        while not self._stopped.wait(_PAUSE):
            try:
                self._step()
            except MistbowError as error:
                self._fail(f"{type(error).__name__}: {error.message}")
            except Exception as error:
                if not is_alive(self._spark):
                    return
                self._fail(str(error))

    def _step(self) -> None:
        if self._fenced:
            return
        self._observe()
        if self._active is not None and self._active.frontier > self._frontier:
            self._advance(self._active)
        if time.monotonic() < self._retry_at:
            return
        newest = self._candidate or self._active
        if self._candidate is None and (newest is None or newest.fragment != self._wanted):
            self._candidate = self._start(self._wanted)
        if self._candidate is not None and self._candidate.frontier >= self._caught_up_at():
            self._take_over(self._candidate)

    def _observe(self) -> None:
        """Take in how far the queries are; what has failed goes, and the other one stays."""
        for query in (self._active, self._candidate):
            if query is None or self._fenced:
                continue
            query.observe()
            if query.error is not None:
                if query is self._active:
                    self._active = None
                else:
                    self._candidate = None
                self._end(query)
                self._fail(query.error)

    def _start(self, fragment: Fragment) -> FragmentQuery:
        if self._epoch is None:
            self._epoch = self._agent.claim(fragment.target).epoch
        target = self._agent.info(fragment.target)
        self._frontier = max(target.frontier, 0)
        covered = set(target.attributes.get("outputs", ()))
        resumption = resume(fragment.plan, self._frontier, covered)
        start = self._agent.seek(fragment.source, resumption.needs)
        log.info(
            "start", fragment=fragment.id, fingerprint=fragment.fingerprint, number=start,
            insights=len(fragment.plan.insights), frontier=self._frontier,
        )  # fmt: skip
        return FragmentQuery(
            self._spark, self._agent.url, fragment, resumption, start=start, epoch=self._epoch
        )

    def _caught_up_at(self) -> int:
        running = self._active.frontier if self._active is not None else 0
        return max(running, self._frontier, 1)

    def _take_over(self, candidate: FragmentQuery) -> None:
        assert self._epoch is not None  # noqa: S101 - claimed before the candidate was started
        fragment = candidate.fragment
        begun = self._corrector.begin(fragment, self._epoch, self._uncorrected(fragment))
        notes = {"outputs": [one.uid for one in fragment.plan.insights], "corrected": begun}
        self._agent.advance(fragment.target, self._epoch, attributes=notes)
        former, self._active, self._candidate = self._active, candidate, None
        if former is not None:
            self._end(former)
        log.info("running", fragment=fragment.id, frontier=candidate.frontier)

    def _uncorrected(self, fragment: Fragment) -> int:
        """Return the first number whose row may have come too late for a window, uncorrected."""
        notes = self._agent.info(fragment.target).attributes
        covered = set(notes.get("outputs", ()))
        new = tuple(one for one in fragment.plan.insights if one.uid not in covered)
        since: int = notes.get("corrected", 0) if covered else _NO_ROW
        if new:
            needs = resume(only(fragment.plan, new), 0, ()).needs
            since = min(since, self._agent.seek(fragment.source, needs))
        return since

    def _advance(self, active: FragmentQuery) -> None:
        assert self._epoch is not None  # noqa: S101 - claimed before the query was started
        self._agent.advance(active.fragment.target, self._epoch, frontier=active.frontier)
        self._frontier = active.frontier
        if active.fragment == self._wanted:
            self._error, self._failures = None, 0

    def _correct(self) -> None:
        adopt_thread(self._spark)
        took = 0.0
        while not self._stopped.wait(_rest(took)):
            if self._active is None or self._fenced:
                continue
            began = time.monotonic()
            try:
                self._corrector.step(self._frontier)
            except MistbowError as error:
                log.warning("correction put off", reason=error.message)
            except Exception as error:
                if not is_alive(self._spark):
                    return
                log.warning("correction put off", reason=str(error)[:500])
            took = time.monotonic() - began

    def _fail(self, reason: str) -> None:
        self._error = reason.strip().splitlines()[0][:500] if reason.strip() else "unknown"
        if _FENCED in reason:
            self._fenced = True
            self._drop_queries()
        self._retry_at = time.monotonic() + _BACK_OFF[min(self._failures, len(_BACK_OFF) - 1)]
        self._failures += 1
        log.warning("fragment failed", fragment=self._wanted.id, reason=reason[:2000])

    def _drop_queries(self) -> None:
        for query in (self._candidate, self._active):
            if query is not None:
                self._end(query)
        self._active = self._candidate = None

    def _end(self, query: FragmentQuery) -> None:
        self._past += query.counts
        query.stop()


def _rest(took: float) -> float:
    """Return how long (s) to leave the stream alone after a batch of corrections beside it."""
    return min(max(1.0, 4 * took), 10.0)
