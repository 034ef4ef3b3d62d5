"""What a worker that has more to do than it can sheds, and when it takes it up again.

A plain policy: it is told again and again how far the fragments are, and decides by that alone. A
worker is overloaded if one of its queries is behind its source and does not catch up. Then the
fragments of the lowest salience rest; if that is not enough, those of the next, but never those of
the highest. What rests is tried again, the highest of it first, after a while without trouble; if
trouble comes back with it, it rests for twice as long.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """When a query is behind (``lag_ms``), for how long (s) before that tells, and how long (s)
    things must go well before what rests is tried again.

    One with a longer grain is behind if it is so late, but for ``most_lag_ms``: who has done by the
    next tick keeps up, however long it takes.
    One that gains at least ``gain`` on event time, such as after a restart, is catching up. How
    far a query is moves in steps, a batch each: of none, ``patience_s`` tells.
    """

    lag_ms: int = 3000
    most_lag_ms: int = 600_000
    watch_s: float = 5.0
    patience_s: float = 15.0
    gain: float = 0.2
    rest_s: float = 30.0
    most_rest_s: float = 900.0


@dataclass(frozen=True, slots=True)
class Load:
    """How far a fragment is: ``done`` to a time (ms since the epoch), and ``lag_ms`` behind; it has
    results every ``grain_ms``.
    """

    salience: int
    done: int = 0
    lag_ms: int = 0
    grain_ms: int = 0


@dataclass(frozen=True, slots=True)
class _Trend:
    at: float
    load: Load


class Shedding:
    """Which fragments of one worker rest: those of a salience below ``floor``."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, limits: Limits | None = None
    ) -> None:
        self._clock = clock
        self._limits = limits or Limits()
        self._rest_s = self._limits.rest_s
        self._trends: dict[str, _Trend] = {}
        self._behind: dict[str, float] = {}
        self._quiet_since = self._clock()
        self._resumed_at: float | None = None
        self.floor = 0

    def look(self, loads: Mapping[str, Load]) -> None:
        """Take in how far all fragments are, by id, and decide."""
        now = self._clock()
        levels = sorted({load.salience for load in loads.values()})
        running = [level for level in levels if level >= self.floor]
        if self.floor and not running:
            # What the others made room for is gone.
            self._resume(now, levels)
            return
        overloaded = self._judge(now, loads)
        if overloaded and len(running) > 1:
            self._shed(now, running[1])
        elif self.floor and not self._behind and now - self._quiet_since >= self._rest_s:
            self._resume(now, levels)

    def lags_for(self, name: str) -> float | None:
        """Return for how long (s) a fragment has been behind; None where that is not for long."""
        since = self._behind.get(name)
        seconds = 0.0 if since is None else self._clock() - since
        return seconds if seconds >= self._limits.watch_s else None

    def _judge(self, now: float, loads: Mapping[str, Load]) -> bool:
        """Return whether a query that runs is behind and does not catch up."""
        behind = {
            name: load
            for name, load in loads.items()
            if load.salience >= self.floor and self._is_behind(load)
        }
        self._trends = {name: trend for name, trend in self._trends.items() if name in behind}
        self._behind = {name: self._behind.get(name, now) for name in behind}
        if behind:
            self._quiet_since = now
        stuck = [name for name, load in behind.items() if self._is_stuck(now, name, load)]
        return bool(stuck)

    def _is_behind(self, load: Load) -> bool:
        grain = min(load.grain_ms, self._limits.most_lag_ms)
        return load.lag_ms > max(self._limits.lag_ms, grain)

    def _is_stuck(self, now: float, name: str, load: Load) -> bool:
        begun = self._trends.setdefault(name, _Trend(now, load))
        seconds = now - begun.at
        has_moved = load.done != begun.load.done
        if seconds < (self._limits.watch_s if has_moved else self._limits.patience_s):
            return False
        self._trends[name] = _Trend(now, load)
        return begun.load.lag_ms - load.lag_ms < self._limits.gain * seconds * 1000

    def _shed(self, now: float, floor: int) -> None:
        again = self._resumed_at is not None and now - self._resumed_at < 2 * self._rest_s
        longer = min(2 * self._rest_s, self._limits.most_rest_s)
        self._rest_s = longer if again else self._limits.rest_s
        self._move(now, floor)

    def _resume(self, now: float, levels: Sequence[int]) -> None:
        """Take up again the highest of what rests."""
        below = [level for level in levels if level < self.floor]
        self._resumed_at = now
        # Below the lowest, nothing rests: neither would a fragment that comes later.
        self._move(now, below[-1] if len(below) > 1 else 0)

    def _move(self, now: float, floor: int) -> None:
        self.floor = floor
        # How things are going is another matter now.
        self._trends, self._quiet_since = {}, now
