"""The phi accrual failure detector: how strongly silence suggests that a process has failed.

Hayashibara, Défago, Yared and Katayama, "The φ accrual failure detector", SRDS 2004, section 4: the
arrivals of the last heartbeats give a normal distribution of the intervals between heartbeats. Phi
is the negative decimal logarithm of the probability that a process that is alive stays silent for
longer than the present silence. The users of the number set the thresholds.
"""

import math
from collections import deque
from collections.abc import Callable
from enum import Enum
from statistics import fmean

SUSPECTED_PHI = 3.0
"""The phi of a suspected process: one of 1,000 intervals is as long as its silence.

With a regular heartbeat each second, this is a silence of 2.5 s.
"""

DEAD_PHI = 30.0
"""From this phi on, a process is dead.

With a regular heartbeat each second, this is a silence of 6.7 s; with the most irregular
heartbeats, 19 s.
"""

_WINDOW = 100
"""The number of intervals from which the distribution is estimated."""

_MIN_DEVIATION_S = 0.5
"""The minimum of the standard deviation (s).

Pauses of up to some seconds, for example of a machine with too much work, are too rare to be in the
window.
"""

_MAX_INTERVALS = 3.0
"""The maximum length of an interval in the window, as a multiple of the expected interval.

A longer interval was a fault. It would hide later faults.
"""

_ERFC_MAX = 20.0
"""The number of standard deviations up to which the complementary error function is exact."""

_MAX_STEP_S = 1.0

Seconds = Callable[[], float]
"""Returns the seconds since a fixed moment."""


class Liveness(Enum):
    """The state of a process, as far as another process can observe it."""

    ALIVE = "alive"
    SUSPECTED = "suspected"
    """Silent for longer than usual; the fault may be transient."""
    DEAD = "dead"
    """Silent for so long that the fault is considered permanent."""


class RunningTime:
    """A clock (s) that stands still while this process is paused.

    A paused process receives no heartbeats, so their absence is no evidence. Call the clock several
    times a second: between two calls, it advances by one second at most.
    """

    def __init__(self, monotonic: Seconds) -> None:
        self._monotonic = monotonic
        self._last = monotonic()
        self._running_s = 0.0

    def __call__(self) -> float:
        """Return the seconds for which this process has run since the clock was created."""
        now = self._monotonic()
        self._running_s += min(now - self._last, _MAX_STEP_S)
        self._last = now
        return self._running_s


class FailureDetector:
    """Estimates from the heartbeats of one process whether the process has failed.

    ``interval_s``: the expected interval between heartbeats. The silence begins when the detector
    is created.
    """

    def __init__(self, interval_s: float, clock: Seconds) -> None:
        self._clock = clock
        self._max_interval_s = _MAX_INTERVALS * interval_s
        self._intervals = deque([interval_s], maxlen=_WINDOW)
        self._mean_s, self._deviation_s = interval_s, _MIN_DEVIATION_S
        self._arrived_at = clock()

    def record_first_heartbeat(self) -> None:
        """Record a heartbeat that ends no interval, because none has arrived before."""
        self._arrived_at = self._clock()

    def record_heartbeat(self) -> None:
        """Record that a heartbeat has arrived now."""
        self._intervals.append(min(self.silence_s, self._max_interval_s))
        self._arrived_at = self._clock()
        mean_s = self._mean_s = fmean(self._intervals)
        # Ten times faster than the exact fractions of ``statistics.pstdev``.
        variance = fmean([(each - mean_s) ** 2 for each in self._intervals])
        self._deviation_s = max(math.sqrt(variance), _MIN_DEVIATION_S)

    @property
    def silence_s(self) -> float:
        """The time (s) since the last heartbeat."""
        return self._clock() - self._arrived_at

    @property
    def phi(self) -> float:
        """The present suspicion, from 0 on."""
        return phi(self.silence_s, self._mean_s, self._deviation_s)

    @property
    def liveness(self) -> Liveness:
        """The present state of the process."""
        suspicion = self.phi
        if suspicion >= DEAD_PHI:
            return Liveness.DEAD
        return Liveness.SUSPECTED if suspicion >= SUSPECTED_PHI else Liveness.ALIVE


def phi(silence_s: float, mean_s: float, deviation_s: float) -> float:
    """Return the suspicion after a silence, for normally distributed intervals.

    >>> [round(phi(silence_s, 1.0, 0.5), 1) for silence_s in (0.0, 1.0, 2.55, 6.8, 60.0)]
    [0.0, 0.3, 3.0, 30.7, 3026.0]
    """
    deviations = (silence_s - mean_s) / deviation_s
    if deviations < _ERFC_MAX:
        tail = math.erfc(deviations / math.sqrt(2)) / 2
        return max(0.0, -math.log10(tail))
    # Birnbaum's bound of the tail, since the tail itself is below the smallest number.
    root = math.sqrt(deviations**2 + 4)
    log_tail = math.log(2 / (deviations + root) / math.sqrt(2 * math.pi)) - deviations**2 / 2
    return -log_tail / math.log(10)
