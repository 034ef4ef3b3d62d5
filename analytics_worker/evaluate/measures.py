"""The values of measures (functions of windows), at each tick or at each point."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.plan.expressions import Expression, Label, Measure, Scalar
from analytics.plan.functions import ACCUMULATED, CONTENTS, UserOperator, spec_of
from analytics.plan.nodes import Counted, Insight, Plan, Window
from analytics.plan.point_aggregates import history_windows, is_ordered
from analytics.plan.resumption import windows_of
from analytics.plan.sampling import ProbabilitySampling
from analytics.plan.ticks import Ticks
from analytics_worker.evaluate.accumulator_values import values_at_points, values_at_ticks
from analytics_worker.evaluate.finalize import finalize, finalize_aggregates
from analytics_worker.evaluate.history.aggregates import Aggregates
from analytics_worker.evaluate.history.elements import PointHistory
from analytics_worker.evaluate.history.window_history import WindowHistory
from analytics_worker.evaluate.history.window_order import WindowOrder
from analytics_worker.evaluate.keyed_values import KeyedValues, join_points
from analytics_worker.evaluate.labels import (
    labels,
    latest_at_ticks,
    latest_at_times,
    latest_of_history,
)
from analytics_worker.evaluate.point_windows import (
    EvaluationTime,
    WindowPoints,
    counted_times,
    finalize_at,
    finalize_spans,
    merge_at,
)
from analytics_worker.evaluate.ranked_values import ranked_at
from analytics_worker.evaluate.sample_estimates import finalize_sample
from analytics_worker.panes.routing import key_of
from analytics_worker.stateful.accumulators import (
    Accumulator,
    AccumulatorOutput,
    StateStore,
    accumulate,
)


class PlanWindows:
    """The windows (``WINDOWED``) of a plan that are evaluated together.

    ``states``: the store with the states of accumulators before these windows. ``history``: the
    points of the windows whose rows contain only new points; None: the rows contain all points.
    """

    def __init__(
        self,
        windows: pa.Table,
        plan: Plan,
        states: StateStore,
        history: PointHistory | None = None,
    ) -> None:
        panes = {pane.id: pane for pane in plan.panes}
        self.states = states
        self.shapes = {window.id: window for window in plan.windows}
        self.by = {window.id: frozenset(panes[window.pane].by) for window in plan.windows}
        self.sampling = {window.id: panes[window.pane].source.sampling for window in plan.windows}
        self._tables = _by_window(windows, plan)
        self._rows: dict[str, pa.Table] = {}
        self._outputs: dict[str, list[AccumulatorOutput]] = {}
        self._history = history
        self._with_history = frozenset[str]() if history is None else history_windows(plan)
        self._histories: dict[str, WindowHistory] = {}
        self._orders: dict[str, WindowOrder] = {}
        self._routes = {pane.id: route for route, pane in enumerate(plan.panes)}
        # All rows: windows with an offset are read at the points of other windows.
        self._bounds = pc.min_max(windows["tick"]).as_py()

    def is_empty(self, insight: Insight) -> bool:
        """Return whether no window of an insight has rows."""
        return not any(self._tables[window].num_rows for window in windows_of(insight))

    def rows(self, window: str) -> pa.Table:
        """Return the rows of the window with the id ``window``: a row for each tick and key."""
        rows = self._rows.get(window)
        if rows is None:
            rows = _at_ticks(self._tables[window], self.shapes[window].ticks)
            self._rows[window] = rows
        return rows

    def has_history(self, id: str) -> bool:
        """Return whether the older points of a window are in a history, not in the rows."""
        return self._history is not None and id in self._with_history

    def history(self, id: str) -> WindowHistory:
        """Return the history of a window that has a history."""
        found = self._histories.get(id)
        if found is None:
            found = self._histories[id] = WindowHistory(*self._history_of(id))
        return found

    def order(self, id: str) -> WindowOrder:
        """Return the ordered values of a window that has a history."""
        found = self._orders.get(id)
        if found is None:
            found = self._orders[id] = WindowOrder(*self._history_of(id))
        return found

    def _history_of(self, id: str) -> tuple[Window, int, PointHistory, int, int]:
        assert self._history is not None  # noqa: S101 - see ``has_history``
        window = self.shapes[id]
        route = self._routes[window.pane]
        return window, route, self._history, self._bounds["min"], self._bounds["max"]

    def accumulate(self, measure: Expression) -> tuple[Accumulator, list[AccumulatorOutput]]:
        """Return the accumulator of a measure, and the accumulator's outputs for all rows.

        The first call stores the accumulator's new states; later calls return the same outputs.
        """
        if not isinstance(measure, Measure):
            raise TypeError(f"{type(measure).__name__} does not accumulate")
        accumulator = Accumulator.of(measure, self.shapes[measure.window])
        outputs = self._outputs.get(accumulator.id)
        if outputs is None:
            outputs = accumulate(accumulator, self.rows(measure.window), self.states)
            self._outputs[accumulator.id] = outputs
        return accumulator, outputs


class Measures(Protocol):
    """The interface to the values of measures and labels, at ticks or at points."""

    def values(self, measure: Measure) -> KeyedValues:
        """Return the values of a measure: one for each key at each tick, or time of a point."""
        ...

    def labels(self, label: Label) -> KeyedValues:
        """Return the values of a label: one for each key at each tick, or time of a point."""
        ...


class TickMeasures:
    """The measures of insights that have a value at each tick."""

    def __init__(self, windows: PlanWindows) -> None:
        self._windows = windows

    def values(self, measure: Measure) -> KeyedValues:
        """Return the values of a measure: one value for each tick and key."""
        windows, function = self._windows, measure.function
        by = windows.by[measure.window]
        if function in ACCUMULATED:
            _, outputs = windows.accumulate(measure)
            return KeyedValues(*values_at_ticks(outputs), by)
        rows = windows.rows(measure.window)
        sampling = windows.sampling[measure.window]
        if isinstance(sampling, ProbabilitySampling):
            if not isinstance(function, UserOperator) and spec_of(function).content is None:
                return KeyedValues(rows, finalize_sample(function, rows, sampling), by)
            rows = rows.filter(pc.greater(rows["count"], 0))
        if measure.other is not None:
            rows = join_points(rows, windows.rows(measure.other))
        return KeyedValues(rows, finalize(function, rows, measure.parameters), by)

    def labels(self, label: Label) -> KeyedValues:
        """Return the values of a label: one text for each tick and key."""
        latest = latest_at_ticks(self._windows.rows(_measure_of(label).window))
        return KeyedValues(*labels(label, latest), frozenset(label.by))


class PointMeasures:
    """The measures of an insight that has a value at each point, or at each n-th point.

    Each measure is evaluated at the times of all points in any window of the insight, so the
    operands of an expression can be joined by time.
    """

    def __init__(self, windows: PlanWindows, insight: Insight) -> None:
        self._windows = windows
        self._insight = insight
        self._points: dict[str, WindowPoints] = {}
        self._merged: dict[str, tuple[pa.Table, Aggregates]] = {}
        self._times: dict[frozenset[str], list[EvaluationTime]] = {}

    def values(self, measure: Measure) -> KeyedValues:
        """Return the values of a measure: one value for each evaluation time and key."""
        by = self._windows.by[measure.window]
        if measure.function in ACCUMULATED:
            _, outputs = self._windows.accumulate(measure)
            values = KeyedValues(*values_at_points(outputs), by)
            if self._insight.counted is None:
                return values
            return values.filter(_is_among(values.rows, self._times_of(by)))
        if self._windows.shapes[measure.window].points is not msgspec.UNSET:
            _, outputs = self._windows.accumulate(measure)
            return KeyedValues(*finalize_spans(measure, outputs), by)
        if self._windows.has_history(measure.window):
            if is_ordered(measure.function):
                order = self._windows.order(measure.window)
                return KeyedValues(*ranked_at(measure, order, self._times_of(by)), by)
            rows, merged = self._merged_of(measure.window)
            return KeyedValues(rows, finalize_aggregates(measure.function, merged), by)
        points = [self._points_of(id) for id in measure.windows]
        return KeyedValues(*finalize_at(measure, points, self._times_of(by)), by)

    def labels(self, label: Label) -> KeyedValues:
        """Return the values of a label: one text for each evaluation time and key."""
        by, window = frozenset(label.by), _measure_of(label).window
        times = self._times_of(by)
        if self._windows.has_history(window):
            latest = latest_of_history(label, self._windows.history(window), times)
        else:
            latest = latest_at_times(label, self._points_of(window), times)
        return KeyedValues(*labels(label, latest), by)

    def _merged_of(self, id: str) -> tuple[pa.Table, Aggregates]:
        """Return the times and keys at which a window has points, and the merged points."""
        found = self._merged.get(id)
        if found is None:
            times = self._times_of(self._windows.by[id])
            found = merge_at(self._windows.history(id), times)
            self._merged[id] = found
        return found

    def _points_of(self, id: str) -> WindowPoints:
        points = self._points.get(id)
        if points is None:
            points = WindowPoints.of(self._windows.shapes[id], self._windows.rows(id))
            self._points[id] = points
        return points

    def _times_of(self, by: frozenset[str]) -> list[EvaluationTime]:
        """Return the evaluation times of the insight for keys with the attributes ``by``, sorted by
        time.

        Only windows whose keys contain these attributes contribute the times of their points.
        """
        times = self._times.get(by)
        if times is None:
            found = self._find_times(by)
            times = self._times[by] = sorted(found, key=lambda each: (each.ts, each.key))
        return times

    def _find_times(self, by: frozenset[str]) -> set[EvaluationTime]:
        if self._insight.counted is not None:
            return {_project(time, by) for time in self._counted_times(self._insight.counted)}
        found: set[EvaluationTime] = set()
        for id in windows_of(self._insight):
            if by == self._windows.by[id]:
                found |= set(self._points_of(id).times())
            elif by < self._windows.by[id]:
                found |= {_project(time, by) for time in self._points_of(id).times()}
        return found

    def _counted_times(self, counted: Counted) -> list[EvaluationTime]:
        counts, outputs = zip(*map(self._windows.accumulate, counted.counts), strict=True)
        return counted_times(counted.every, counts, outputs, self._windows.states)


def _by_window(windows: pa.Table, plan: Plan) -> dict[str, pa.Table]:
    """Return a dict: window id -> the rows of the window, in their original order."""
    indices = windows["window"].to_numpy()
    order = np.argsort(indices, kind="stable")
    bounds = np.searchsorted(indices[order], np.arange(len(plan.windows) + 1))
    ordered = windows.drop_columns(list(CONTENTS)).take(order)
    return {
        # Lists are copied, because the lists of a slice have the offsets of the whole column.
        window.id: windows.take(order[start:end])
        if window.contents
        else ordered.slice(start, end - start)
        for window, (start, end) in zip(plan.windows, pairwise(bounds.tolist()), strict=True)
    }


def _at_ticks(rows: pa.Table, ticks: Ticks) -> pa.Table:
    """Return the rows at ticks, without rows at other times.

    For a time of day, rows are computed at the times with and without daylight saving; only one of
    these times is a tick.
    """
    if len(ticks.phases) == 1:
        return rows
    valid = [tick for tick in pc.unique(rows["tick"]).to_pylist() if ticks.includes(tick)]
    return rows.filter(pc.is_in(rows["tick"], pa.array(valid, pa.int64())))


def _measure_of(label: Label) -> Measure:
    if not isinstance(label.latest, Measure):
        raise TypeError(f"a label must read a Measure, not a {type(label.latest).__name__}")
    return label.latest


def _is_among(rows: pa.Table, times: Collection[EvaluationTime]) -> pa.BooleanArray:
    among = {(time.ts, time.key) for time in times}
    pairs = zip(rows["tick"].to_pylist(), rows["key"].to_pylist(), strict=True)
    return pa.array([pair in among for pair in pairs], pa.bool_())


def _project(time: EvaluationTime, by: Collection[str]) -> EvaluationTime:
    attributes: Mapping[str, Scalar | None] = msgspec.json.decode(
        time.key, type=dict[str, Scalar | None]
    )
    return replace(time, key=key_of(attributes, sorted(by)))
