"""Windows that end at points, for insights with values at points, not at ticks.

Such an insight has a value at each point of a key, or at each n-th point. In the table
``WINDOWED``, the row of a tick contains the points of all windows that end at points since the
previous tick. Therefore no state is needed between ticks, and a replay yields the same values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from analytics.plan.expressions import Measure
from analytics.plan.nodes import Window
from analytics_worker.evaluate.finalize import FunctionValues, finalize_points, points_of
from analytics_worker.evaluate.history.aggregates import Aggregates, Integers
from analytics_worker.evaluate.history.window_history import WindowHistory
from analytics_worker.operators.accumulators import AccumulatorState, RunningCount
from analytics_worker.operators.points import Points
from analytics_worker.stateful.accumulators import Accumulator, AccumulatorOutput, StateStore


@dataclass(frozen=True, slots=True)
class EvaluationTime:
    """The evaluation time of a value of an insight for one key.

    ``ts``: the evaluation time (ms), at which at least one point with the key ``key`` exists.
    ``tick``: the tick (ms), at or after ``ts``, at which the worker computes the value.
    """

    ts: int
    key: str
    tick: int


@dataclass(frozen=True, slots=True, eq=False)
class WindowPoints:
    """The points of a window: (tick, key) -> the points in the row of this tick and key."""

    window: Window
    points: dict[tuple[int, str], Points]

    @classmethod
    def of(cls, window: Window, rows: pa.Table) -> "WindowPoints":
        """Return the points of a window, taken from the window's rows (``WINDOWED``)."""
        pairs = zip(rows["tick"].to_pylist(), rows["key"].to_pylist(), strict=True)
        return cls(window, dict(zip(pairs, points_of(rows["points"]), strict=True)))

    def times(self) -> Iterator[EvaluationTime]:
        """Yield an evaluation time for each key, tick and time of points since the previous tick.

        Yields nothing if the window has an offset, since such a window lacks the latest points.
        """
        if self.window.offset_ms:
            return
        for (tick, key), points in self.points.items():
            for ts in np.unique(points.ts[points.ts > tick - self.window.every_ms]).tolist():
                yield EvaluationTime(ts, key, tick)

    def at(self, time: EvaluationTime) -> Points | None:
        """Return the points of the window for the evaluation time ``time``; None: no points."""
        points = self.points.get((time.tick, time.key))
        if points is None:
            return None
        end = time.ts - self.window.offset_ms
        first, last = np.searchsorted(points.ts, [end - self.window.size_ms, end], side="right")
        if first == last:
            return None
        part = slice(first, last)
        return Points(points.ts[part], points.values[part], points.entities[part])


def counted_times(
    every: int,
    counts: Sequence[Accumulator],
    outputs: Sequence[Sequence[AccumulatorOutput]],
    states: StateStore,
) -> list[EvaluationTime]:
    """Return the times at which the number of a key's points passes a multiple of ``every``.

    The number of points is the sum of the values of the accumulators ``counts``. ``outputs``: the
    new outputs of each accumulator. ``states``: the store with the counts before these outputs.
    Points with equal times are counted together.
    """
    times_of = [{(one.tick, one.key): one.ts for one in each} for each in outputs]
    found = []
    for tick, key in sorted({pair for each in times_of for pair in each}):
        parts = [ts for each in times_of if (ts := each.get((tick, key))) is not None]
        times = np.sort(np.concatenate(parts))
        ends = np.unique(times)
        before = sum(_count(states.before(count.id, key, tick)) for count in counts)
        after = before + np.searchsorted(times, ends, side="right")
        passes = after // every > np.concatenate([[before], after[:-1]]) // every
        found += [EvaluationTime(ts, key, tick) for ts in ends[passes].tolist()]
    return found


def _count(state: AccumulatorState | None) -> int:
    return state.count if isinstance(state, RunningCount) else 0


def finalize_at(
    measure: Measure, windows: Sequence[WindowPoints], times: Sequence[EvaluationTime]
) -> tuple[pa.Table, FunctionValues]:
    """Return a table with the times and keys at which a measure has a value, and the values.

    The column ``tick`` of the table contains ``EvaluationTime.ts``, not ticks. ``windows``: the
    windows of the measure's one or two arguments. Times at which one of the windows is empty are
    omitted.
    """
    found: list[tuple[int, str]] = []
    points: list[Sequence[Points]] = []
    for time in times:
        each = [some for window in windows if (some := window.at(time)) is not None]
        if len(each) == len(windows):
            found.append((time.ts, time.key))
            points.append(each)
    return rows_of(found), finalize_points(measure.function, points, measure.parameters)


def merge_at(
    history: WindowHistory, times: Sequence[EvaluationTime]
) -> tuple[pa.Table, Aggregates]:
    """Return a table with the times and keys at which a window has points, and the merged points.

    The column ``tick`` of the table contains ``EvaluationTime.ts``, not ticks.
    """
    merged = history.merge(*columns_of(times))
    chosen = np.flatnonzero(merged.count)
    rows = rows_of([(times[index].ts, times[index].key) for index in chosen.tolist()])
    return rows, merged.take(chosen)


def finalize_spans(
    measure: Measure, outputs: Sequence[AccumulatorOutput]
) -> tuple[pa.Table, FunctionValues]:
    """Return a table with the time and key at which each span of points ends, and the values.

    The column ``tick`` contains the times of the last points (ms).
    """
    spans = [(one.key, span) for one in outputs for span in one.spans]
    rows = rows_of([(int(span.ts[-1]), key) for key, span in spans])
    ordered = [(_by_value(span),) for _, span in spans]
    return rows, finalize_points(measure.function, ordered, measure.parameters)


def _by_value(points: Points) -> Points:
    """Return points sorted by (time, value), as functions expect."""
    order = np.lexsort((points.values, points.ts))
    return Points(points.ts[order], points.values[order], points.entities[order])


def columns_of(times: Sequence[EvaluationTime]) -> tuple[list[str], Integers, Integers]:
    """Return the keys, the times (ms) and the ticks (ms) of evaluation times."""
    return (
        [time.key for time in times],
        np.array([time.ts for time in times], np.int64),
        np.array([time.tick for time in times], np.int64),
    )


def rows_of(times: Sequence[tuple[int, str]]) -> pa.Table:
    """Return a table with times (ms), in the column ``tick``, and keys."""
    return pa.table(
        {
            "tick": pa.array([ts for ts, _ in times], pa.int64()),
            "key": pa.array([key for _, key in times], pa.string()),
        }
    )
