"""Load shedding: decides which fragments an overloaded worker pauses and later resumes.

The decisions depend only on the lag of all fragments, which ``LoadShedder.update`` receives
periodically. A worker is overloaded if one of its queries lags behind the query's source and does
not catch up. Then the fragments with the lowest salience are shed. If the worker is still
overloaded, the fragments with the next salience are shed, but never the fragments with the highest
salience. After a period without a lag, the shed fragments with the highest salience are resumed. If
the resumed fragments overload the worker again, the period doubles.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_MAX_LAG_MS = 3000
_MAX_GRAIN_MS = 600_000
"""A query lags if its results are overdue by more than ``_MAX_LAG_MS``, and by more than its grain,
at most ``_MAX_GRAIN_MS``.
"""

_MIN_GAIN = 0.2
"""A lagging query catches up if its lag shrinks by at least so many seconds per second."""

_WATCH_S = 5.0
_PATIENCE_S = 15.0
"""Whether a query catches up is decided after ``_WATCH_S``; after ``_PATIENCE_S`` if no batch has
ended.
"""

_REST_S = 30.0
_MAX_REST_S = 900.0
"""A shed fragment is resumed after ``_REST_S`` without a lag; repeated shedding doubles this
period, up to ``_MAX_REST_S``.
"""

_MAX_START_S = 60.0
_SETTLE_S = 15.0
"""While a query starts, which counts for at most ``_MAX_START_S``, and for ``_SETTLE_S`` after
that, no fragment is shed: a start takes all cores for a while.
"""


@dataclass(frozen=True, slots=True)
class FragmentLoad:
    """The salience, the progress and the lag of a fragment, as the input of load shedding.

    ``frontier``: the time (ms since the epoch) up to which results are complete. ``lag_ms``: for
    how long the next results have been overdue. ``grain_ms``: the interval at which results can be
    due. ``is_starting``: whether a query of the fragment starts or catches up.
    """

    salience: int
    frontier: int = 0
    lag_ms: int = 0
    grain_ms: int = 0
    is_starting: bool = False


@dataclass(frozen=True, slots=True)
class _TimedLoad:
    """The progress and the lag of a fragment, and the time (s, monotonic) of the measurement."""

    at: float
    load: FragmentLoad


class LoadShedder:
    """Decides which fragments of a worker are shed: those with a salience below ``floor``."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rest_s = _REST_S
        self._samples: dict[str, _TimedLoad] = {}
        self._lagging_since: dict[str, float] = {}
        self._quiet_since = self._clock()
        self._resumed_at: float | None = None
        self._starting_since: dict[str, float] = {}
        self._settled_at = self._clock()
        self.floor = 0

    def update(self, loads: Mapping[str, FragmentLoad]) -> None:
        """Set ``floor`` according to the progress and the lag of all fragments (id ->
        ``FragmentLoad``).
        """
        now = self._clock()
        levels = sorted({load.salience for load in loads.values()})
        running = [level for level in levels if level >= self.floor]
        if self.floor and not running:
            # The fragments of higher salience, for which the others were shed, no longer run.
            self._resume(now, levels)
            return
        overloaded = self._is_overloaded(now, loads)
        if self._is_start(now, loads):
            # A lagging fragment may catch up when the start has ended and the cores are free.
            self._samples = {}
            return
        if overloaded and len(running) > 1:
            self._shed(now, running[1])
        elif self.floor and not self._lagging_since and now - self._quiet_since >= self._rest_s:
            self._resume(now, levels)

    def lagging_s(self, id: str) -> float | None:
        """Return for how long (s) a fragment has lagged.

        None: the fragment does not lag, or has lagged for less than ``watch_s``.
        """
        since = self._lagging_since.get(id)
        seconds = 0.0 if since is None else self._clock() - since
        return seconds if seconds >= _WATCH_S else None

    def _is_start(self, now: float, loads: Mapping[str, FragmentLoad]) -> bool:
        """Return whether a query starts, or has started just now."""
        starting = [id for id, load in loads.items() if load.is_starting]
        self._starting_since = {id: self._starting_since.get(id, now) for id in starting}
        if any(now - since < _MAX_START_S for since in self._starting_since.values()):
            self._settled_at = now + _SETTLE_S
        return now < self._settled_at

    def _is_overloaded(self, now: float, loads: Mapping[str, FragmentLoad]) -> bool:
        """Return whether a running query lags and does not catch up."""
        lagging = {
            id: load
            for id, load in loads.items()
            if load.salience >= self.floor and self._is_lagging(load)
        }
        self._samples = {id: sample for id, sample in self._samples.items() if id in lagging}
        self._lagging_since = {id: self._lagging_since.get(id, now) for id in lagging}
        if lagging:
            self._quiet_since = now
        stuck = [id for id, load in lagging.items() if self._is_stuck(now, id, load)]
        return bool(stuck)

    def _is_lagging(self, load: FragmentLoad) -> bool:
        grain = min(load.grain_ms, _MAX_GRAIN_MS)
        return load.lag_ms > max(_MAX_LAG_MS, grain)

    def _is_stuck(self, now: float, id: str, load: FragmentLoad) -> bool:
        sample = self._samples.setdefault(id, _TimedLoad(now, load))
        seconds = now - sample.at
        has_moved = load.frontier != sample.load.frontier
        if seconds < (_WATCH_S if has_moved else _PATIENCE_S):
            return False
        self._samples[id] = _TimedLoad(now, load)
        return sample.load.lag_ms - load.lag_ms < _MIN_GAIN * seconds * 1000

    def _shed(self, now: float, floor: int) -> None:
        again = self._resumed_at is not None and now - self._resumed_at < 2 * self._rest_s
        longer = min(2 * self._rest_s, _MAX_REST_S)
        self._rest_s = longer if again else _REST_S
        self._set_floor(now, floor)

    def _resume(self, now: float, levels: Sequence[int]) -> None:
        """Resume the shed fragments with the highest salience; ``levels``: the sorted saliences."""
        below = [level for level in levels if level < self.floor]
        self._resumed_at = now
        # With the lowest salience resumed, no fragment is shed, nor is one that comes later.
        self._set_floor(now, below[-1] if len(below) > 1 else 0)

    def _set_floor(self, now: float, floor: int) -> None:
        self.floor = floor
        # The load after the change is not comparable to samples from before.
        self._samples, self._quiet_since = {}, now
