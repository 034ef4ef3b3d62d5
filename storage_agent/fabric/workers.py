"""The workers of this site: who announced itself lately."""

import math
from collections.abc import Callable, Iterable
from urllib.parse import quote

from mistbow.errors import InvalidRequestError
from mistbow.fabric import Worker
from mistbow.settings import is_service_url

DEAD_S = 3.0
"""A worker that was not heard for so long is dead."""

_MOST_NAME = 200
_MOST_LABELS = 64
_MOST_OPERATORS = 1000

Monotonic = Callable[[], float]
"""Returns seconds since some moment."""


class Workers:
    """Those that are alive, by name."""

    def __init__(self, monotonic: Monotonic) -> None:
        self._monotonic = monotonic
        self._alive: dict[str, tuple[Worker, float]] = {}
        self._looked = monotonic()

    def alive(self) -> tuple[Worker, ...]:
        """Return them by name."""
        return tuple(worker for _, (worker, _) in sorted(self._alive.items()))

    def hear(self, worker: Worker) -> None:
        """Take an announcement."""
        self._alive[worker.name] = (worker, self._monotonic())

    def recall(self, workers: Iterable[Worker]) -> None:
        """Give those that were alive before a restart the time to be heard again."""
        for worker in workers:
            self._alive.setdefault(worker.name, (worker, self._monotonic()))

    def leave(self, name: str) -> None:
        """Forget one."""
        self._alive.pop(name, None)

    def expire(self) -> list[str]:
        """Forget the dead, and return their names; to be called several times a second."""
        now = self._monotonic()
        if now - self._looked > DEAD_S / 2:
            # This process itself stood still: what it did not hear meanwhile says nothing.
            self._alive = {name: (worker, now) for name, (worker, _) in self._alive.items()}
        self._looked = now
        dead = [name for name, (_, heard) in self._alive.items() if now - heard > DEAD_S]
        for name in dead:
            del self._alive[name]
        return dead


def check_worker(name: str, worker: Worker) -> None:
    """Refuse an announcement that no worker can mean."""
    numbers = {
        "cores": worker.cores,
        "memory_mb": worker.memory_mb,
        "cores_free": worker.cores_free,
        "memory_free_mb": worker.memory_free_mb,
        "clock_mhz": worker.clock_mhz,
    }
    for field, number in numbers.items():
        if not (math.isfinite(number) and number >= 0):
            raise InvalidRequestError(f"{field}: {number} is no amount")
    rules = {
        f"name: it is not {name}, which the path says": worker.name == name,
        f"name: it is empty or longer than {_MOST_NAME}": 1 <= len(name) <= _MOST_NAME,
        "name: it is not valid Unicode": _is_text(name),
        "url: it is not of the form http://HOST:PORT": is_service_url(worker.url),
        "cores: a worker has some": worker.cores > 0,
        "memory_mb: a worker has some": worker.memory_mb > 0,
        "cores_free: more than cores": worker.cores_free <= worker.cores,
        "memory_free_mb: more than memory_mb": worker.memory_free_mb <= worker.memory_mb,
        f"labels: more than {_MOST_LABELS}": len(worker.labels) <= _MOST_LABELS,
        f"operators: more than {_MOST_OPERATORS}": len(worker.operators) <= _MOST_OPERATORS,
    }
    for problem, holds in rules.items():
        if not holds:
            raise InvalidRequestError(problem)


def _is_text(name: str) -> bool:
    try:
        quote(name)
    except UnicodeEncodeError:
        return False
    return True
