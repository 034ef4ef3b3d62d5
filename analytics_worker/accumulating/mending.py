"""Mending: states again, from the tick of a late point to the newest that there is.

Most is done beside the query that goes on from these states; the last of it while that one waits,
for it to go on from what is right.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from analytics_worker.accumulating.accumulators import Accumulator, accumulate, as_json
from analytics_worker.accumulating.ledger import Entry, Ledger
from analytics_worker.accumulating.stored import Account, append_states, locked, read_back
from mistbow.client.agent import AgentClient
from mistbow.operators.accumulated import State
from mistbow.panes.routing import COLUMNS, metrics_needed, route
from mistbow.plan.fragments import Place
from mistbow.plan.nodes import Pane
from mistbow.plan.ticks import Ticks
from mistbow.streams.schemas import POINT

_PIECE_MS = 600_000
"""So much time is mended at once, for its points to fit into the memory; or a step, if longer."""

_SHORT_MS = 10_000
"""What is left may be mended while the query waits if it is no more than this."""

_MOST_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Mender:
    """Mends states of accumulators over some of the ``panes`` of the points of ``sources``."""

    agent: AgentClient
    sources: tuple[Place, ...]
    panes: tuple[Pane, ...]
    accumulators: tuple[Accumulator, ...]
    account: Account

    def mend(self, first: int, frontier: int) -> int:
        """Make the states right from a tick (ms) on; returns the last tick that may have changed.

        Results are complete up to ``frontier`` (ms), so states are at least that far.
        """
        done = first - 1
        for _ in range(_MOST_ROUNDS):
            newest = max(self._newest(done), frontier)
            if newest - done <= _SHORT_MS:
                break
            done = self._mend_to(done, newest)
        with locked(self.account):
            return self._mend_to(done, max(self._newest(done), frontier))

    @property
    def _longest_ms(self) -> int:
        return max(each.window.every_ms for each in self.accumulators)

    def _newest(self, done: int) -> int:
        return self._read_back(done).newest

    def _read_back(self, done: int) -> Ledger:
        there = self.agent.at(self.account.place.site)
        return read_back(there, self.account.place.stream, self.accumulators, done + 1).ledger

    def _mend_to(self, done: int, last: int) -> int:
        # What is between two ticks is read whole in any case.
        piece = max(_PIECE_MS, self._longest_ms)
        while done < last:
            until = min(last, done + piece)
            held = self._read_back(done)
            points = self._points(done, until)
            changed = [
                row
                for each in self.accumulators
                for row in _mended(each, points, held, done, until)
            ]
            changed.sort(key=lambda row: row[2].tick)
            append_states(self.agent.at(self.account.place.site), self.account, changed, 0)
            done = until
        return last

    def _points(self, done: int, until: int) -> dict[str, pa.Table]:
        """Return the windows with their points at ticks later than ``done``, by window."""
        used = {each.window.pane for each in self.accumulators}
        panes = [pane for pane in self.panes if pane.id in used]
        places = {pane.id: place for place, pane in enumerate(panes)}
        longest = self._longest_ms
        parts = []
        for place in self.sources:
            site = self.agent.at(place.site)
            rows = site.read(
                place.stream,
                site.seek(place.stream, max(done - longest, 0)),
                match={"metric": list(metrics_needed(panes))},
                columns=COLUMNS,
                min_ts=done - longest + 1,
                max_ts=until,
            ).table
            parts += [route(batch, panes) for batch in rows.unify_dictionaries().to_batches()]
        routed = pa.concat_tables(parts) if parts else None
        found = {}
        for accumulator in self.accumulators:
            window = accumulator.window
            if routed is not None and window.id not in found:
                mine = routed.filter(pc.equal(routed["route"], places[window.pane]))
                found[window.id] = _windowed(mine, window.ticks, done, until)
        return found


def _windowed(routed: pa.Table, ticks: Ticks, done: int, until: int) -> pa.Table:
    """Return tick, key and points of routed points, at the ticks later than ``done``."""
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
class _Again:
    """The states that are right: those held up to ``done`` (ms), and from there on anew."""

    held: Ledger
    done: int
    anew: Ledger

    def before(self, accumulator: str, key: str, tick: int) -> State | None:
        """See ``States``."""
        state = self.anew.before(accumulator, key, tick)
        return self.held.before(accumulator, key, self.done + 1) if state is None else state

    def put(self, accumulator: str, key: str, tick: int, state: State) -> None:
        """See ``States``."""
        self.anew.put(accumulator, key, tick, state)


def _mended(
    accumulator: Accumulator, points: Mapping[str, pa.Table], held: Ledger, done: int, until: int
) -> Iterator[tuple[str, str, Entry]]:
    """Yield the states that differ from those held."""
    id = accumulator.id
    again = _Again(held, done, Ledger())
    rows = points.get(accumulator.window.id)
    if rows is not None:
        accumulate(accumulator, rows, again)
    # Where all keys have a state, those of late points must have one too.
    whole = _within(held.snapshots(id), done, until)
    stood = {key: {entry.tick: entry for entry in entries} for key, entries in held.entries(id)}
    anew = {key: [entry.tick for entry in entries] for key, entries in again.anew.entries(id)}
    for key in stood.keys() | anew.keys():
        entries = stood.get(key, {})
        for tick in sorted({*whole, *_within(entries, done, until), *anew.get(key, ())}):
            state = again.before(id, key, tick + 1)
            before = entries.get(tick)
            if state is None or (before is not None and before.state == as_json(state)):
                continue
            revision = 1 if before is None else before.revision + 1
            yield id, key, Entry(tick, revision, as_json(state))


def _within(ticks: Sequence[int] | Mapping[int, Entry], done: int, until: int) -> list[int]:
    return [tick for tick in ticks if done < tick <= until]
