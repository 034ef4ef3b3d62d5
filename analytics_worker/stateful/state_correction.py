"""The correction of states: recomputes states from the tick of a late point up to the newest state.

Most states are corrected while the query runs. The query waits only for the correction of the last
states, and then continues from the corrected states.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from analytics.plan.fragments import StreamLocation
from analytics.plan.nodes import Pane
from analytics.plan.ticks import Ticks
from analytics_worker.operators.accumulators import AccumulatorState
from analytics_worker.panes.routing import COLUMNS, metrics_needed, route, select_metrics
from analytics_worker.stateful.accumulators import Accumulator, accumulate, as_json
from analytics_worker.stateful.state_stream import StateAccess, append_states, locked, read_back
from analytics_worker.stateful.state_table import StateEntry, StateTable
from mistbow.client.agent import AgentClient
from mistbow.streams.schemas import POINT

_PIECE_MS = 600_000
"""The span (ms) of ticks that are corrected at once, so that the points of these ticks fit into
memory. A longer interval between ticks is one span.
"""

_MAX_LOCKED_MS = 10_000
"""The longest span (ms) of ticks that may be corrected while the query waits."""

_MAX_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class StateCorrector:
    """Corrects the states of accumulators from the points of ``sources``."""

    agent: AgentClient
    sources: tuple[StreamLocation, ...]
    panes: tuple[Pane, ...]
    accumulators: tuple[Accumulator, ...]
    access: StateAccess

    def correct(self, first: int, frontier: int) -> int:
        """Correct the states from the tick ``first`` (ms) on; return the last tick that may have
        changed.

        ``frontier``: the time (ms) up to which results are complete, and at least up to which
        states are corrected.
        """
        done = first - 1
        for _ in range(_MAX_ROUNDS):
            newest = max(self._newest(done), frontier)
            if newest - done <= _MAX_LOCKED_MS:
                break
            done = self._correct_to(done, newest)
        with locked(self.access):
            return self._correct_to(done, max(self._newest(done), frontier))

    @property
    def _max_every_ms(self) -> int:
        return max(each.window.every_ms for each in self.accumulators)

    def _newest(self, done: int) -> int:
        return self._read_back(done).newest

    def _read_back(self, done: int) -> StateTable:
        site = self.agent.at(self.access.location.site)
        return read_back(site, self.access.location.stream, self.accumulators, done + 1).table

    def _correct_to(self, done: int, last: int) -> int:
        # The points between two ticks are read together in any case.
        piece = max(_PIECE_MS, self._max_every_ms)
        while done < last:
            until = min(last, done + piece)
            stored = self._read_back(done)
            points = self._points(done, until)
            changed = [
                row
                for each in self.accumulators
                for row in _corrected(each, points, stored, done, until)
            ]
            changed.sort(key=lambda row: row[2].tick)
            append_states(self.agent.at(self.access.location.site), self.access, changed, 0)
            done = until
        return last

    def _points(self, done: int, until: int) -> dict[str, pa.Table]:
        """Return window id -> a table (tick, key, points), for the ticks after ``done`` up to
        ``until`` (ms).
        """
        used = {each.window.pane for each in self.accumulators}
        panes = [pane for pane in self.panes if pane.id in used]
        routes = {pane.id: route for route, pane in enumerate(panes)}
        max_every_ms = self._max_every_ms
        parts = []
        for location in self.sources:
            site = self.agent.at(location.site)
            rows = site.read(
                location.stream,
                site.seek(location.stream, max(done - max_every_ms, 0)),
                match=select_metrics(metrics_needed(panes)),
                columns=COLUMNS,
                min_ts=done - max_every_ms + 1,
                max_ts=until,
            ).table
            parts += [route(batch, panes) for batch in rows.unify_dictionaries().to_batches()]
        routed = pa.concat_tables(parts) if parts else None
        windows = {}
        for accumulator in self.accumulators:
            window = accumulator.window
            if routed is not None and window.id not in windows:
                own = routed.filter(pc.equal(routed["route"], routes[window.pane]))
                windows[window.id] = _windowed(own, window.ticks, done, until)
        return windows


def _windowed(routed: pa.Table, ticks: Ticks, done: int, until: int) -> pa.Table:
    """Group points by tick and key, and return a table (tick, key, points).

    The table has the ticks after ``done`` and up to ``until`` (ms).
    """
    every, (phase,) = pa.scalar(ticks.every_ms, pa.int64()), ticks.phases
    steps = pc.divide(pc.add(routed["ts"], ticks.every_ms - 1 - phase), every)
    up = pc.add(pc.multiply(steps, every), phase)
    within = pc.and_(pc.greater(up, done), pc.less_equal(up, until))
    ticked = routed.append_column("tick", up).filter(within)
    names = ("ts", "value", "entity")
    groups = ticked.group_by(["tick", "key"], use_threads=False).aggregate(
        [(name, "list") for name in names]
    )
    lists = [groups[f"{name}_list"].combine_chunks() for name in names]
    points = pa.StructArray.from_arrays([each.values for each in lists], fields=list(POINT))
    return pa.table(
        {
            "tick": groups["tick"],
            "key": groups["key"],
            "points": pa.ListArray.from_arrays(lists[0].offsets, points),
        }
    )


@dataclass(frozen=True, slots=True, eq=False)
class _CorrectedStates:
    """The correct states: stored states up to ``done`` (ms), recomputed states after ``done``."""

    stored: StateTable
    done: int
    computed: StateTable

    def before(self, accumulator: str, key: str, tick: int) -> AccumulatorState | None:
        """Return the correct state before a tick; see ``StateStore``."""
        state = self.computed.before(accumulator, key, tick)
        return self.stored.before(accumulator, key, self.done + 1) if state is None else state

    def put(self, accumulator: str, key: str, tick: int, state: AccumulatorState) -> None:
        """Add a recomputed state; see ``StateStore``."""
        self.computed.put(accumulator, key, tick, state)


def _corrected(
    accumulator: Accumulator,
    points: Mapping[str, pa.Table],
    stored: StateTable,
    done: int,
    until: int,
) -> Iterator[tuple[str, str, StateEntry]]:
    """Yield (accumulator id, key, entry) for each state that is stored wrongly or not at all."""
    id = accumulator.id
    states = _CorrectedStates(stored, done, StateTable())
    rows = points.get(accumulator.window.id)
    if rows is not None:
        accumulate(accumulator, rows, states)
    # At a snapshot all keys have a state, so the keys of late points must have a state too.
    snapshots = _within(stored.snapshots(id), done, until)
    former = {key: {entry.tick: entry for entry in entries} for key, entries in stored.entries(id)}
    computed = {
        key: [entry.tick for entry in entries] for key, entries in states.computed.entries(id)
    }
    for key in former.keys() | computed.keys():
        entries = former.get(key, {})
        for tick in sorted({*snapshots, *_within(entries, done, until), *computed.get(key, ())}):
            state = states.before(id, key, tick + 1)
            before = entries.get(tick)
            if state is None or (before is not None and before.state == as_json(state)):
                continue
            revision = 1 if before is None else before.revision + 1
            yield id, key, StateEntry(tick, revision, as_json(state))


def _within(ticks: Sequence[int] | Mapping[int, StateEntry], done: int, until: int) -> list[int]:
    return [tick for tick in ticks if done < tick <= until]
