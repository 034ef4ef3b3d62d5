"""Computes again what came too late touches, and writes what differs."""

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics_worker.accumulating.stored import Account
from analytics_worker.correcting.accumulated import Accumulated
from analytics_worker.correcting.differences import differences
from analytics_worker.correcting.late_panes import LatePanes
from analytics_worker.correcting.late_points import LatePoints
from analytics_worker.correcting.recomputing import Part, Recomputing, away
from analytics_worker.correcting.spans import Span, clusters, few_rows
from analytics_worker.results import append_results
from analytics_worker.streaming_library import StreamingLibrary
from mistbow.client.agent import AgentClient
from mistbow.plan.fragments import Merge, Place, Whole
from mistbow.plan.resumption import only, resume
from mistbow.streams.results import standing
from mistbow.streams.schemas import RAW, RESULT_ROWS
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_NO_ROW = 2**62
_FAR = 1_000_000
"""So many rows without a late one are noted too, so that nobody goes through them again."""

_MOST_ROWS = 100_000
"""What has more results is corrected piece by piece, so that it fits into the memory."""

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
        self._agent = agent
        self._recomputing = Recomputing(library, agent)
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
            for piece in self._few_rows(task, together):
                for part in self._recomputing.parts(task.fragment, piece):
                    if self._stopping.is_set():
                        return False
                    self._correct(task, part)
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
        missing = away(self._agent, fragment, first)
        return tuple(Place(one.site, RAW) for one in fragment.sources if one.site not in missing)

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

    def _few_rows(self, task: _Task, spans: dict[str, Span]) -> Iterator[dict[str, Span]]:
        """Part what is to be corrected together, so that it fits into the memory."""
        times = np.sort(self._stored(task, spans, ["ts"])["ts"].to_numpy())
        return few_rows(spans, task.fragment.plan, times, _MOST_ROWS)

    def _correct(self, task: _Task, part: Part) -> None:
        fragment, target = task.fragment, task.fragment.target
        account = None if task.account is None else task.account.reading
        computed = self._recomputing.compute(part, fragment.plan, account)
        computed, unanswered = answered(computed)
        if unanswered:
            # What stands was right before, and to ask again and again would hold up the others.
            log.warning("correction put off", reasons=unanswered)
        spans = {uid: span for uid, span in part.spans.items() if uid not in unanswered}
        if not spans:
            return
        if isinstance(fragment, Merge):
            computed = _done_without(computed, part.away)
        stored = self._stored(task, spans)
        revision = 1 + (pc.max(stored["revision"]).as_py() or 0)
        rows = differences(_within(computed, spans), _within(standing(stored), spans), revision)
        append_results(self._agent.at(target.site), target.stream, rows, task.epoch)
        log.info("corrected", insights=len(spans), rows=rows.num_rows, revision=revision)

    def _stored(
        self, task: _Task, spans: Mapping[str, Span], columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return the results that are stored for insights, from the first tick to the last."""
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


def answered(computed: pa.Table) -> tuple[pa.Table, dict[str, str]]:
    """Return the rows with results, and why operators of some insights, by uid, gave no answer.

    A row with neither a value nor a text tells that one of other packages was slow or rested:
    of such an insight, a result that is not there is no reason to withdraw one.
    """
    told = pc.or_(pc.is_valid(computed["value"]), pc.is_valid(computed["text"]))
    rest = computed.filter(pc.invert(told))
    reasons = zip(rest["insight"].to_pylist(), rest["missing"].to_pylist(), strict=True)
    return computed.filter(told), dict(reasons)


def _done_without(computed: pa.Table, sites: Collection[str]) -> pa.Table:
    missing = pa.array([",".join(sorted(sites)) or None] * computed.num_rows, pa.string())
    return computed.set_column(computed.column_names.index("missing"), "missing", missing)


def _within(rows: pa.Table, spans: Mapping[str, Span]) -> pa.Table:
    parts = [RESULT_ROWS.empty_table()]
    for uid, span in spans.items():
        mine = pc.and_(
            pc.equal(rows["insight"], uid),
            pc.and_(
                pc.greater_equal(rows["ts"], span.first),
                pc.less_equal(rows["ts"], span.last),
            ),
        )
        parts.append(rows.filter(mine).cast(RESULT_ROWS))
    return pa.concat_tables(parts)
