"""Corrections: what came too late makes the past right.

A late point still counts in every window that was open when it came. The windows that were
closed are computed again, by the same plan in a batch over the stored stream, and what differs
from the results that stand is written with a higher revision: the number up to which rows were
considered.
"""

import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from analytics_worker.resumption import only, resume, windows_of
from analytics_worker.spark.lowering import as_results
from analytics_worker.spark.query import recompute
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Offset
from mistbow.panes.routing import COLUMNS, metrics_needed, route
from mistbow.plan.nodes import Fragment, Insight, Plan
from mistbow.streams.results import standing
from mistbow.streams.schemas import RESULT_ROWS
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_IDENTITY = ("insight", "key", "ts")
_SAME = 1e-12
_ROWS_AT_ONCE = 200_000
_NEAR_MS = 10_000
"""Spans with no more between them are computed together: to start a batch costs a second."""


@dataclass(frozen=True, slots=True)
class Span:
    """The ticks from ``first`` to ``last``, in ms, both inclusive."""

    first: int
    last: int


@dataclass(slots=True, eq=False)
class Task:
    """The fragment whose results are to be right: the rows before number ``next`` are done."""

    fragment: Fragment
    epoch: int
    next: int
    goal: Offset | None = None


class Corrector:
    """Goes through a source's late rows, in order, and corrects what they touch."""

    def __init__(self, spark: SparkSession, agent: AgentClient) -> None:
        self._spark = spark
        self._agent = agent
        self._lock = threading.Lock()
        self._task: Task | None = None

    def begin(self, fragment: Fragment, epoch: int, since: int) -> int:
        """Correct the results of ``fragment`` from the row numbered ``since`` on.

        What the fragment before had not corrected is done too: returns where the work begins.
        """
        with self._lock:
            if self._task is not None:
                since = min(since, self._task.next)
            self._task = Task(fragment, epoch, next=since)
        return since

    def step(self, frontier: int) -> bool:
        """Correct what the late rows up to a goal touch; returns whether there were any.

        The goal is the head of some steps ago: once the results are complete to its ``frontier``
        (ms), all that the rows before it came too late for has been computed a first time.
        """
        task = self._task
        if task is None:
            return False
        if task.goal is None:
            task.goal = self._agent.offset(task.fragment.source, task.next, _ROWS_AT_ONCE)
        if frontier < task.goal.frontier:
            return False
        end = task.goal.next
        late = self._agent.read(
            task.fragment.source,
            task.next,
            end,
            match={"metric": list(metrics_needed(task.fragment.plan.panes))},
            columns=COLUMNS,
            late=True,
        ).table
        spans = touched(late, task.fragment.plan)
        for together in clusters(spans):
            self._correct(task, together, end)
        with self._lock:
            if task is self._task:  # else another fragment has begun meanwhile, further back
                if late.num_rows:
                    self._note(task, end)
                task.next, task.goal = end, None
        return bool(spans)

    def _note(self, task: Task, corrected: int) -> None:
        attributes = {"corrected": corrected}
        self._agent.advance(task.fragment.target, task.epoch, attributes=attributes)

    def _correct(self, task: Task, spans: dict[str, Span], head: int) -> None:
        fragment = task.fragment
        insights = tuple(
            msgspec.structs.replace(one, since=spans[one.uid].first - 1)
            for one in fragment.plan.insights
            if one.uid in spans
        )
        plan = only(fragment.plan, insights)
        again = resume(plan, 0, ())
        first = min(span.first for span in spans.values())
        last = max(span.last for span in spans.values())
        computed = recompute(
            self._spark,
            self._agent.url,
            fragment,
            plan,
            again.after,
            numbers=(self._agent.seek(fragment.source, again.needs), head),
            times=(again.needs + 1, last),
        )
        computed = _within(computed, insights, spans)
        stored = self._agent.read(
            fragment.target,
            self._agent.seek(fragment.target, first - 1),
            match={"insight": [one.uid for one in insights]},
            min_ts=first,
            max_ts=last,
        ).table
        stored = _within(standing(stored), insights, spans)
        rows = differences(computed, stored, head)
        if rows.num_rows:
            self._agent.append(fragment.target, rows, epoch=task.epoch)
        log.info("corrected", insights=len(insights), rows=rows.num_rows, revision=head)


