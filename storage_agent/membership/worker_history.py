"""The instability of workers: their recent deaths, restarts and suspicions, which decay."""

import msgspec

from mistbow.clock import Clock
from storage_agent.decay import DecayingCount, stability

HALF_LIFE_MS = 3_600_000
DEATH = 1.0
SUSPICION = 0.25
"""The amounts by which a death (or an unannounced restart) and a suspicion increase the
instability of a worker.
"""

_MAX_WORKERS = 1000
"""The number of workers whose instability is stored; the most stable ones are forgotten first."""

_NEGLIGIBLE = 0.01


class InstabilityFact(msgspec.Struct, frozen=True, kw_only=True):
    """The fact about the instability of a worker at the time ``at`` (ms)."""

    instability: float
    at: int


def reliability(fact: InstabilityFact | None, now: int) -> float:
    """Return the reliability, from 0 to 1, of a worker with an instability; None: no instability.

    >>> fact = InstabilityFact(instability=1.0, at=0)
    >>> reliability(fact, 0), reliability(fact, HALF_LIFE_MS), reliability(None, 0)
    (0.5, 0.67, 1.0)
    """
    if fact is None:
        return 1.0
    return round(stability(DecayingCount(fact.instability, fact.at).now(now, HALF_LIFE_MS)), 2)


class WorkerHistory:
    """The instability of the workers of this site, including dead workers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[str, DecayingCount] = {}
        self._changed: set[str] = set()

    def restore(self, facts: dict[str, InstabilityFact]) -> None:
        """Add the stored instabilities: name of a worker -> instability."""
        for name, fact in facts.items():
            self._counts.setdefault(name, DecayingCount(fact.instability, fact.at))

    def add(self, name: str, amount: float) -> None:
        """Increase the instability of a worker."""
        count = self._counts.get(name, DecayingCount())
        self._counts[name] = count.plus(amount, self._clock(), HALF_LIFE_MS)
        self._changed.add(name)
        self._forget()

    def reliability(self, name: str) -> float:
        """Return the present reliability of a worker, from 0 to 1."""
        return reliability(self._fact(name), self._clock())

    def take_changes(self) -> dict[str, InstabilityFact | None]:
        """Return the facts that changed since the last call; None: the worker is forgotten."""
        changed, self._changed = self._changed, set()
        return {name: self._fact(name) for name in sorted(changed)}

    def _fact(self, name: str) -> InstabilityFact | None:
        count = self._counts.get(name)
        return None if count is None else InstabilityFact(instability=count.value, at=count.at)

    def _forget(self) -> None:
        now = self._clock()
        values = {name: each.now(now, HALF_LIFE_MS) for name, each in self._counts.items()}
        excess = sorted(values, key=lambda name: values[name])[: max(0, len(values) - _MAX_WORKERS)]
        for name in {*excess, *(name for name in values if values[name] < _NEGLIGIBLE)}:
            del self._counts[name]
            self._changed.add(name)
