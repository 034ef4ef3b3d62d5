"""The limit on how often an event is logged."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

LOG_INTERVAL_S = 10.0


@dataclass(slots=True)
class LogLimit:
    """Permits one log entry in each interval of ``LOG_INTERVAL_S``, and counts the others.

    ``monotonic``: returns a time (s) that never goes back.
    """

    monotonic: Callable[[], float] = time.monotonic
    _last: float = field(default=-math.inf, init=False)
    _suppressed: int = field(default=0, init=False)

    def permit(self) -> int | None:
        """Return the number of events that were not logged since the last one that was.

        None: the event must not be logged either.
        """
        now = self.monotonic()
        if now - self._last < LOG_INTERVAL_S:
            self._suppressed += 1
            return None
        suppressed, self._suppressed = self._suppressed, 0
        self._last = now
        return suppressed