def touched(late: pa.Table, plan: Plan) -> dict[str, list[Span]]:
    """Return, by insight, the ticks that late rows belong to and came too late for."""
    of_windows: dict[str, set[Span]] = {}
    for batch in late.unify_dictionaries().to_batches():
        routed = route(batch, plan.panes)
        for place, pane in enumerate(plan.panes):
            mine = routed.filter(pc.equal(routed["route"], place))
            if not mine.num_rows:
                continue
            for window in plan.windows:
                if window.pane == pane.id:
                    spans = _closed_ticks(mine, window.size_ms, window.every_ms)
                    of_windows.setdefault(window.id, set()).update(spans)
    return dict(_of_insights(plan, of_windows))


def clusters(spans: dict[str, list[Span]]) -> Iterator[dict[str, Span]]:
    """Part the spans of all insights in time: a point of long ago moves nothing of today."""
    together = _joined([span for each in spans.values() for span in each])
    for bounds in together:
        cluster: dict[str, Span] = {}
        for uid, each in spans.items():
            inside = [span for span in each if bounds.first <= span.first <= bounds.last]
            if inside:
                cluster[uid] = Span(inside[0].first, inside[-1].last)
        yield cluster


def _of_insights(plan: Plan, spans: dict[str, set[Span]]) -> Iterator[tuple[str, list[Span]]]:
    for insight in plan.insights:
        mine = [
            Span(max(span.first, insight.since + 1), span.last)
            for window in windows_of(insight)
            for span in spans.get(window, ())
            if span.last > insight.since
        ]
        if mine:
            yield insight.uid, _joined(mine)


def _joined(spans: list[Span]) -> list[Span]:
    """Return the same ticks, and those of short gaps, as few spans in order."""
    joined: list[Span] = []
    for span in sorted(spans, key=lambda each: each.first):
        if joined and span.first - joined[-1].last <= _NEAR_MS:
            joined[-1] = Span(joined[-1].first, max(joined[-1].last, span.last))
        else:
            joined.append(span)
    return joined


def _closed_ticks(routed: pa.Table, size_ms: int, every_ms: int) -> Iterator[Span]:
    """Yield for each row the ticks t with ts <= t < ts + size and t < due: closed when it came."""
    for ts, due in zip(routed["ts"].to_pylist(), routed["due"].to_pylist(), strict=True):
        first = -(-ts // every_ms) * every_ms
        last = (min(ts + size_ms, due) - 1) // every_ms * every_ms
        if first <= last:
            yield Span(first, last)


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


def differences(computed: pa.Table, stored: pa.Table, revision: int) -> pa.Table:
    """Return the rows that make ``stored`` say what ``computed`` says; shape ``RESULT_ROWS``.

    A row that should not be there is withdrawn by one without a value.
    """
    right = {_identity(row): row["value"] for row in computed.to_pylist()}
    held = {_identity(row): row["value"] for row in stored.to_pylist()}
    changed = {
        identity: value
        for identity, value in right.items()
        if identity not in held or not math.isclose(held[identity], value, rel_tol=_SAME)
    }
    changed |= {identity: None for identity in held if identity not in right}
    composed = pa.table(
        {
            **{
                name: pa.array(
                    [identity[place] for identity in changed], RESULT_ROWS.field(name).type
                )
                for place, name in enumerate(_IDENTITY)
            },
            "value": pa.array(list(changed.values()), pa.float64()),
        }
    )
    return as_results(composed, revision)


def _identity(row: dict[str, object]) -> tuple[object, ...]:
    return tuple(row[name] for name in _IDENTITY)
