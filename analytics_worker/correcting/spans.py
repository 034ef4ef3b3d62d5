"""Spans of ticks: which of them are to be computed again, and which of these together."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mistbow.plan.nodes import Plan
from mistbow.plan.resumption import windows_of
from mistbow.plan.ticks import Ticks

_NEAR_MS = 10_000
"""Spans with no more between them are computed together: to start a batch costs a second."""

_LONGEST_MS = 600_000
"""What is longer is computed piece by piece, so that it fits into the memory."""


@dataclass(frozen=True, slots=True)
class Span:
    """The ticks from ``first`` to ``last``, in ms, both inclusive."""

    first: int
    last: int


def closed_ticks(first: int, last: int, due: int, size_ms: int, ticks: Ticks) -> Iterator[Span]:
    """Yield the ticks t with ``first <= t < last + size`` and ``t < due``: closed when it came.

    ``first`` and ``last`` are the times (ms) of the first and of the last point that came late.
    """
    begin = ticks.after(first - 1)
    end = ticks.last(min(last + size_ms, due) - 1)
    if begin <= end:
        yield Span(begin, end)


def of_insights(
    plan: Plan, spans: Mapping[str, Iterable[Span]]
) -> Iterator[tuple[str, list[Span]]]:
    """Yield each insight whose windows have spans, with those of its own ticks."""
    for insight in plan.insights:
        # What is told at a tick may be of points before it.
        ahead = insight.every_ms - 1 if insight.each_point else 0
        mine = [
            Span(max(span.first - ahead, insight.since + 1), span.last)
            for window in windows_of(insight)
            for span in spans.get(window, ())
            if span.last > insight.since
        ]
        if mine:
            yield insight.uid, joined(mine)


def clusters(spans: Mapping[str, list[Span]], plan: Plan) -> Iterator[dict[str, Span]]:
    """Part the spans of all insights of a plan in time: a point of long ago moves nothing of today.

    A part holds at least one tick of each of its insights.
    """
    together = joined([span for each in spans.values() for span in each])
    yield from _parted(spans, plan, (piece for span in together for piece in _pieces(span)))


def few_rows(
    cluster: Mapping[str, Span], plan: Plan, times: npt.NDArray[np.int64], most: int
) -> Iterator[dict[str, Span]]:
    """Part a cluster in time, so that a part has at most so many results, or one tick.

    ``times`` are those (ms) of its results, in order. A part is as in ``clusters``.
    """
    first = min(span.first for span in cluster.values())
    last = max(span.last for span in cluster.values())
    bounds: list[Span] = []
    done = 0
    while len(times) - done > most:
        # What is told at once stays together.
        end = int(times[done + most]) - 1
        if end < times[done]:
            end = int(times[done])
        bounds.append(Span(first, end))
        first, done = end + 1, int(np.searchsorted(times, end, side="right"))
    bounds.append(Span(first, last))
    yield from _parted({uid: [span] for uid, span in cluster.items()}, plan, bounds)


def _parted(
    spans: Mapping[str, list[Span]], plan: Plan, parts: Iterable[Span]
) -> Iterator[dict[str, Span]]:
    """Yield what each part has of the spans of insights, where these have a tick in it."""
    paces = _paces(plan)
    for bounds in parts:
        cluster: dict[str, Span] = {}
        for uid, each in spans.items():
            inside = [
                Span(max(span.first, bounds.first), min(span.last, bounds.last))
                for span in each
                if span.first <= bounds.last and span.last >= bounds.first
            ]
            if inside:
                span = Span(inside[0].first, inside[-1].last)
                if any(ticks.after(span.first - 1) <= span.last for ticks in paces[uid]):
                    cluster[uid] = span
        if cluster:
            yield cluster


def _paces(plan: Plan) -> dict[str, set[Ticks]]:
    """Return, by insight, when it may have a value."""
    shapes = {window.id: window for window in plan.windows}
    return {
        insight.uid: {
            Ticks(1) if insight.each_point else shapes[window].ticks
            for window in windows_of(insight)
        }
        for insight in plan.insights
    }


def joined(spans: Iterable[Span]) -> list[Span]:
    """Return the same ticks, and those of short gaps, as few spans in order."""
    found: list[Span] = []
    for span in sorted(spans, key=lambda each: each.first):
        if found and span.first - found[-1].last <= _NEAR_MS:
            found[-1] = Span(found[-1].first, max(found[-1].last, span.last))
        else:
            found.append(span)
    return found


def _pieces(span: Span) -> Iterator[Span]:
    for first in range(span.first, span.last + 1, _LONGEST_MS):
        yield Span(first, min(first + _LONGEST_MS - 1, span.last))
