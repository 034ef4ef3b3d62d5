"""What a body brings: the points to store, and by name what is refused of it."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from mistbow.auth.callers import current_caller
from mistbow.errors import ForbiddenError, InvalidRequestError, TooLargeError
from storage_agent import metrics
from storage_agent.monitoring.bodies import LATEST_MS, Measurement

Source = Literal["remote write", "line protocol", "mqtt"]
Reason = Literal["series", "value", "time", "text", "syntax", "histogram"]

MOST_TOLD = 20
_MOST_TEXT = 200


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a point is not stored: in one word, to be counted by, and in a few."""

    reason: Reason
    what: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A point that is not stored: where it is in its body, of which series it is, and why."""

    where: str
    series: str
    what: str

    def __str__(self) -> str:
        return f"{self.where} ({self.series}): {self.what}"


class Collector:
    """Gathers the points of one body; a bad one is refused, and harms no other.

    ``fits`` tells whether what a point says beside its value and time is not too much.
    """

    def __init__(self, most: int, fits: Callable[[Measurement], bool]) -> None:
        self._most = most
        self._fits = fits
        self._reasons: Counter[Reason] = Counter()
        self._looked = 0
        self.points: list[Measurement] = []
        self.refusals: list[Refusal] = []

    @property
    def refused(self) -> int:
        """How many points are refused; the first ``MOST_TOLD`` of them are named."""
        return self._reasons.total()

    def look_at(self, parts: int) -> None:
        """Count series or lines of a body, with points or without: to look at each takes time.

        Raises ``TooLargeError`` when there are more than points in a body may be.
        """
        self._looked += parts
        if max(self._looked, len(self.points) + self.refused) > self._most:
            raise TooLargeError(f"the body has more than {self._most} points", hint="Send fewer.")

    def describe(self, fields: Mapping[str, Any]) -> Measurement:
        """Return a point of a series, to be copied; raises ``ValueError`` that says what is bad."""
        try:
            found = msgspec.convert({**fields, "val": 0, "timestamp": 0}, Measurement)
        except msgspec.ValidationError as error:
            what, _, where = str(error).partition(" - at `$.")
            raise ValueError(f"{where.rstrip('`')}: {what}") from error
        if not self._fits(found):
            raise ValueError("its labels are too large")
        try:
            current_caller().check_entities([found.entityID])
        except ForbiddenError as error:
            raise ValueError(error.message) from error
        return found

    def add(self, series: Measurement, value: float, time: int) -> Fault | None:
        """Take a value of a series at a time (ms), or return why that cannot be.

        Raises ``TooLargeError`` when there are more points than a body may have.
        """
        if not math.isfinite(value):
            return Fault("value", f"{value} is not a finite number")
        if not 0 <= time <= LATEST_MS:
            return Fault("time", f"the time {time} is not from 1970 to 9999, in ms")
        if len(self.points) >= self._most:
            raise TooLargeError(f"the body has more than {self._most} points", hint="Send fewer.")
        self.points.append(msgspec.structs.replace(series, val=value, timestamp=time))
        return None

    def refuse(self, fault: Fault, where: str, series: str, points: int = 1) -> None:
        """Note that points of a series are not stored; raises ``TooLargeError`` for too many."""
        self._reasons[fault.reason] += points
        self.look_at(0)
        if len(self.refusals) < MOST_TOLD:
            self.refusals.append(Refusal(where, series[:_MOST_TEXT], fault.what))

    def count(self, source: Source) -> None:
        """Count, once the points are stored, what became of this body."""
        metrics.INGESTED_POINTS.labels(source).inc(len(self.points))
        for reason, number in self._reasons.items():
            metrics.REFUSED_POINTS.labels(source, reason).inc(number)

    def problem(self) -> InvalidRequestError | None:
        """Return the error that names what was refused, if anything was."""
        if not self.refusals:
            return None
        everything = self.refused + len(self.points)
        return InvalidRequestError(
            f"{self.refused} of {everything} points are not stored: {self.refusals[0]}",
            hint="The others are stored; do not send them again.",
            details=[msgspec.to_builtins(refusal) for refusal in self.refusals],
        )
