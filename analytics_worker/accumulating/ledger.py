"""The states that are known: those of a part of a stream, and those that came about since."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from analytics_worker.accumulating.accumulators import as_json, from_json
from mistbow.operators.accumulated import State

SNAPSHOT = ""
"""The key of rows that say: all keys that there are have a row at this tick."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The state after a tick (ms), as JSON."""

    tick: int
    revision: int
    state: str


_by_tick = attrgetter("tick")


@dataclass(slots=True, eq=False)
class Ledger:
    """States by accumulator, key and tick, of which the highest revision counts.

    Each key's last state before ``floor`` (ms) is kept, and all after it.
    """

    floor: int = 0
    fresh: list[tuple[str, str, Entry]] = field(default_factory=list)
    """What was put and not stored yet."""

    _entries: dict[str, dict[str, list[Entry]]] = field(default_factory=lambda: defaultdict(dict))

    def before(self, accumulator: str, key: str, tick: int) -> State | None:
        """See ``States``."""
        entry = self.entry_before(accumulator, key, tick)
        return None if entry is None else from_json(entry.state)

    def put(self, accumulator: str, key: str, tick: int, state: State) -> None:
        """See ``States``."""
        entry = Entry(tick, 0, as_json(state))
        if self.learn(accumulator, key, entry):
            self.fresh.append((accumulator, key, entry))

    def learn(self, accumulator: str, key: str, entry: Entry) -> bool:
        """Take in a state; returns whether it counts."""
        entries = self._entries[accumulator].setdefault(key, [])
        place = bisect_left(entries, entry.tick, key=_by_tick)
        if place < len(entries) and entries[place].tick == entry.tick:
            if entries[place].revision >= entry.revision:
                return False
            entries[place] = entry
        else:
            entries.insert(place, entry)
        # Those that nobody asks for any more.
        del entries[: max(0, bisect_left(entries, self.floor, key=_by_tick) - 1)]
        return True

    def entry_before(self, accumulator: str, key: str, tick: int) -> Entry | None:
        """Return the last entry before a tick."""
        entries = self._entries[accumulator].get(key, ())
        place = bisect_left(entries, tick, key=_by_tick)
        return entries[place - 1] if place else None

    def entries(self, accumulator: str) -> Iterator[tuple[str, Sequence[Entry]]]:
        """Yield each key of an accumulator with its entries by tick, snapshots left out."""
        yield from (
            (key, entries) for key, entries in self._entries[accumulator].items() if key != SNAPSHOT
        )

    def snapshots(self, accumulator: str) -> list[int]:
        """Return the ticks (ms) at which all keys have an entry."""
        return [entry.tick for entry in self._entries[accumulator].get(SNAPSHOT, ())]

    @property
    def newest(self) -> int:
        """The last tick (ms) of all; -1 where there is none."""
        return max(
            (
                entries[-1].tick
                for keys in self._entries.values()
                for entries in keys.values()
                if entries
            ),
            default=-1,
        )
