"""When a merge goes on, and who leaves or joins: a plain function of what is known.

Panes of all sites that are waited for must be there up to a tick before windows that end at it
are closed. A site leaves when it has said nothing new for ``patience``, or lags for several times
that; it joins again when it has caught up.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from analytics_worker.merging.decisions import Decided, Joined, Left, Presence

SLOW = 4
"""A site that lags for so many times the patience holds up the others no longer."""

_NEVER_HEARD = 3
"""A site of which nothing was ever heard is given so many times the patience to start."""

_AT_ONCE = 60
"""Most ticks that one batch closes."""

_AHEAD_MS = 2000
"""No query of a group has closed a tick that is so far ahead of the clock and of all sites."""


@dataclass(frozen=True, slots=True)
class Heard:
    """How far a site's panes are: numbers below ``next``, event time to ``frontier`` (ms)."""

    next: int = 0
    frontier: int = -1


@dataclass(slots=True)
class _Lag:
    """Since when, on the monotonic clock (s), a site has said nothing new, and is far behind."""

    frontier: int
    moved: float
    far: float | None = None


class Assembly:
    """Watches the sites of one query; ``grain_ms`` is how often windows close.

    The results up to ``since`` (ms) stand already, whoever was missing in them; only ticks later
    than ``after`` are told.
    """

    def __init__(
        self,
        grain_ms: int,
        patience_ms: int,
        since: int,
        after: int = 0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._since = since
        self._after = after
        self._grain = grain_ms
        self._patience = patience_ms / 1000
        self._monotonic = monotonic
        self._lags: dict[str, _Lag] = {}

    def frontier(self, heard: Mapping[str, Heard], presence: Presence, promise: int) -> int:
        """Return the event time (ms) up to which all that are waited for have spoken."""
        tick = self._open(promise)
        absent = self.absent(presence, promise)
        present = [one.frontier for site, one in heard.items() if site not in absent]
        if not present:
            present = [max((one.frontier for one in heard.values()), default=-1)]
        # Beyond this, somebody who is not waited for now will be.
        change = presence.next_change(tick)
        return min(present) if change is None else min(*present, max(change, promise))

    def absent(self, presence: Presence, promise: int) -> tuple[str, ...]:
        """Return the sites that the tick (ms) to close next does without."""
        return presence.missing(self._open(promise))

    def next_promise(self, frontier: int, promise: int) -> int:
        """Return the next tick (ms) to close, when everything up to ``frontier`` is taken in."""
        reached = max(frontier, 0) // self._grain * self._grain
        if promise > 0:
            # What was missed is caught up in steps: the results of one have to fit into a request.
            reached = min(reached, promise + _AT_ONCE * self._grain)
        return reached if reached > promise else promise // self._grain * self._grain + self._grain

    def decide(
        self, heard: Mapping[str, Heard], presence: Presence, promise: int, now_ms: int
    ) -> list[Decided]:
        """Return who leaves and who joins, given what was heard and the tick to close next."""
        self._observe(heard)
        furthest = max((one.frontier for one in heard.values()), default=-1)
        if furthest < 0:
            return []
        decided = []
        for site, one in heard.items():
            if presence.open_gap(site) is not None:
                if one.frontier >= max(promise, furthest) - self._grain:
                    back = max(now_ms, furthest, promise) + _AHEAD_MS
                    decided.append(Decided(self._up(back), site, Joined()))
            elif one.frontier < promise and self._is_silent(site):
                decided.append(Decided(max(one.frontier, self._since), site, Left()))
        return decided

    def _observe(self, heard: Mapping[str, Heard]) -> None:
        now = self._monotonic()
        furthest = max((one.frontier for one in heard.values()), default=-1)
        for site, one in heard.items():
            if site not in self._lags:
                silent_since = now - self._silent_before(one.frontier, furthest) / 1000
                self._lags[site] = _Lag(one.frontier, silent_since)
            lag = self._lags[site]
            if one.frontier > lag.frontier:
                lag.frontier, lag.moved = one.frontier, now
            if one.frontier >= furthest:
                lag.moved = now
            far = furthest - one.frontier > self._patience * 1000 + self._grain
            lag.far = (lag.far or now) if far else None

    def _silent_before(self, frontier: int, furthest: int) -> int:
        """Return how long (ms) a site was silent before this watch began, by its event time.

        Of one that replays, its event time says nothing of that.
        """
        if frontier < self._since - self._grain or self._since == 0:
            return 0
        return max(0, furthest - frontier - self._grain)

    def _is_silent(self, site: str) -> bool:
        lag, now = self._lags[site], self._monotonic()
        patience = self._patience * (_NEVER_HEARD if lag.frontier < 0 else 1)
        slow = lag.far is not None and now - lag.far > SLOW * patience
        return slow or now - lag.moved > patience

    def _open(self, promise: int) -> int:
        # To close once more what is told no more, nobody is waited for: its site may be away.
        return max(promise, self._after + 1)

    def _up(self, time_ms: int) -> int:
        return -(-time_ms // self._grain) * self._grain
