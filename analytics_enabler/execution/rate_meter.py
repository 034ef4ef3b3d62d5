"""The measurement of counters' rates."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from analytics.plan.status import FragmentStatus

READINGS = 13
STEP_S = 5.0

START_S = 45.0
"""The time (s) after the start of a version in which it is not measured.

A version needs more CPU time then: the JVM compiles, and Python loads modules (measured: 0.34 cores
in the first 45 s, and 0.21 in the minute after).
"""

_STARTED_BATCHES = 30
"""The number of micro-batches after which a version has started, whenever it is first observed."""

_TOLERANCE = 0.25

_MIN_BATCHES = 0.9
"""The share of the ticks that have a micro-batch of their own, if a fragment is on time."""

_BATCHED_MS = 1000
"""The interval (ms) of ticks below which a micro-batch computes several ticks at any load."""

_MAX_BUSY = 0.5
"""The share of the time from which a fragment may compute because it is delayed, or replays."""

_MIN_PROGRESS = 0.1
"""The least progress of event time per second with which ``least_cores`` is computed."""

_COMPUTATION = "addBatch"
"""Spark's name of the phase of a micro-batch that reads, computes and writes."""


class RateMeter:
    """Measures a counter's rate over the last minute; stores one reading per ``STEP_S`` seconds."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, float]] = deque(maxlen=READINGS)

    def read(self, now: float, count: float) -> None:
        """Add a reading of the counter at the time ``now`` (s).

        A count below the previous reading means that the counter was restarted: the earlier
        readings are dropped.
        """
        if self._readings and count < self._readings[-1][1]:
            self._readings.clear()
        if not self._readings or now - self._readings[-1][0] >= STEP_S:
            self._readings.append((now, count))

    @property
    def rate(self) -> float | None:
        """The increase of the counter per second; None: fewer than two readings are stored."""
        if len(self._readings) < 2:
            return None
        (start, first), (end, last) = self._readings[0], self._readings[-1]
        return (last - first) / (end - start)

    @property
    def span_s(self) -> float:
        """The time (s) between the first and the last reading."""
        return self._readings[-1][0] - self._readings[0][0] if self._readings else 0.0


@dataclass(frozen=True, slots=True)
class FragmentRates:
    """The rates of a fragment, over the last ``span_s``.

    ``progress``: the event time (s) that its results have advanced. ``busy``: the share of the time
    that its micro-batches compute.
    """

    span_s: float
    cores: float
    rows: float
    written_bytes: float
    batches: float
    progress: float
    busy: float = 0.0

    def is_on_time(self, grain_ms: int, *, is_feed: bool = False) -> bool:
        """Return whether the results advance as time does, tick by tick.

        A fragment that waits for data, or replays data, is not on time. A delayed fragment is not
        on time either: it computes several ticks in one micro-batch, so it uses less CPU time and
        writes fewer bytes than it would on time. A fragment without a micro-batch does not count as
        on time. ``grain_ms``: the interval of the ticks.

        ``is_feed``: whether the fragment reads a feed, whose time may advance only with its rows.
        When a row arrives, the fragment computes all ticks up to this row at once. So it is also on
        time if it computes for less than ``_MAX_BUSY`` of the time.
        """
        if not self.batches:
            return False
        if is_feed and not self._is_busy:
            return True
        advances = abs(self.progress - 1) <= _TOLERANCE + grain_ms / 1000 / self.span_s
        ticks = 1000 * self.span_s / max(grain_ms, _BATCHED_MS)
        return advances and self.batches * self.span_s >= _MIN_BATCHES * ticks - 1

    @property
    def least_cores(self) -> float | None:
        """The cores that a delayed or replaying fragment needs at least to be on time.

        On time, a second of event time takes at least as much CPU time as now, when several ticks
        share a micro-batch. None: the fragment waits for data, or has no progress.
        """
        if not self._is_busy or self.progress <= 0:
            return None
        return self.cores / max(self.progress, _MIN_PROGRESS)

    @property
    def _is_busy(self) -> bool:
        return self.busy >= _MAX_BUSY


class FragmentMeter:
    """Measures the demand of one fragment: the bytes always, the rest while one version runs.

    ``start_s``: the time (s) after the start of a version in which it is not measured.
    """

    def __init__(self, start_s: float = 0.0) -> None:
        self._start_s = start_s
        self._is_observed = False
        self._started_at = 0.0
        self.written_bytes = RateMeter()
        self.version: str | None = None
        """The fingerprint of the only running version; None: none or several run."""
        self._meters: tuple[RateMeter, ...] = ()

    def read(self, now: float, status: FragmentStatus) -> None:
        """Add a reading of a fragment's status at the time ``now`` (s)."""
        self.written_bytes.read(now, status.bytes_written)
        is_alone = status.state == "running" and status.queries == 1
        version = status.active if is_alone and status.active == status.fingerprint else None
        counters = tuple(_counters(status))
        if version != self.version:
            self.version, self._meters = version, tuple(RateMeter() for _ in counters)
            # An enabler that starts observes fragments that have run for long.
            is_new = self._is_observed or status.batches < _STARTED_BATCHES
            self._started_at = now + self._start_s if is_new else now
        self._is_observed = True
        if version is not None and now >= self._started_at:
            for meter, count in zip(self._meters, counters, strict=True):
                meter.read(now, count)

    def rates(self, min_span_s: float) -> FragmentRates | None:
        """Return the rates of the only running version.

        None: it has been measured alone for less than ``min_span_s``, or a counter was restarted
        since.
        """
        if self.version is None:
            return None
        span_s = min(meter.span_s for meter in self._meters)
        if span_s < max(min_span_s, STEP_S):
            return None
        return FragmentRates(span_s, *(meter.rate or 0.0 for meter in self._meters))


def _counters(status: FragmentStatus) -> Iterator[float]:
    """Yield the counters of a fragment, in the order of ``FragmentRates``."""
    yield from (status.cpu_s, status.rows_read, status.bytes_written, status.batches)
    yield status.frontier / 1000
    yield status.spent_ms.get(_COMPUTATION, 0) / 1000
