"""The work of a fragment: how much each kind of node in its plan has to do per second.

The kinds are few, so that their coefficients can be learned from few fragments, and a fragment that
never ran is estimated from others with nodes of the same kinds.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from analytics.plan.expressions import Measure, TickSeries, walk
from analytics.plan.fragments import Fragment, Merge, Partial
from analytics.plan.functions import AnyFunction, Function, UserOperator, spec_of
from analytics.plan.nodes import Pane, Plan, Window, expressions_of
from analytics.plan.point_aggregates import history_windows
from analytics_enabler.catalogue import AnySeries, SeriesIndex
from analytics_enabler.scheduling.driver.traffic import (
    POINTS_PER_S,
    estimate_results,
    key_count,
    matching_series,
    sampled_share,
)

_FUNCTION_KINDS = ("measure", "forecast", "operator")
"""The kinds of functions, by the cost of a value."""

POINT_KINDS = frozenset({"point", "routed", "carried", "window_point"})
"""The kinds whose units are proportional to the points per second."""

BATCH_KINDS = frozenset({"batch", "source", "append"})
"""The kinds whose units are proportional to the micro-batches per second."""

_PROMISE_MS = 5000
"""The interval (ms) of ticks beyond which a tick has a second micro-batch."""

MAX_BATCHES_PER_S = 3.0
"""The maximum number of micro-batches per second; otherwise, a query has one per tick."""

SeriesRates = Mapping[tuple[str, str], float]
"""(site, metric) -> the mean points per second of a series of this metric there."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """The work of a fragment: kind -> units per second, for CPU time and for written bytes.

    The kinds of CPU time: ``fragment``: 1; ``batch``: micro-batches; ``point``: points or panes
    that are read; ``routed``: points × panes; ``pane``: panes that close; ``carried``: points in
    panes; ``source``: micro-batches × sites of a merge; ``window``: panes that are merged;
    ``window_point``: points in windows; ``insight``: ticks of insights; ``measure``: values of
    functions that need points; ``forecast``: forecasts, which need a hundred times the CPU time
    of other values; ``operator``: values of operators of other packages, whose cost is unknown
    before they run; ``result``: results. The kinds of bytes: ``append``, ``pane``, ``carried``,
    ``result``.
    """

    cpu: Mapping[str, float]
    written: Mapping[str, float]

    @property
    def points_per_s(self) -> float:
        """The points, or the panes of a merge, that the fragment reads per second."""
        return self.cpu.get("point", 0.0)

    def as_measured(self, points_per_s: float, batches_per_s: float) -> "Work":
        """Return the work of a fragment that reads so many points, in so many micro-batches.

        A busy worker computes several ticks in one micro-batch. Zero: not measured.
        """
        factors: dict[str, float] = {}
        if points_per_s > 0 and self.points_per_s > 0:
            factors |= dict.fromkeys(POINT_KINDS, points_per_s / self.points_per_s)
        if batches_per_s > 0 and self.cpu.get("batch", 0.0) > 0:
            factors |= dict.fromkeys(BATCH_KINDS, batches_per_s / self.cpu["batch"])
        cpu, written = (
            {kind: units * factors.get(kind, 1.0) for kind, units in each.items()}
            for each in (self.cpu, self.written)
        )
        return Work(cpu=cpu, written=written)


def work_of(fragment: Fragment, series: AnySeries, rates: SeriesRates) -> Work:
    """Return the work of a fragment; ``series``: the series at all sites."""
    sites = {location.data_site for location in fragment.sources}
    here = SeriesIndex.of(series).at(sites)
    panes = fragment.panes if isinstance(fragment, Partial) else fragment.plan.panes
    appends = min(1000 / fragment.grain_ms, MAX_BATCHES_PER_S)
    batches = appends * (1 if fragment.grain_ms <= _PROMISE_MS else 2)
    cpu: dict[str, float] = defaultdict(float, fragment=1.0, batch=batches)
    written: dict[str, float] = defaultdict(float, append=appends)
    made = _pane_work(panes, here, rates)
    if isinstance(fragment, Merge):
        cpu["point"], cpu["source"] = made["pane"], batches * len(sites)
        cpu["carried"] = made["carried"]
    else:
        cpu.update(made)
    if isinstance(fragment, Partial):
        written["pane"], written["carried"] = made["pane"], made["carried"]
    else:
        cpu.update(_window_work(fragment.plan, here, rates))
        cpu.update(_function_work(fragment.plan, here, rates))
        written["result"] = cpu["result"]
    return Work(cpu=dict(cpu), written=dict(written))


def _points_per_s(panes: Sequence[Pane], series: SeriesIndex, rates: SeriesRates) -> float:
    """Return the points per second that at least one pane reads."""
    read = matching_series(panes, series)
    return sum(rates.get(key, POINTS_PER_S) * number for key, number in read.items())


def _pane_work(panes: Sequence[Pane], series: SeriesIndex, rates: SeriesRates) -> dict[str, float]:
    work = {"point": _points_per_s(panes, series, rates), "routed": 0.0, "pane": 0.0}
    for pane in panes:
        routed, keys = _points_per_s([pane], series, rates), key_count(pane, series)
        work["routed"] += routed
        # A key without points has no pane.
        work["pane"] += min(keys * 1000 / pane.width_ms, routed)
    work["carried"] = sum(_carried_points(pane, series, rates) for pane in panes)
    return work


def _carried_points(pane: Pane, series: SeriesIndex, rates: SeriesRates) -> float:
    """Return the points per second that the panes contain."""
    if not {"points", "sample"} & set(pane.contents):
        return 0.0
    routed = _points_per_s([pane], series, rates)
    read = sum(matching_series([pane], series).values())
    share = sampled_share(pane, routed, key_count(pane, series), routed / max(read, 1))
    return routed * share


def _window_work(plan: Plan, series: SeriesIndex, rates: SeriesRates) -> dict[str, float]:
    panes = {pane.id: pane for pane in plan.panes}
    with_history = history_windows(plan)
    work = dict.fromkeys(("window", "window_point"), 0.0)
    for window in plan.windows:
        pane = panes[window.pane]
        ticks, keys = 1000 / window.every_ms, key_count(pane, series)
        # Older points of a window with a history are merged or sorted already.
        span_ms = window.every_ms if window.id in with_history else window.span_ms
        work["window"] += ticks * keys * max(span_ms / pane.width_ms, 1.0)
        if "points" in window.contents:
            carried = _carried_points(pane, series, rates)
            work["window_point"] += ticks * carried * span_ms / 1000
    work["insight"] = sum(1000 / insight.every_ms for insight in plan.insights)
    points = _points_per_s(plan.panes, series, rates)
    work["result"] = estimate_results(plan, series, points) or 0.0
    return work


def _function_work(plan: Plan, series: SeriesIndex, rates: SeriesRates) -> dict[str, float]:
    """Return the values per second of functions that need points, or values at several ticks."""
    panes = {pane.id: pane for pane in plan.panes}
    windows = {window.id: window for window in plan.windows}
    pane_of = {id: panes[window.pane] for id, window in windows.items()}
    work = dict.fromkeys(_FUNCTION_KINDS, 0.0)
    for insight in plan.insights:
        ticks = 1000 / insight.every_ms
        for node in expressions_of(insight):
            match node:
                case Measure(window=window) if _needs_points(node, windows[window]):
                    if insight.each_point:
                        nth = 1 if insight.counted is None else insight.counted.every
                        values = _points_per_s([pane_of[window]], series, rates) / nth
                    else:
                        values = key_count(pane_of[window], series) * ticks
                case TickSeries(by=by):
                    reads = (each.window for each in walk(node) if isinstance(each, Measure))
                    first = next(reads, None) if by else None
                    values = ticks * (1 if first is None else key_count(pane_of[first], series))
                case _:
                    continue
            work[_kind(node.function)] += values
    return work


def _kind(function: AnyFunction) -> str:
    if isinstance(function, UserOperator):
        return "operator"
    return "forecast" if function == "FORECAST" else "measure"


def _needs_points(measure: Measure, window: Window) -> bool:
    if not isinstance(measure.function, str):
        return True
    function: Function = measure.function
    return "points" in window.contents or spec_of(function).content == "points"
