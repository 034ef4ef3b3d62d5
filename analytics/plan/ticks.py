"""Ticks: when windows end, at the multiples of an interval or at a time of day."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

import msgspec

DAY_MS = 86_400_000

_FIXED = re.compile(r"(?:GMT|UTC)?([+-])(\d\d?)(?::([0-5]\d))?", re.IGNORECASE | re.ASCII)
_MAX_HOURS = 14
_FIRST = datetime(2000, 1, 1)
_LAST = datetime(2099, 12, 31)
_MIN_PERIOD = timedelta(days=7)
"""A period that is shorter than the time between any two clock changes of a zone."""


class TimeOfDay(msgspec.Struct, frozen=True):
    """A time of day (ms after midnight) in a zone: an IANA name, or an offset like ``+02:00``."""

    after_midnight_ms: int
    zone: str

    def __str__(self) -> str:
        minutes = self.after_midnight_ms // 60_000
        return f"{minutes // 60:02}:{minutes % 60:02} {self.zone}"


At = TimeOfDay | msgspec.UnsetType
"""A time of day; if unset, JSON and fingerprints do not contain the field."""


@dataclass(frozen=True, slots=True)
class Ticks:
    """The multiples of an interval since the epoch; if ``at`` is set, at this time of day instead.

    With ``at``, the interval must be a number of whole days.

    If a daylight-saving change skips the time of day, the tick is later by the length of the
    change. If the time of day occurs twice, the tick is the first occurrence. Daylight-saving
    changes before 2000 and after 2099 are ignored.

    >>> Ticks(1000).after(1000), Ticks(1000).last(1999)
    (2000, 1000)
    >>> Ticks(DAY_MS, TimeOfDay(3_600_000, "+02:00")).after(0)
    82800000
    """

    every_ms: int
    at: At = msgspec.UNSET

    @property
    def phases(self) -> tuple[int, ...]:
        """The distances (ms) of ticks from the preceding multiple of the interval, sorted.

        Daylight saving causes several distances. In this case, a time with one of the distances is
        not always a tick: use ``includes`` to test a time.
        """
        return (0,) if self.at is msgspec.UNSET else _phases(self.every_ms, self.at)

    @property
    def step_ms(self) -> int:
        """The greatest common divisor (ms) of all ticks."""
        return math.gcd(self.every_ms, *self.phases)

    def after(self, time_ms: int) -> int:
        """Return the first tick (ms since the epoch) that is later than a time."""
        if len(self.phases) == 1:
            return time_ms - (time_ms - self.phases[0]) % self.every_ms + self.every_ms
        return min(tick for tick in self._near(time_ms) if tick > time_ms)

    def last(self, time_ms: int) -> int:
        """Return the last tick (ms since the epoch) that is not later than a time."""
        if len(self.phases) == 1:
            return time_ms - (time_ms - self.phases[0]) % self.every_ms
        return max(tick for tick in self._near(time_ms) if tick <= time_ms)

    def includes(self, time_ms: int) -> bool:
        """Return whether a time is a tick."""
        return self.last(time_ms) == time_ms

    def are_subset_of(self, others: "Ticks") -> bool:
        """Return whether all ticks are also ticks of ``others``."""
        if self.every_ms % others.every_ms:
            return False
        if len(others.phases) > 1:
            return self.at == others.at
        return all((phase - others.phases[0]) % others.every_ms == 0 for phase in self.phases)

    def _near(self, time_ms: int) -> Iterator[int]:
        assert self.at is not msgspec.UNSET  # noqa: S101 - an interval has but one phase
        every = self.every_ms
        # No two time zones differ by more than a day.
        first = (time_ms - self.at.after_midnight_ms - DAY_MS) // every
        for number in range(first, first + 2 * DAY_MS // every + 3):
            yield _instant(number * every + self.at.after_midnight_ms, self.at.zone)


@lru_cache(maxsize=1)
def zones() -> frozenset[str]:
    """Return the names of all installed time zones."""
    return frozenset(available_timezones())


def is_zone(name: str) -> bool:
    """Return whether ``name`` is a time zone: an IANA name, or an offset such as ``+02:00``."""
    fixed = _FIXED.fullmatch(name)
    return name in zones() if fixed is None else int(fixed[2]) <= _MAX_HOURS


@lru_cache(maxsize=1000)
def _zone(name: str) -> tzinfo:
    fixed = _FIXED.fullmatch(name)
    if fixed is None:
        return ZoneInfo(name)
    ahead = timedelta(hours=int(fixed[2]), minutes=int(fixed[3] or 0))
    return timezone(-ahead if fixed[1] == "-" else ahead)


@lru_cache(maxsize=1000)
def _phases(every_ms: int, at: TimeOfDay) -> tuple[int, ...]:
    time, zone = timedelta(milliseconds=at.after_midnight_ms), _zone(at.zone)
    weeks = (_LAST - _FIRST) // _MIN_PERIOD
    ahead = {_ahead_ms(_FIRST + time + week * _MIN_PERIOD, zone) for week in range(weeks)}
    return tuple(sorted({(at.after_midnight_ms - each) % every_ms for each in ahead}))


def _instant(by_clock_ms: int, zone: str) -> int:
    """Return the time (ms since the epoch) at which the clocks in a zone show a local time.

    ``by_clock_ms``: the time (ms since the epoch) at which the clocks in UTC show this local time.
    """
    first, last = (round(each.replace(tzinfo=UTC).timestamp() * 1000) for each in (_FIRST, _LAST))
    known = min(max(by_clock_ms, first), last)
    shown = datetime.fromtimestamp(known / 1000, UTC).replace(tzinfo=None)
    return by_clock_ms - _ahead_ms(shown, _zone(zone))


def _ahead_ms(shown: datetime, zone: tzinfo) -> int:
    ahead = shown.replace(tzinfo=zone).utcoffset()
    assert ahead is not None  # noqa: S101 - all zones have an offset
    return round(ahead.total_seconds() * 1000)
