"""Accumulators: compute values and a new state from the points of a tick and the old state."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from analytics.plan.expressions import Measure
from analytics.plan.nodes import Plan, Window, expressions_of, fingerprint
from analytics_worker.operators.accumulators import START, AccumulatorState, PointSpan
from analytics_worker.operators.points import Floats, Points


class StateStore(Protocol):
    """A store with the states of accumulators after each tick (ms), by key."""

    def before(self, accumulator: str, key: str, tick: int) -> AccumulatorState | None:
        """Return the state after all ticks before ``tick``; None: the key had no point before."""
        ...

    def put(self, accumulator: str, key: str, tick: int, state: AccumulatorState) -> None:
        """Store the state after a tick, unless a corrected state is already stored."""
        ...


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A measure that accumulates, and its window.

    ``id``: the fingerprint of the window's id, the function and its parameters. Functions over the
    same spans of points share an accumulator, whose state contains these points.
    """

    id: str
    measure: Measure
    window: Window

    @classmethod
    def of(cls, measure: Measure, window: Window) -> "Accumulator":
        """Return the accumulator of a measure over a window."""
        if window.points is not msgspec.UNSET:
            return cls(fingerprint((window.id, "SPAN")), measure, window)
        return cls(fingerprint((window.id, measure.function, measure.parameters)), measure, window)

    @property
    def start(self) -> int:
        """The time (ms) after which points are accumulated."""
        assert self.window.start is not None  # noqa: S101 - plans are checked
        return self.window.start


def accumulators_of(plan: Plan) -> tuple[Accumulator, ...]:
    """Return the distinct accumulators of a plan, sorted by id."""
    windows = {window.id: window for window in plan.windows}
    measures = {
        node
        for insight in plan.insights
        for node in expressions_of(insight)
        if isinstance(node, Measure) and windows[node.window].start is not None
    }
    found = [Accumulator.of(measure, windows[measure.window]) for measure in measures]
    by_id = {each.id: each for each in found}
    return tuple(by_id[id] for id in sorted(by_id))


@dataclass(frozen=True, slots=True, eq=False)
class AccumulatorOutput:
    """The values of an accumulator at the points of a key between a tick and the previous tick.

    ``tick``, ``ts``: the tick and the times of the points, in ms. ``spans``: the spans of points
    that end in this time, if the accumulator divides points into spans; it has no ``values`` then.
    """

    tick: int
    key: str
    ts: NDArray[np.int64]
    values: Floats
    spans: Sequence[Points] = ()


def accumulate(
    accumulator: Accumulator, rows: pa.Table, states: StateStore
) -> list[AccumulatorOutput]:
    """Return an accumulator's outputs by tick and key, and store the new states in ``states``.

    ``rows``: windows (``WINDOWED``). Points with equal times are ordered by entity and value.
    """
    outputs = []
    for tick, key, points in _sequences(rows, accumulator):
        state = states.before(accumulator.id, key, tick)
        after, output = _advance(accumulator, state, tick, key, points)
        states.put(accumulator.id, key, tick, after)
        outputs.append(output)
    return outputs


def _advance(
    accumulator: Accumulator, state: AccumulatorState | None, tick: int, key: str, points: Points
) -> tuple[AccumulatorState, AccumulatorOutput]:
    every = accumulator.window.points
    if isinstance(every, int):
        start = state if isinstance(state, PointSpan) else PointSpan(every)
        after, spans = start.divide(points)
        return after, AccumulatorOutput(tick, key, points.ts, points.values[:0], spans)
    if state is None or isinstance(state, PointSpan):
        state = START[str(accumulator.measure.function)](*accumulator.measure.parameters)
    running, results = state.advance(points.values)
    return running, AccumulatorOutput(tick, key, points.ts, results)


def _sequences(rows: pa.Table, accumulator: Accumulator) -> Iterator[tuple[int, str, Points]]:
    """Yield (tick, key, new points) of each row, ordered by tick.

    Rows without new points are omitted.
    """
    lists = rows["points"].combine_chunks()
    points = pc.list_flatten(lists)
    flat = pa.table(
        {
            "row": pc.list_parent_indices(lists).cast(pa.int64()),
            **{name: pc.struct_field(points, name) for name in ("ts", "entity", "value")},
        }
    )
    ticks = rows["tick"].combine_chunks()
    begin = pc.subtract(ticks.take(flat["row"]), accumulator.window.every_ms)
    taken = flat.filter(pc.greater(flat["ts"], pc.max_element_wise(begin, accumulator.start)))
    # By tick, so that the states of a key follow each other.
    taken = taken.append_column("tick", ticks.take(taken["row"]))
    order = [(name, "ascending") for name in ("tick", "row", "ts", "entity", "value")]
    taken = taken.sort_by(order)
    indices = taken["row"].to_numpy()
    ts, values = taken["ts"].to_numpy(), taken["value"].to_numpy()
    entities = taken["entity"].to_numpy(zero_copy_only=False)
    bounds = np.flatnonzero(np.diff(indices, prepend=-1, append=-1))
    keys = rows["key"]
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        row = int(indices[first])
        part = slice(first, last)
        points = Points(ts[part], values[part], entities[part])
        yield ticks[row].as_py(), keys[row].as_py(), points


def as_json(state: AccumulatorState) -> str:
    """Encode a state as the JSON that is stored."""
    return msgspec.json.encode(state).decode()


def from_json(text: str) -> AccumulatorState:
    """Decode a state from the stored JSON."""
    state: AccumulatorState = msgspec.json.decode(text, type=AccumulatorState)
    return state
