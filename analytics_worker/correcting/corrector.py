"""Computes again what came too late touches, and writes what differs."""

import threading
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from analytics_worker.correcting.differences import differences
from analytics_worker.correcting.late_panes import LatePanes
from analytics_worker.correcting.late_points import LatePoints
from analytics_worker.correcting.spans import Span, clusters
from analytics_worker.spark.query import recompute_from_panes, recompute_from_points
from mistbow.client.agent import AgentClient
from mistbow.errors import NotFoundError
from mistbow.plan.fragments import Merge, Place, Whole
from mistbow.plan.nodes import Insight, Plan
from mistbow.plan.resumption import Resumption, only, resume
from mistbow.streams.results import standing
from mistbow.streams.schemas import RAW, RESULT_ROWS
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_NO_ROW = 2**62
_NOTES = {Whole: "corrected", Merge: "decided"}


class Finder(Protocol):
    """Finds in a stream, in its order, what came too late."""

    next: int

    def find(self, frontier: int) -> tuple[dict[str, list[Span]], int] | None:
        """Return the ticks touched, by insight, and the number done then; None: not yet."""
        ...

    def done(self, number: int) -> None:
        """Go on from a number."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """The fragment whose results are to be right, and what finds where they are not."""

    fragment: Whole | Merge
    epoch: int
    finder: Finder


class Corrector:
    """Goes through what came late for one fragment, and corrects what it touches."""

    def __init__(self, spark: SparkSession, agent: AgentClient) -> None:
        self._spark = spark
        self._agent = agent
        self._lock = threading.Lock()
        self._task: _Task | None = None

    def begin(self, fragment: Whole | Merge, epoch: int) -> dict[str, Any]:
        """Correct the results of ``fragment`` from where its target says that it is needed.

        What the fragment before had not corrected is done too: returns notes for the target,
        that say where the work begins.
        """
        target = self._agent.at(fragment.target.site)
        notes = target.info(fragment.target.stream).attributes
        note = _NOTES[type(fragment)]
        with self._lock:
            if isinstance(fragment, Merge):
                finder: Finder = LatePanes(self._agent, fragment, notes.get(note, 0))
            else:
                finder = LatePoints(self._agent, fragment, self._uncorrected(fragment, notes))
            former = self._task
            if former is not None and type(former.fragment) is type(fragment):
                finder.next = min(finder.next, former.finder.next)
            self._task = _Task(fragment, epoch, finder)
        return {note: finder.next}

    def step(self, frontier: int) -> bool:
        """Correct what came late and is ready, ``frontier`` (ms) being how far results are.

        Returns whether there was any.
        """
        task = self._task
        if task is None:
            return False
        found = task.finder.find(frontier)
        if found is None:
            return False
        spans, number = found
        for together in clusters(spans):
            self._correct(task, together)
        with self._lock:
            if task is self._task:  # else another fragment has begun meanwhile, further back
                task.finder.done(number)
                if spans or isinstance(task.fragment, Merge):
                    self._note(task, number)
        return bool(spans)

    def _uncorrected(self, fragment: Whole, notes: dict[str, Any]) -> int:
        """Return the first number whose row may have come too late for a window, uncorrected."""
        covered = set(notes.get("outputs", ()))
        new = tuple(one for one in fragment.plan.insights if one.uid not in covered)
        since: int = notes.get("corrected", 0) if covered else _NO_ROW
        if new:
            needs = resume(only(fragment.plan, new), 0, ()).needs
            source = fragment.source
            since = min(since, self._agent.at(source.site).seek(source.stream, needs))
        return since

    def _note(self, task: _Task, number: int) -> None:
        target = task.fragment.target
        notes = {_NOTES[type(task.fragment)]: number}
        self._agent.at(target.site).advance(target.stream, task.epoch, attributes=notes)

    def _correct(self, task: _Task, spans: dict[str, Span]) -> None:
        fragment, target = task.fragment, task.fragment.target
        insights = tuple(
            msgspec.structs.replace(one, since=spans[one.uid].first - 1)
            for one in fragment.plan.insights
            if one.uid in spans
        )
        plan = only(fragment.plan, insights)
        first = min(span.first for span in spans.values())
        last = max(span.last for span in spans.values())
        computed = self._recompute(fragment, plan, resume(plan, 0, ()), last)
        results = self._agent.at(target.site)
        stored = results.read(
            target.stream,
            results.seek(target.stream, first - 1),
            match={"insight": [one.uid for one in insights]},
            min_ts=first,
            max_ts=last,
        ).table
        revision = 1 + (pc.max(stored["revision"]).as_py() or 0)
        computed = _within(computed, insights, spans)
        rows = differences(computed, _within(standing(stored), insights, spans), revision)
        if rows.num_rows:
            results.append(target.stream, rows, epoch=task.epoch)
        log.info("corrected", insights=len(insights), rows=rows.num_rows, revision=revision)

    def _recompute(
        self, fragment: Whole | Merge, plan: Plan, again: Resumption, last: int
    ) -> pa.Table:
        times = (again.needs + 1, last)
        if isinstance(fragment, Merge) and self._reach_back(fragment, again.needs):
            return recompute_from_panes(
                self._spark, self._agent.url, fragment.sources, plan, again.after, times
            )
        starts = {
            place: self._agent.at(place.site).seek(place.stream, again.needs)
            for place in _points_of(fragment)
        }
        return recompute_from_points(self._spark, self._agent.url, starts, plan, again.after, times)

    def _reach_back(self, fragment: Merge, needs: int) -> bool:
        """Return whether all sites have panes of all points later than ``needs`` (ms)."""
        for place in fragment.sources:
            try:
                info = self._agent.at(place.site).info(place.stream)
            except NotFoundError:
                return False
            if info.attributes.get("begin", _NO_ROW) > needs:
                return False
        return True


def _points_of(fragment: Whole | Merge) -> tuple[Place, ...]:
    if isinstance(fragment, Whole):
        return (fragment.source,)
    return tuple(Place(place.site, RAW) for place in fragment.sources)


def _within(rows: pa.Table, insights: tuple[Insight, ...], spans: dict[str, Span]) -> pa.Table:
    parts = [RESULT_ROWS.empty_table()]
    for insight in insights:
        span = spans[insight.uid]
        mine = pc.and_(
            pc.equal(rows["insight"], insight.uid),
            pc.and_(
                pc.greater_equal(rows["ts"], span.first),
                pc.less_equal(rows["ts"], span.last),
            ),
        )
        parts.append(rows.filter(mine).cast(RESULT_ROWS))
    return pa.concat_tables(parts)
