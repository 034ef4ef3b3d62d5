"""Accumulators: from the points that a tick brings to what an accumulated operator says of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from analytics_worker.finishing import Finished
from mistbow.operators.accumulated import START, State
from mistbow.operators.points import Floats
from mistbow.plan.expressions import ACCUMULATING, Measure
from mistbow.plan.nodes import Plan, Window, expressions_of, fingerprint


class States(Protocol):
    """What accumulators knew after a tick, by key; ticks in ms."""

    def before(self, accumulator: str, key: str, tick: int) -> State | None:
        """Return the state after all ticks before this one, None where there was no point."""
        ...

    def put(self, accumulator: str, key: str, tick: int, state: State) -> None:
        """Take in the state after a tick, unless there is one that is told to be right."""
        ...


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A measure that accumulates, of its window; ``id`` names what is accumulated since when."""

    id: str
    measure: Measure
    window: Window

    @classmethod
    def of(cls, measure: Measure, window: Window) -> "Accumulator":
        """Return the accumulator of a measure."""
        return cls(fingerprint((window.id, measure.function, measure.parameters)), measure, window)

    @property
    def start(self) -> int:
        """The time (ms) that all its points are later than."""
        assert self.window.start is not None  # noqa: S101 - plans are checked
        return self.window.start


def accumulators_of(plan: Plan) -> tuple[Accumulator, ...]:
    """Return each distinct accumulator of a plan."""
    windows = {window.id: window for window in plan.windows}
    measures = {
        node
        for insight in plan.insights
        for node in expressions_of(insight)
        if isinstance(node, Measure) and node.function in ACCUMULATING
    }
    found = [Accumulator.of(measure, windows[measure.window]) for measure in measures]
    return tuple(sorted(found, key=lambda each: each.id))


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """What an accumulator says at each of a key's points since the tick before; ``ts`` in ms."""

    tick: int
    key: str
    ts: NDArray[np.int64]
    values: Floats


def accumulate(accumulator: Accumulator, rows: pa.Table, states: States) -> list[Said]:
    """Return what is said of windows (``WINDOWED``), by tick and key, and put the new states.

    Points of equal times are taken by entity and value.
    """
    said = []
    for tick, key, ts, values in _sequences(rows, accumulator):
        state = states.before(accumulator.id, key, tick)
        if state is None:
            state = START[str(accumulator.measure.function)](*accumulator.measure.parameters)
        after, outputs = state.advance(values)
        states.put(accumulator.id, key, tick, after)
        said.append(Said(tick, key, ts, outputs))
    return said


def at_ticks(said: list[Said]) -> tuple[pa.Table, Finished]:
    """Return the (tick, key) that something is said at, and the last of it."""
    return _keyed([(one.tick, one.key, float(one.values[-1])) for one in said])


def at_each_point(said: list[Said]) -> tuple[pa.Table, Finished]:
    """Return the (time, key) of the points, and what is said after all of that time."""
    found = []
    for one in said:
        times = np.unique(one.ts)
        last = one.values[np.searchsorted(one.ts, times, side="right") - 1]
        found += [
            (ts, one.key, value) for ts, value in zip(times.tolist(), last.tolist(), strict=True)
        ]
    return _keyed(found)


def _keyed(found: list[tuple[int, str, float]]) -> tuple[pa.Table, Finished]:
    rows = {
        "tick": pa.array([tick for tick, _, _ in found], pa.int64()),
        "key": pa.array([key for _, key, _ in found], pa.string()),
    }
    return pa.table(rows), Finished(pa.array([value for _, _, value in found], pa.float64()))


def _sequences(
    rows: pa.Table, accumulator: Accumulator
) -> Iterator[tuple[int, str, NDArray[np.int64], Floats]]:
    """Yield tick and key of each row that has points of the accumulator, and these in order."""
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
    # By tick, for a key's states to follow each other.
    taken = taken.append_column("tick", ticks.take(taken["row"]))
    order = [(name, "ascending") for name in ("tick", "row", "ts", "entity", "value")]
    taken = taken.sort_by(order)
    places = taken["row"].to_numpy()
    ts, values = taken["ts"].to_numpy(), taken["value"].to_numpy()
    bounds = np.flatnonzero(np.diff(places, prepend=-1, append=-1))
    keys = rows["key"]
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        row = int(places[first])
        yield ticks[row].as_py(), keys[row].as_py(), ts[first:last], values[first:last]


def as_json(state: State) -> str:
    """Return a state as it is stored."""
    return msgspec.json.encode(state).decode()


def from_json(text: str) -> State:
    """Return the state that a text tells."""
    state: State = msgspec.json.decode(text, type=State)
    return state
