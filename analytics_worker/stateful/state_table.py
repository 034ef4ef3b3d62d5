"""The states of accumulators in memory: read from a stream, or not stored yet."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from analytics_worker.operators.accumulators import AccumulatorState
from analytics_worker.stateful.accumulators import as_json, from_json

SNAPSHOT = ""
"""The key of a row that marks a snapshot: all keys have a row at the tick of the mark."""


@dataclass(frozen=True, slots=True)
class StateEntry:
    """The state after a tick (ms), as JSON, and the revision of the state."""

    tick: int
    revision: int
    state: str


_tick_of = attrgetter("tick")


@dataclass(slots=True, eq=False)
class StateTable:
    """States by accumulator, key and tick; only the highest revision of a state is retained.

    Of the states before ``floor`` (ms), only the last state of each key is retained.
    """

    floor: int = 0
    unstored: list[tuple[str, str, StateEntry]] = field(default_factory=list)
    """The accumulator, key and entry of each state that is not stored yet."""

    _entries: dict[str, dict[str, list[StateEntry]]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def before(self, accumulator: str, key: str, tick: int) -> AccumulatorState | None:
        """Return the state before a tick, None if there is no state; see ``StateStore``."""
        entry = self.entry_before(accumulator, key, tick)
        return None if entry is None else from_json(entry.state)

    def put(self, accumulator: str, key: str, tick: int, state: AccumulatorState) -> None:
        """Add a state that is not stored yet; see ``StateStore``."""
        self.put_entry(accumulator, key, StateEntry(tick, 0, as_json(state)))

    def put_entry(self, accumulator: str, key: str, entry: StateEntry) -> None:
        """Add an entry and mark it as unstored.

        If the table has an entry for the same tick with the same or a higher revision, nothing
        changes.
        """
        if self.add(accumulator, key, entry):
            self.unstored.append((accumulator, key, entry))

    def add(self, accumulator: str, key: str, entry: StateEntry) -> bool:
        """Add an entry, and return whether the entry was added.

        The entry is not added if the table has an entry for the same tick with the same or a higher
        revision.
        """
        entries = self._entries[accumulator].setdefault(key, [])
        index = bisect_left(entries, entry.tick, key=_tick_of)
        if index < len(entries) and entries[index].tick == entry.tick:
            if entries[index].revision >= entry.revision:
                return False
            entries[index] = entry
        else:
            entries.insert(index, entry)
        del entries[: max(0, bisect_left(entries, self.floor, key=_tick_of) - 1)]
        return True

    def entry_before(self, accumulator: str, key: str, tick: int) -> StateEntry | None:
        """Return the last entry of a key before a tick; None: the key has no such entry."""
        entries = self._entries[accumulator].get(key, ())
        index = bisect_left(entries, tick, key=_tick_of)
        return entries[index - 1] if index else None

    def entries(self, accumulator: str) -> Iterator[tuple[str, Sequence[StateEntry]]]:
        """Yield (key, entries in the order of ticks) for each key of an accumulator.

        The entries of ``SNAPSHOT``, which is no key but marks the ticks of snapshots, are omitted.
        """
        yield from (
            (key, entries) for key, entries in self._entries[accumulator].items() if key != SNAPSHOT
        )

    def snapshots(self, accumulator: str) -> list[int]:
        """Return the ticks (ms) of the snapshots; all keys have an entry at a snapshot."""
        return [entry.tick for entry in self._entries[accumulator].get(SNAPSHOT, ())]

    @property
    def newest(self) -> int:
        """The tick (ms) of the last entry of any key; -1 without entries."""
        return max(
            (
                entries[-1].tick
                for keys in self._entries.values()
                for entries in keys.values()
                if entries
            ),
            default=-1,
        )
