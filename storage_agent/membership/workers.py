"""The workers that announce themselves to the agent of this site."""

import math
from collections.abc import Callable, Iterable
from urllib.parse import quote

from mistbow.errors import InvalidRequestError
from mistbow.fabric import Worker
from mistbow.loopback import is_loopback_url
from storage_agent.addresses import is_service_url

LOST_S = 3.0
"""A worker is lost after this time without an announcement."""

_MAX_NAME_LENGTH = 200
_MAX_LABELS = 64
_MAX_OPERATORS = 1000

Monotonic = Callable[[], float]
"""Returns the seconds since a fixed moment."""


class Workers:
    """The workers that have announced themselves, by name."""

    def __init__(self, monotonic: Monotonic) -> None:
        self._monotonic = monotonic
        self._announced: dict[str, tuple[Worker, float]] = {}
        self._checked = monotonic()

    def all(self) -> tuple[Worker, ...]:
        """Return the workers, ordered by name."""
        return tuple(worker for _, (worker, _) in sorted(self._announced.items()))

    def announce(self, worker: Worker) -> None:
        """Add a worker, or renew its announcement."""
        self._announced[worker.name] = (worker, self._monotonic())

    def restore(self, workers: Iterable[Worker]) -> None:
        """Add the workers in the stored facts; each worker expires unless it announces itself."""
        for worker in workers:
            self._announced.setdefault(worker.name, (worker, self._monotonic()))

    def remove(self, name: str) -> None:
        """Remove a worker; an unknown name is ignored."""
        self._announced.pop(name, None)

    def expire(self) -> list[str]:
        """Remove the lost workers, and return their names.

        Call this method several times a second: after a longer pause it removes no worker, because
        the agent itself may have been paused.
        """
        now = self._monotonic()
        if now - self._checked > LOST_S / 2:
            # This process itself was paused, and could not receive announcements.
            self._announced = {name: (worker, now) for name, (worker, _) in self._announced.items()}
        self._checked = now
        lost = [name for name, (_, at) in self._announced.items() if now - at > LOST_S]
        for name in lost:
            del self._announced[name]
        return lost


def check_worker(name: str, worker: Worker, *, on_loopback: bool) -> None:
    """Raise ``InvalidRequestError`` if an announcement has an invalid value.

    ``name``: the name of the worker in the path of the request. ``on_loopback``: whether the worker
    must be on this machine, because the fog has no token.
    """
    numbers = {
        "cores": worker.cores,
        "memory_mb": worker.memory_mb,
        "cores_free": worker.cores_free,
        "memory_free_mb": worker.memory_free_mb,
        "clock_mhz": worker.clock_mhz,
    }
    for field, number in numbers.items():
        if not (math.isfinite(number) and number >= 0):
            raise InvalidRequestError(
                f"{field}: the number must be finite and at least 0 (got {number})"
            )
    rules = {
        f"name: the body must name {name}, as the path does": worker.name == name,
        f"name: the length must be 1 to {_MAX_NAME_LENGTH} characters": 1
        <= len(name)
        <= _MAX_NAME_LENGTH,
        "name: the text is not valid Unicode": _is_text(name),
        "url: the address is not of the form http://HOST:PORT": is_service_url(worker.url),
        "url: without MISTBOW_TOKEN, a worker must listen on loopback": not on_loopback
        or is_loopback_url(worker.url),
        "cores: the number must be above 0": worker.cores > 0,
        "memory_mb: the number must be above 0": worker.memory_mb > 0,
        "cores_free: the number must be at most cores": worker.cores_free <= worker.cores,
        "memory_free_mb: the number must be at most memory_mb": worker.memory_free_mb
        <= worker.memory_mb,
        f"labels: at most {_MAX_LABELS} labels are allowed": len(worker.labels) <= _MAX_LABELS,
        f"operators: at most {_MAX_OPERATORS} operators are allowed": len(worker.operators)
        <= _MAX_OPERATORS,
    }
    for problem, is_met in rules.items():
        if not is_met:
            raise InvalidRequestError(problem)


def _is_text(name: str) -> bool:
    try:
        quote(name)
    except UnicodeEncodeError:
        return False
    return True
