"""The collection of the points in a request, and of the points that cannot be stored."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from mistbow.auth.callers import current_caller
from mistbow.client.agent_model import Point
from mistbow.client.fields import MAX_TIMESTAMP_MS
from mistbow.errors import ForbiddenError, InvalidRequestError, TooLargeError
from mistbow.streams.json_numbers import to_json
from mistbow.timestamps import SAFE_FROM_MS, Timestamps
from storage_agent import metrics

Source = Literal["remote write", "line protocol", "mqtt"]
Reason = Literal["series", "value", "time", "text", "syntax", "histogram"]

MAX_DETAILS = 20
MAX_SERIES_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Rejection:
    """The reason for which a point is not stored.

    ``reason``: the value of the label ``reason`` in the agent's metrics. ``message``: the error for
    the sender.
    """

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class RejectedPoint:
    """A point that is not stored.

    ``where``: the place of the point in the body. ``what``: the error.
    """

    where: str
    series: str
    what: str

    def __str__(self) -> str:
        return f"{self.where} ({self.series}): {self.what}"


class PointBatch:
    """Collects the points of a body; invalid points are rejected one by one.

    ``accepts_attributes``: returns whether the size of a point's attributes is allowed.
    ``timestamps``: reads the times of points.
    """

    def __init__(
        self,
        max_points: int,
        accepts_attributes: Callable[[Point], bool],
        timestamps: Timestamps = Timestamps(),
    ) -> None:
        self.timestamps = timestamps
        self.max_points = max_points
        self._accepts_attributes = accepts_attributes
        self._reasons: Counter[Reason] = Counter()
        self._parts = 0
        self.points: list[Point] = []
        self.rejected_points: list[RejectedPoint] = []

    @property
    def rejected(self) -> int:
        """The number of rejected points; ``rejected_points`` contains only some of the points."""
        return self._reasons.total()

    def too_large(self) -> TooLargeError:
        """Return the error for a body with more than ``max_points`` points."""
        return TooLargeError(
            f"the body has more than {self.max_points} points",
            hint="Send fewer points per request.",
        )

    def count_parts(self, parts: int) -> None:
        """Count ``parts`` more series or lines of the body.

        Raises ``TooLargeError`` if the body has more than ``max_points`` series, lines or points:
        the limit also applies to series and lines without points.
        """
        self._parts += parts
        if max(self._parts, len(self.points) + self.rejected) > self.max_points:
            raise self.too_large()

    def describe(self, fields: Mapping[str, Any]) -> Point:
        """Return a template point of a series; ``add`` copies the template for each value.

        ``fields``: the fields of the series as in a /put. Raises ``ValueError`` if the fields are
        invalid or too large, or if the caller may not write points of the entity.
        """
        try:
            point = msgspec.convert({**fields, "val": 0, "timestamp": 0}, Point)
        except msgspec.ValidationError as error:
            # The place of a label's name is `key` in `$.labels`.
            problem, _, path = str(error).partition(" - at `")
            place = path.replace("key` in `", "a name in ").replace("$.", "").rstrip("`")
            raise ValueError(f"{place}: {problem}") from error
        if not self._accepts_attributes(point):
            raise ValueError("the labels are too large")
        try:
            current_caller().check_entities([point.entity])
        except ForbiddenError as error:
            raise ValueError(error.message) from error
        return point

    def add(self, series: Point, value: float, time: int) -> Rejection | None:
        """Add a point of a series, and return None; if the time is invalid, return a rejection.

        ``series``: a template of ``describe``. ``time``: the time (ms). NaN, infinities and the
        staleness marker are valid values. Raises ``TooLargeError`` for more than ``max_points``.
        """
        if not SAFE_FROM_MS <= time <= MAX_TIMESTAMP_MS:
            try:
                time = int(self.timestamps.read(time, "the time"))
            except InvalidRequestError as error:
                return Rejection("time", error.text)
        if not 0 <= time <= MAX_TIMESTAMP_MS:
            return Rejection("time", f"the time {time} is not between the years 1970 and 9999 (ms)")
        if len(self.points) >= self.max_points:
            raise self.too_large()
        self.points.append(msgspec.structs.replace(series, value=to_json(value), ts=time))
        return None

    def reject(self, rejection: Rejection, where: str, series: str, points: int = 1) -> None:
        """Record that points of a series are rejected.

        ``where``: the place of the points in the body. ``points``: the number of points. Raises
        ``TooLargeError`` if the body has more than ``max_points`` points.
        """
        self._reasons[rejection.reason] += points
        self.count_parts(0)
        if len(self.rejected_points) < MAX_DETAILS:
            self.rejected_points.append(
                RejectedPoint(where, series[:MAX_SERIES_LENGTH], rejection.message)
            )

    def count(self, source: Source) -> None:
        """Add the stored and rejected points to the metrics; call this after storing."""
        metrics.INGESTED_POINTS.labels(source).inc(len(self.points))
        for reason, number in self._reasons.items():
            metrics.REFUSED_POINTS.labels(source, reason).inc(number)

    def problem(self) -> InvalidRequestError | None:
        """Return an error that lists the first rejected points; None: no point was rejected."""
        if not self.rejected_points:
            return None
        total = self.rejected + len(self.points)
        return InvalidRequestError(
            f"{self.rejected} of {total} points are not stored: {self.rejected_points[0]}",
            hint="The other points are stored; do not send them again.",
            details=[msgspec.to_builtins(each) for each in self.rejected_points],
        )
