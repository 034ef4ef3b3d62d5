"""Computes again what came too late touches, and writes what differs."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from analytics_worker.accumulating.stored import Account
from analytics_worker.correcting.accumulated import Accumulated
from analytics_worker.correcting.differences import differences
from analytics_worker.correcting.late_panes import LatePanes
from analytics_worker.correcting.late_points import LatePoints
from analytics_worker.correcting.spans import Span, clusters
from analytics_worker.merging.known import presence
from analytics_worker.results import append_results
from analytics_worker.streaming_library import StreamingLibrary
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
_FAR = 1_000_000
"""So many rows without a late one are noted too, so that nobody goes through them again."""

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
    account: Account | None


class Corrector:
    """Goes through what came late for one fragment, and corrects what it touches."""

    def __init__(self, library: StreamingLibrary, agent: AgentClient) -> None:
        self._library = library
        self._agent = agent
        self._lock = threading.Lock()
        self._task: _Task | None = None
        self._before: LatePoints | None = None
        self._noted = 0
        self._stopping = threading.Event()

    def begin(
        self,
        fragment: Whole | Merge,
        epoch: int,
        decided: int = 0,
        account: Account | None = None,
    ) -> dict[str, Any]:
        """Correct the results of ``fragment`` from where its target says that it is needed.

        Of a merge, the decisions from number ``decided`` on are of its own query. ``account`` is
        where the states of its accumulators are.
        What the fragment before had not corrected is done too: returns notes for the target,
        that say where the work begins.
        """
        target = self._agent.at(fragment.target.site)
        notes = target.info(fragment.target.stream).attributes
        note = _NOTES[type(fragment)]
        with self._lock:
            if isinstance(fragment, Merge):
                finder: Finder = LatePanes(self._agent, fragment, min(notes.get(note, 0), decided))
            else:
                finder = LatePoints(self._agent, fragment, self._uncorrected(fragment, notes))
            former = None if self._task is None else self._task.finder
            if isinstance(former, type(finder)):
                finder.next = min(finder.next, former.next)
            elif isinstance(former, LatePoints):
                # What it had not come to yet is found by it, and computed over all sites.
                former.close()
                self._before = former
            self._task = _Task(fragment, epoch, finder, account)
        return {note: finder.next}

    def step(self, frontier: int) -> bool:
        """Correct what came late and is ready, ``frontier`` (ms) being how far results are.

        Returns whether there was any.
        """
        task = self._task
        if task is None:
            return False
        before = self._before
        if before is None:
            return self._go_through(task, task.finder, frontier)
        corrected = self._go_through(task, before, frontier)
        if before.next >= before.until:
            self._before = None
        return corrected

    def stop(self) -> None:
        """Leave off after the batch at hand; what is left is done by whoever comes next."""
        self._stopping.set()

    def _go_through(self, task: _Task, finder: Finder, frontier: int) -> bool:
        # Between two multiples of its grain there is no tick to wait for.
        grain = task.fragment.grain_ms
        found = finder.find(frontier // grain * grain + grain - 1)
        if found is None:
            return False
        touched, number = found
        # The finder of the fragment before knows insights that are no more.
        there = {insight.uid for insight in task.fragment.plan.insights}
        spans = {uid: each for uid, each in touched.items() if uid in there}
        spans = self._mended(task, spans, frontier)
        for together in clusters(spans, task.fragment.plan):
            if self._stopping.is_set():
                return False
            self._correct(task, together)
        with self._lock:
            if finder is not task.finder:
                finder.done(number)
            elif task is self._task:  # else another fragment has begun meanwhile, further back
                finder.done(number)
                if spans or isinstance(task.fragment, Merge) or number >= self._noted + _FAR:
                    self._note(task, number)
        return bool(spans)

    def _mended(
        self, task: _Task, spans: dict[str, list[Span]], frontier: int
    ) -> dict[str, list[Span]]:
        if task.account is None:
            return spans
        plan, sources = task.fragment.plan, partial(self._sources, task.fragment)
        return Accumulated(self._agent, plan, task.account, sources).mended(spans, frontier)

    def _sources(self, fragment: Whole | Merge, first: int) -> tuple[Place, ...]:
        """Return where the points of a tick and of all after it are."""
        if isinstance(fragment, Whole):
            return (fragment.source,)
        away = self._away(fragment, first)
        return tuple(Place(one.site, RAW) for one in fragment.sources if one.site not in away)

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
        self._noted = number
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
        account = None if task.account is None else task.account.reading
        computed = self._recompute(fragment, plan, resume(plan, 0, ()), first, last, account)
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
        append_results(results, target.stream, rows, task.epoch)
        log.info("corrected", insights=len(insights), rows=rows.num_rows, revision=revision)

    def _recompute(
        self,
        fragment: Whole | Merge,
        plan: Plan,
        again: Resumption,
        first: int,
        last: int,
        account: Account | None,
    ) -> pa.Table:
        library, times = self._library, (again.needs + 1, last)
        if isinstance(fragment, Whole):
            starts = self._starts((fragment.source,), again.needs)
            return library.recompute_from_points(starts, plan, again.after, times, account)
        away = self._away(fragment, first)
        sources = [place for place in fragment.sources if place.site not in away]
        if self._all_panes_are_there(sources, again.needs, last):
            computed = library.recompute_from_panes(sources, plan, again.after, times, account)
        else:
            starts = self._starts([Place(place.site, RAW) for place in sources], again.needs)
            computed = library.recompute_from_points(starts, plan, again.after, times, account)
        missing = pa.array([",".join(sorted(away)) or None] * computed.num_rows, pa.string())
        return computed.set_column(computed.column_names.index("missing"), "missing", missing)

    def _starts(self, places: Sequence[Place], needs: int) -> dict[Place, int]:
        return {place: self._agent.at(place.site).seek(place.stream, needs) for place in places}

    def _away(self, fragment: Merge, first: int) -> set[str]:
        """Return the sites that are missing since before a tick, and have not joined again.

        Also those that were missing in it, and are forgotten since.

        What stands does without them, and is corrected when they are back: who is gone for good
        must not hold up the others' corrections.
        """
        sources = {place.site for place in fragment.sources}
        return {
            gap.site
            for gap in presence(self._agent, fragment.decisions).gaps
            if gap.after < first
            and (gap.until is None or (gap.site not in sources and first <= gap.until))
        }

    def _all_panes_are_there(self, sources: Sequence[Place], needs: int, last: int) -> bool:
        """Return whether all sites have panes of all points from ``needs`` to ``last`` (ms)."""
        for place in sources:
            try:
                info = self._agent.at(place.site).info(place.stream)
            except NotFoundError:
                return False
            if info.attributes.get("begin", _NO_ROW) > needs or info.frontier < last:
                return False
        return True


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
