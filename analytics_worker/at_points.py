"""Windows that end at points: from what windows carry to a value at each point of a key, or at
each n-th one.

A window that is told at a tick carries all points that the windows ending at the points since the
tick before need. So no state is kept between ticks, and a replay says the same again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from analytics_worker.accumulating.accumulators import Accumulator, Said, States
from analytics_worker.finishing import Finished, finish_points, points_of
from mistbow.operators.accumulated import RunningCount, State
from mistbow.operators.points import Points
from mistbow.plan.expressions import Measure
from mistbow.plan.nodes import Window


@dataclass(frozen=True, slots=True)
class Moment:
    """The time (ms) of one or more points of a key, and the tick at which it is told."""

    ts: int
    key: str
    tick: int


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """The points that a window carries at each tick, by key."""

    window: Window
    points: dict[tuple[int, str], Points]

    @classmethod
    def of(cls, window: Window, rows: pa.Table) -> "Held":
        """Read them from rows (``WINDOWED``) of this window alone."""
        places = zip(rows["tick"].to_pylist(), rows["key"].to_pylist(), strict=True)
        return cls(window, dict(zip(places, points_of(rows["points"]), strict=True)))

    def moments(self) -> Iterator[Moment]:
        """Yield the moments that are told; what is shifted into the past has none of its own."""
        if self.window.offset_ms:
            return
        for (tick, key), points in self.points.items():
            for ts in np.unique(points.ts[points.ts > tick - self.window.every_ms]).tolist():
                yield Moment(ts, key, tick)

    def at(self, moment: Moment) -> Points | None:
        """Return the points of the window that ends at a moment, None where there are none."""
        points = self.points.get((moment.tick, moment.key))
        if points is None:
            return None
        end = moment.ts - self.window.offset_ms
        first, last = np.searchsorted(points.ts, [end - self.window.size_ms, end], side="right")
        if first == last:
            return None
        part = slice(first, last)
        return Points(points.ts[part], points.values[part], points.entities[part])


def passing(
    every: int, counts: Sequence[Accumulator], said: Sequence[Sequence[Said]], states: States
) -> list[Moment]:
    """Return the moments at which a key's points pass a multiple of ``every``, counted together.

    ``said`` is what each of the ``counts`` says of the points at hand; ``states`` tell what there
    was before. Points of equal times are counted at once.
    """
    at = [{(one.tick, one.key): one.ts for one in each} for each in said]
    found = []
    for tick, key in sorted({place for each in at for place in each}):
        parts = [ts for each in at if (ts := each.get((tick, key))) is not None]
        times = np.sort(np.concatenate(parts))
        ends = np.unique(times)
        before = sum(_counted(states.before(count.id, key, tick)) for count in counts)
        after = before + np.searchsorted(times, ends, side="right")
        passed = after // every > np.concatenate([[before], after[:-1]]) // every
        found += [Moment(ts, key, tick) for ts in ends[passed].tolist()]
    return found


def _counted(state: State | None) -> int:
    return state.count if isinstance(state, RunningCount) else 0


def finish_at(
    measure: Measure, held: Sequence[Held], moments: Sequence[Moment]
) -> tuple[pa.Table, Finished]:
    """Return the (tick, key) that a measure has a value at, the tick being the moment, and those.

    ``held`` are the windows of the measure: one, or two.
    """
    kept: list[Moment] = []
    windows: list[Sequence[Points]] = []
    for moment in moments:
        points = [found for each in held if (found := each.at(moment)) is not None]
        if len(points) == len(held):
            kept.append(moment)
            windows.append(points)
    rows = pa.table(
        {
            "tick": pa.array([moment.ts for moment in kept], pa.int64()),
            "key": pa.array([moment.key for moment in kept], pa.string()),
        }
    )
    return rows, finish_points(measure.function, windows, measure.parameters)
