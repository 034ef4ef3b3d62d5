"""Which points are sent: of metrics that are sampled adaptively, those that AdaM asks for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import reduce
from operator import and_

from msgspec.structs import replace

from mistbow.client.agent_model import Point
from mistbow.sampling.adam import Adam, Settings
from mistbow.sampling.adaptive import EVERY, HOLDS, MOST, Asked

_Series = tuple[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """A series' last value that was needed: taken at ``since``, the next is due at ``due`` (ms)."""

    adam: Adam
    since: int
    due: int

    def stands(self, now: int) -> bool:
        """Whether it needs no other one yet; a clock that was set back starts anew."""
        return self.since <= now < self.due


class Adapting:
    """Leaves out the values that stand, and says of each that is sent how long it stands.

    ``own`` is what this agent does whatever insights ask for, by patterns of metrics.
    """

    def __init__(self, interval_ms: int, own: Mapping[str, Asked]) -> None:
        self._interval_ms = interval_ms
        self._own = own
        self._wanted: Mapping[str, Asked] = {}
        self._held: dict[_Series, _Held] = {}
        self._rests: dict[str, tuple[_Held, ...]] = {}

    def ask(self, wanted: Mapping[str, Asked]) -> None:
        """Take in what insights ask for; what they no longer do, is sent whole at once."""
        if wanted != self._wanted:
            self._wanted = wanted
            self._rests.clear()

    def rests(self, collector: str, now: int) -> bool:
        """Whether all that a collector would find needs not be measured yet."""
        held = self._rests.get(collector, ())
        return bool(held) and all(each.stands(now) for each in held)

    def sent(self, collector: str, points: Iterable[Point], now: int) -> list[Point]:
        """Return which of a collection's points are to be sent, with what they say."""
        found: list[Point] = []
        standing: list[_Held] = []
        all_stand = True
        for point in points:
            asked = self._asked(point)
            if asked is None:
                self._held.pop((point.metric, point.entity), None)
                found.append(point)
                all_stand = False
                continue
            held, holds_ms = self._take(point, asked, now)
            if holds_ms or asked.whole:
                labels = {HOLDS: holds_ms, EVERY: self._interval_ms}
                found.append(replace(point, labels={**(point.labels or {}), **labels}))
            standing.append(held)
            all_stand = all_stand and not asked.whole
        self._rests[collector] = tuple(standing) if all_stand else ()
        self._forget(now)
        return found

    def _asked(self, point: Point) -> Asked | None:
        if HOLDS in (point.labels or {}):  # its source samples by itself
            return None
        own = [asked for pattern, asked in self._own.items() if fnmatchcase(point.metric, pattern)]
        wanted = self._wanted.get(point.metric)
        if not own:
            return wanted
        # What the agent does by itself spares its own strength: no insight undoes that.
        others = [] if wanted is None else [replace(wanted, whole=False)]
        return reduce(and_, [*own, *others])

    def _take(self, point: Point, asked: Asked, now: int) -> tuple[_Held, int]:
        """Return a series' value that stands, and how long this point does; 0: is not needed."""
        series = point.metric, point.entity
        before = self._held.get(series)
        if before is not None and before.stands(now):
            return before, 0
        longest = max(self._interval_ms, min(asked.longest_ms, MOST * self._interval_ms))
        settings = Settings(self._interval_ms, longest, asked.confidence)
        adam = Adam(settings, before.adam.state if before else None)
        steps = min(max(1, round(adam.feed(point.ts, point.value) / self._interval_ms)), MOST)
        holds_ms = steps * self._interval_ms
        # Collections are not quite as far apart as they should be.
        held = _Held(adam, now, now + holds_ms - self._interval_ms // 2)
        self._held[series] = held
        return held, holds_ms

    def _forget(self, now: int) -> None:
        """Forget the series that are no more: entities, as processes, come and go."""
        longest = MOST * self._interval_ms
        gone = [s for s, held in self._held.items() if not -longest < now - held.due < longest]
        for series in gone:
            del self._held[series]
