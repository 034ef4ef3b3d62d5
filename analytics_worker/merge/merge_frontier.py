"""The frontier of a merge, and the decisions about which sites leave and join.

Windows that end at a tick are closed when the panes of all present sites up to the tick have
arrived. A site leaves when its frontier has not moved for ``patience``, or when it has lagged for
several times ``patience``. The site joins again when it has caught up, or when it moves steadily
and lags no more than a present site may. A site with short stays joins ever more seldom.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise

from analytics_worker.merge.decisions import Joined, Left, Presence, SiteDecision

MAX_LAG_PATIENCES = 4
"""The multiple of the patience after which a merge stops waiting for a site that lags."""

_START_PATIENCES = 3
"""The multiple of the patience for which a merge waits for a site that has never made progress.

Its partial fragment may be starting.
"""

_ORPHAN_PATIENCES = 0.1
"""The multiple of the patience for which a merge waits for a site with an orphaned partial.

No panes can arrive until another worker has started the fragment, which takes seconds. A longer
wait would only delay the results, which lack the site in any case.
"""

_MAX_ABSENCE_MS = 60_000
"""The longest time (ms) after which a site joins again although its stays were short."""

_MAX_ABSENCE_TICKS = 10
"""The number of intervals after which such a site joins again, if they are longer."""

_LONGEST_ABSENCE_MS = 600_000
"""The longest time (ms) of these intervals."""

_MAX_TICKS = 60
"""The greatest number of ticks that one batch closes."""

_JOIN_AHEAD_MS = 2000
"""The time (ms) from now to the tick at which a site joins again. No query of a group has closed a
tick this far ahead of the clock and of all sites.
"""


@dataclass(frozen=True, slots=True)
class SiteProgress:
    """The progress of a site's panes: the position after the last row, and the frontier (ms).

    ``frontier`` is -1 if the site has made no progress yet.
    """

    next: int = 0
    frontier: int = -1


@dataclass(slots=True)
class _SiteLag:
    """The silence of a site; times in s (monotonic).

    ``moved_at``: when the ``frontier`` (ms) of the site last moved. ``silent_since``: the last time
    at which it moved, or at which no site was further. ``steady_since``: the first move since which
    no silence before a move has exceeded the patience; None: this query has seen no move.
    ``far_since``: since when the site has lagged by more than the patience; None: the site does not
    lag so far.
    """

    frontier: int
    moved_at: float
    silent_since: float
    steady_since: float | None = None
    far_since: float | None = None


class MergeFrontier:
    """Computes the frontier of a merge, and decides which sites leave and join.

    ``grain_ms``: the interval at which windows close. Results up to ``since`` (ms) are already
    stored, possibly with missing sites. Only ticks after ``after`` (ms) are written. ``resumed``:
    the sites whose panes an earlier query has read. ``unreachable``: the sites that did not answer
    when this query started. In all methods, ``promise`` is the next tick (ms) to close.
    """

    def __init__(
        self,
        grain_ms: int,
        patience_ms: int,
        since: int,
        after: int = 0,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        resumed: Collection[str] = (),
        unreachable: Collection[str] = (),
    ) -> None:
        self._resumed = frozenset(resumed)
        self._lost = self._resumed & frozenset(unreachable)
        self._since = since
        self._after = after
        self._grain = grain_ms
        self._patience = patience_ms / 1000
        self._monotonic = monotonic
        self._excluded = 0.0
        self._lags: dict[str, _SiteLag] = {}
        self._orphaned_at: dict[str, int] = {}

    def note_orphan(self, site: str, frontier: int) -> None:
        """Wait less for a site: the worker that wrote its panes up to ``frontier`` (ms) is dead.

        Later panes are those of the next worker, which has the usual patience.
        """
        self._orphaned_at[site] = frontier

    def exclude(self, seconds: float) -> None:
        """Exclude the last ``seconds``, in which no site was observed, from all times of sites."""
        self._excluded += seconds

    def frontier(
        self, progress: Mapping[str, SiteProgress], presence: Presence, promise: int
    ) -> int:
        """Return the event time (ms) up to which the panes of all present sites have arrived.

        ``progress``: site -> the progress of the site's panes. ``presence``: the gaps of the sites.
        """
        tick = self._next_tick(promise)
        absent = self.absent(presence, promise)
        present = [one.frontier for site, one in progress.items() if site not in absent]
        if not present:
            present = [max((one.frontier for one in progress.values()), default=-1)]
        # From this time on, a site that is missing now is waited for again.
        change = presence.next_change(tick)
        return min(present) if change is None else min(*present, max(change, promise))

    def absent(self, presence: Presence, promise: int) -> tuple[str, ...]:
        """Return the names of the sites that are missing at the next tick to close."""
        return presence.missing(self._next_tick(promise))

    def next_promise(self, closed: int) -> int:
        """Return the tick (ms) to close after the tick ``closed``."""
        return closed // self._grain * self._grain + self._grain

    def reached(self, frontier: int, promise: int) -> int:
        """Return the last tick (ms) that a batch closes, if its first tick is ``promise``, and
        panes up to ``frontier`` (ms) are read.

        ``promise``: 0 before the first result; the number of ticks is then unlimited, because
        nothing is written for ticks before the first points.
        """
        reached = max(frontier, 0) // self._grain * self._grain
        if promise > 0:
            # A long gap is closed in steps: the results of each have to fit into a request.
            reached = min(reached, promise + (_MAX_TICKS - 1) * self._grain)
        return max(reached, promise)

    def decide(
        self,
        progress: Mapping[str, SiteProgress],
        presence: Presence,
        promise: int,
        now_ms: int,
    ) -> list[SiteDecision]:
        """Return the decisions about sites that leave or join now.

        ``progress``: site -> the progress of the site's panes. ``now_ms``: the time of the clock.
        """
        self._observe(progress, now_ms)
        furthest = max((one.frontier for one in progress.values()), default=-1)
        if furthest < 0:
            return []
        decisions = []
        for site, one in progress.items():
            if presence.open_gap(site) is not None:
                has_caught_up = self._has_caught_up(site, one.frontier, max(promise, furthest))
                if has_caught_up and not self._is_kept_away(site, presence, furthest):
                    joins_at = self._round_up(max(now_ms, furthest, promise) + _JOIN_AHEAD_MS)
                    decisions.append(SiteDecision(joins_at, site, Joined(one.frontier)))
            elif one.frontier < promise and self._is_silent(site):
                decisions.append(SiteDecision(max(one.frontier, self._since), site, Left()))
        return decisions

    def _observe(self, progress: Mapping[str, SiteProgress], now_ms: int) -> None:
        now = self._now()
        furthest = max((one.frontier for one in progress.values()), default=-1)
        for site, one in progress.items():
            if site not in self._lags:
                if site in self._lost and one.frontier < 0 < self._since:
                    # The site fell silent before this query started, soon after the last result.
                    silent_ms = max(0, now_ms - self._since - self._grain)
                else:
                    silent_ms = self._former_silence_ms(one.frontier, furthest)
                silent_since = now - silent_ms / 1000
                self._lags[site] = _SiteLag(one.frontier, silent_since, silent_since)
            lag = self._lags[site]
            if one.frontier > lag.frontier:
                if lag.steady_since is None or now - lag.silent_since > self._patience:
                    lag.steady_since = now
                lag.frontier, lag.moved_at, lag.silent_since = one.frontier, now, now
            if one.frontier >= furthest:
                lag.silent_since = now
            is_far = furthest - one.frontier > self._tolerated_ms
            lag.far_since = (lag.far_since or now) if is_far else None

    def _former_silence_ms(self, frontier: int, furthest: int) -> int:
        """Return for how long (ms) a site was silent before this query, derived from event time.

        Returns 0 for a site that replays, since the event time of replayed rows does not show
        silence.
        """
        if frontier < self._since - self._grain or self._since == 0:
            return 0
        return max(0, furthest - frontier - self._grain)

    def _has_caught_up(self, site: str, frontier: int, furthest: int) -> bool:
        """Return whether a missing site has caught up, so that it may join.

        A site that moves, but always lags a little, would otherwise be missing for ever after a
        short cut, although it was present before. It must have moved steadily for longer than the
        patience: a site that moves more seldom would leave again after each move.
        """
        if self._is_silent(site):
            return False
        is_near = frontier >= furthest - self._tolerated_ms
        return frontier >= furthest - self._grain or (is_near and self._is_steady(site))

    def _is_kept_away(self, site: str, presence: Presence, furthest: int) -> bool:
        """Return whether a missing site that has caught up does not join yet.

        A site that catches up at each move, but moves more seldom than the patience, leaves again
        after each move. Each such short stay doubles the time for which the site stays away. The
        site joins nevertheless, since results include its points only then. A site that moves
        steadily joins at once. All durations are of event time, which may lag behind the clock.
        """
        if self._is_steady(site):
            return False
        patience_ms, short_stays = self._patience * 1000, 0
        gaps = [gap for gap in reversed(presence.gaps) if gap.site == site]
        for gap, former in pairwise(gaps):
            joined_at = former.until if former.joined_at is None else former.joined_at
            if joined_at is not None and gap.after - joined_at > patience_ms:
                break
            short_stays += 1
        if not short_stays:
            return False
        of_ticks_ms = min(_MAX_ABSENCE_TICKS * self._grain, _LONGEST_ABSENCE_MS)
        max_absence_ms = max(_MAX_ABSENCE_MS, of_ticks_ms)
        absence_ms = min(patience_ms * 2.0 ** min(short_stays, 20), max_absence_ms)
        return furthest - gaps[0].after <= absence_ms

    def _is_steady(self, site: str) -> bool:
        """Return whether the site has moved for longer than the patience without a longer silence.

        A site that is silent now may be steady up to its last move.
        """
        lag = self._lags[site]
        return lag.steady_since is not None and lag.moved_at - lag.steady_since > self._patience

    def _now(self) -> float:
        """Return the time (s) on a clock that stands still while no site is observed."""
        return self._monotonic() - self._excluded

    @property
    def _tolerated_ms(self) -> float:
        """The longest lag (ms of event time) of a site that stays present for ever."""
        return self._patience * 1000 + self._grain

    def _is_silent(self, site: str) -> bool:
        lag, now = self._lags[site], self._now()
        is_new = lag.frontier < 0 and site not in self._resumed
        is_orphaned = self._orphaned_at.get(site) == lag.frontier
        patiences = _START_PATIENCES if is_new else _ORPHAN_PATIENCES if is_orphaned else 1
        patience = self._patience * patiences
        is_slow = lag.far_since is not None and now - lag.far_since > MAX_LAG_PATIENCES * patience
        return is_slow or now - lag.silent_since > patience

    def _next_tick(self, promise: int) -> int:
        # Ticks up to ``after`` are not written again, so they need not wait for any site.
        return max(promise, self._after + 1)

    def _round_up(self, time_ms: int) -> int:
        return -(-time_ms // self._grain) * self._grain
