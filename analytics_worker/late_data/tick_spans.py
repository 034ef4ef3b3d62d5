"""Spans of ticks: determines which ticks are recomputed, and which ticks share a batch."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analytics.plan.nodes import Plan
from analytics.plan.resumption import windows_of
from analytics.plan.ticks import Ticks

_MAX_GAP_MS = 10_000
"""The longest gap (ms) between spans that are computed in one batch, since starting a batch takes a
second.
"""

_MAX_SPAN_MS = 600_000
"""The longest span (ms) that is computed at once; longer spans are split, so the data fit into
memory.
"""


@dataclass(frozen=True, slots=True)
class TickSpan:
    """The ticks from ``first`` to ``last``, in ms, both inclusive."""

    first: int
    last: int


def closed_ticks(first: int, last: int, due: int, size_ms: int, ticks: Ticks) -> Iterator[TickSpan]:
    """Yield the span of the closed ticks that late points affect; no span if no tick is affected.

    The span contains the ticks t with ``first <= t < last + size_ms`` and ``t < due``. ``first``
    and ``last`` are the times (ms) of the first and the last late point.
    """
    begin = ticks.after(first - 1)
    end = ticks.last(min(last + size_ms, due) - 1)
    if begin <= end:
        yield TickSpan(begin, end)


def spans_of_insights(
    plan: Plan, spans: Mapping[str, Iterable[TickSpan]]
) -> Iterator[tuple[str, list[TickSpan]]]:
    """Yield (insight uid, spans of the insight's ticks) for each insight whose windows have spans.

    ``spans``: window id -> the spans of the window's ticks.
    """
    for insight in plan.insights:
        # The results that are computed at a tick may have the times of points before it.
        ahead = insight.every_ms - 1 if insight.each_point else 0
        own = [
            TickSpan(max(span.first - ahead, insight.since + 1), span.last)
            for window in windows_of(insight)
            for span in spans.get(window, ())
            if span.last > insight.since
        ]
        if own:
            yield insight.uid, merge_spans(own)


def cluster_spans(spans: Mapping[str, list[TickSpan]], plan: Plan) -> Iterator[dict[str, TickSpan]]:
    """Yield clusters of spans that are close in time; each cluster is computed in one batch.

    A cluster is a dict: insight uid -> a span with at least one tick of the insight.
    """
    merged = merge_spans([span for each in spans.values() for span in each])
    yield from _clip(spans, plan, (piece for span in merged for piece in _pieces(span)))


def split_after(
    cluster: Mapping[str, TickSpan], plan: Plan, times: Iterable[int]
) -> Iterator[dict[str, TickSpan]]:
    """Split a cluster after each of the times (ms), in the order of time."""
    first = min(span.first for span in cluster.values())
    last = max(span.last for span in cluster.values())
    bounds: list[TickSpan] = []
    for time in sorted({time for time in times if first <= time < last}):
        bounds.append(TickSpan(first, time))
        first = time + 1
    bounds.append(TickSpan(first, last))
    yield from _clip({uid: [span] for uid, span in cluster.items()}, plan, bounds)


def spans_until(spans: Mapping[str, list[TickSpan]], time: int) -> dict[str, list[TickSpan]]:
    """Return the spans of insights up to a time (ms), without the insights that have none."""
    earlier = {
        uid: [TickSpan(span.first, min(span.last, time)) for span in each if span.first <= time]
        for uid, each in spans.items()
    }
    return {uid: each for uid, each in earlier.items() if each}


def spans_after(spans: Mapping[str, list[TickSpan]], time: int) -> dict[str, list[TickSpan]]:
    """Return the spans of insights after a time (ms), without the insights that have none."""
    later = {
        uid: [TickSpan(max(span.first, time + 1), span.last) for span in each if span.last > time]
        for uid, each in spans.items()
    }
    return {uid: each for uid, each in later.items() if each}


def split_by_rows(
    cluster: Mapping[str, TickSpan], plan: Plan, times: npt.NDArray[np.int64], max_rows: int
) -> Iterator[dict[str, TickSpan]]:
    """Split a cluster into clusters with at most ``max_rows`` results each, in the order of time.

    Results with equal times stay in one cluster, even if they are more than ``max_rows``.
    ``cluster``: insight uid -> the ticks of the insight. ``times``: the sorted times (ms) of the
    results of the cluster.
    """
    ends: list[int] = []
    done = 0
    while len(times) - done > max_rows:
        # The results of one time stay together.
        end = int(times[done + max_rows]) - 1
        if end < times[done]:
            end = int(times[done])
        ends.append(end)
        done = int(np.searchsorted(times, end, side="right"))
    yield from split_after(cluster, plan, ends)


def _clip(
    spans: Mapping[str, list[TickSpan]], plan: Plan, parts: Iterable[TickSpan]
) -> Iterator[dict[str, TickSpan]]:
    """Divide the spans of insights at the bounds of ``parts``; yield a dict for each part.

    ``spans``: insight uid -> spans of ticks. A dict contains insight uid -> a span inside the part
    with at least one tick of the insight. Insights without ticks in the part are omitted, as are
    parts without insights.
    """
    ticks_of = _ticks_by_insight(plan)
    for bounds in parts:
        cluster: dict[str, TickSpan] = {}
        for uid, each in spans.items():
            inside = [
                TickSpan(max(span.first, bounds.first), min(span.last, bounds.last))
                for span in each
                if span.first <= bounds.last and span.last >= bounds.first
            ]
            if inside:
                span = TickSpan(inside[0].first, inside[-1].last)
                if any(ticks.after(span.first - 1) <= span.last for ticks in ticks_of[uid]):
                    cluster[uid] = span
        if cluster:
            yield cluster


def _ticks_by_insight(plan: Plan) -> dict[str, set[Ticks]]:
    """Return a dict: insight uid -> the schedules (``Ticks``) of the insight's windows.

    An insight with a value at each point may have a value at any millisecond, so its schedule is a
    tick at each millisecond.
    """
    shapes = {window.id: window for window in plan.windows}
    return {
        insight.uid: {
            Ticks(1) if insight.each_point else shapes[window].ticks
            for window in windows_of(insight)
        }
        for insight in plan.insights
    }


def merge_spans(spans: Iterable[TickSpan]) -> list[TickSpan]:
    """Return the spans in order; spans that overlap, or with a gap of up to 10 s, are merged."""
    merged: list[TickSpan] = []
    for span in sorted(spans, key=lambda each: each.first):
        if merged and span.first - merged[-1].last <= _MAX_GAP_MS:
            merged[-1] = TickSpan(merged[-1].first, max(merged[-1].last, span.last))
        else:
            merged.append(span)
    return merged


def merge_spans_of_insights(
    one: Mapping[str, list[TickSpan]], other: Mapping[str, list[TickSpan]]
) -> dict[str, list[TickSpan]]:
    """Return the ticks that are in either mapping; insight uid -> spans."""
    return {uid: merge_spans([*one.get(uid, ()), *other.get(uid, ())]) for uid in {**one, **other}}


def _pieces(span: TickSpan) -> Iterator[TickSpan]:
    for first in range(span.first, span.last + 1, _MAX_SPAN_MS):
        yield TickSpan(first, min(first + _MAX_SPAN_MS - 1, span.last))
