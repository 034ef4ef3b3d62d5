"""Spans of ticks: which of them are to be computed again, and which of these together."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

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
    paces = _paces(plan)
    together = joined([span for each in spans.values() for span in each])
    for bounds in (piece for span in together for piece in _pieces(span)):
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
