"""The demands of fragments when they were last measured, in relation to their estimates."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

VALID_S = 180.0
"""The time (s) for which the last demand of a fragment is valid."""

FACTOR_S = 120.0
"""The time (s) whose least ratio of measurement to estimate counts.

Both follow a change of the load, but not at the same time: one measures the last minute, the other
reads the rates of points twice a minute. The ratio in between would count a change twice.
"""

MAX_DEMANDS = 1000
"""The number of fragments with a last demand, the last observed ones."""


@dataclass(frozen=True, slots=True)
class _LastDemand:
    cores: float
    factors: tuple[tuple[float, float], ...]
    """(time (s), ratio of measurement to estimate), the oldest first."""
    until: float

    @property
    def factor(self) -> float:
        return min(factor for _, factor in self.factors)


class LastDemands:
    """Remembers the demands of fragments, for times without a measurement.

    A fragment that has moved is not measured on its new worker at once. With the estimate alone,
    its demand could fall so far that it seems to fit on its former worker again. A fragment is
    identified by its fingerprint. All cores are those of the reference machine.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._demands: OrderedDict[str, _LastDemand] = OrderedDict()

    def observe_measurement(self, fragment: str, estimated: float, measured: float) -> None:
        """Set the last demand of a fragment to its measured cores."""
        now, former = self._monotonic(), self._demands.get(fragment)
        recent = () if former is None else former.factors
        factors = tuple(each for each in recent if now - each[0] <= FACTOR_S)
        factors = (*factors, (now, measured / max(estimated, 1e-6)))
        self._demands[fragment] = _LastDemand(measured, factors, now + VALID_S)
        self._demands.move_to_end(fragment)
        while len(self._demands) > MAX_DEMANDS:
            self._demands.popitem(last=False)

    def observe_minimum(self, fragment: str, estimated: float, least: float) -> None:
        """Raise the last demand of a delayed fragment, which needs at least ``least`` cores."""
        if least >= self.expected(fragment, estimated):
            self.observe_measurement(fragment, estimated, least)

    def expected(self, fragment: str, estimated: float) -> float:
        """Return the cores that a fragment is expected to need while it is not measured.

        They are at least the last demand; if the estimate has risen since, the last demand has
        risen by the same factor. The estimate alone may be too high: it includes series that have
        no points any more.
        """
        last = self._demands.get(fragment)
        if last is None or last.until < self._monotonic():
            return estimated
        return max(last.cores, estimated * last.factor)
