"""The workers that announce themselves to the agent of this site."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from mistbow.auth.credential import MAX_TEXT_BYTES
from mistbow.errors import ConflictError, InvalidRequestError
from mistbow.fabric import Worker
from mistbow.failure_detector import FailureDetector, Liveness, RunningTime, Seconds
from mistbow.loopback import is_loopback_url
from storage_agent.addresses import is_service_url
from storage_agent.membership.fact_size import MAX_FACT_BYTES, fits
from storage_agent.membership.worker_history import DEATH, SUSPICION, WorkerHistory

ANNOUNCEMENT_INTERVAL_S = 1.0
"""The expected interval (s) between the announcements of a worker."""

_MAX_NAME_LENGTH = 200
_MAX_LABELS = 64
_MAX_OPERATORS = 1000
_MAX_INSTANCE_LENGTH = 64
_MAX_REPLACED = 16


@dataclass(slots=True)
class _Announced:
    """The last announcement of a worker, and the detector of its failure.

    ``replaced``: the instances whose place the worker took at the same address.
    """

    worker: Worker
    detector: FailureDetector
    replaced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerChange:
    """A change of a worker's state; ``silence_s``: the time (s) since its last announcement."""

    worker: Worker
    liveness: Liveness
    phi: float
    silence_s: float


class Workers:
    """The workers that have announced themselves, by name.

    Each name has one live worker. A restarted worker has another instance. The new instance
    replaces the former instance at once if both have the same address, and otherwise once the
    former instance is suspected. ``history`` records the failures.
    """

    def __init__(self, site: str, monotonic: Seconds, history: WorkerHistory) -> None:
        self._site = site
        self._history = history
        self._clock = RunningTime(monotonic)
        self._announced: dict[str, _Announced] = {}

    def all(self) -> tuple[Worker, ...]:
        """Return the workers, ordered by name."""
        return tuple(self._announced[name].worker for name in sorted(self._announced))

    def announce(self, worker: Worker) -> bool:
        """Add a worker, or renew its announcement; return whether it was suspected until now.

        Raises ``ConflictError`` if another live worker has the name.
        """
        worker = msgspec.structs.replace(worker, suspected=False, reliability=1.0)
        present = self._announced.get(worker.name)
        if present is not None and worker.instance == present.worker.instance:
            was_suspected = present.worker.suspected
            present.worker = worker
            present.detector.record_heartbeat()
            return was_suspected
        replaced: tuple[str, ...] = ()
        if present is not None:
            if worker.instance:
                _check_replacement(worker, present, self._site)
            self._history.add(worker.name, DEATH)
            replaced = (*present.replaced, present.worker.instance)[-_MAX_REPLACED:]
        self._announced[worker.name] = _Announced(worker, self._detector(), replaced)
        return False

    def has_instance(self, worker: Worker) -> bool:
        """Return whether this instance of the worker has the name already."""
        present = self._announced.get(worker.name)
        return present is not None and present.worker.instance == worker.instance

    def restore(self, workers: Iterable[Worker]) -> None:
        """Add the workers in the stored facts; each worker expires unless it announces itself."""
        for worker in workers:
            unsuspected = msgspec.structs.replace(worker, suspected=False)
            self._announced.setdefault(worker.name, _Announced(unsuspected, self._detector()))

    def remove(self, name: str, instance: str = "") -> bool:
        """Remove a worker; return whether no worker has the name now.

        ``instance``: another instance of the worker is not removed; empty: any instance is removed.
        """
        present = self._announced.get(name)
        if present is not None and instance and present.worker.instance not in ("", instance):
            return False
        self._announced.pop(name, None)
        return True

    def check(self) -> list[WorkerChange]:
        """Mark the suspected workers, and remove the dead workers; return these changes.

        Call this method several times a second: after a longer pause it finds no change, because
        the agent itself may have been paused.
        """
        self._clock()
        changes = []
        for name, announced in list(self._announced.items()):
            detector, worker = announced.detector, announced.worker
            liveness = detector.liveness
            if liveness is Liveness.DEAD:
                self._history.add(name, DEATH)
                del self._announced[name]
            elif liveness is Liveness.SUSPECTED and not worker.suspected:
                self._history.add(name, SUSPICION)
                announced.worker = msgspec.structs.replace(worker, suspected=True)
            else:
                continue
            changes.append(
                WorkerChange(announced.worker, liveness, detector.phi, detector.silence_s)
            )
        return changes

    def _detector(self) -> FailureDetector:
        return FailureDetector(ANNOUNCEMENT_INTERVAL_S, self._clock)


def name_conflict(worker: Worker, other: Worker, site: str) -> ConflictError:
    """Return the error that another live worker, at ``site``, has the name of a worker."""
    return ConflictError(
        f"the name {worker.name} belongs to the worker {other.url} at the site {site}, which is "
        f"alive; the worker {worker.url} needs another name",
        hint="Set MISTBOW_NODE of one of the two workers to another name, and restart it. If the "
        "first worker has ended, the name is free some seconds after its last announcement.",
    )


def _check_replacement(worker: Worker, present: _Announced, site: str) -> None:
    if worker.url != present.worker.url:
        if not present.worker.suspected:
            raise name_conflict(worker, present.worker, site)
    elif worker.instance in present.replaced:
        raise ConflictError(
            f"two workers named {worker.name} announce the same address {worker.url}; the later "
            "one has the name",
            hint="Stop one of the two workers, or set MISTBOW_NODE and MISTBOW_WORKER_URL of one "
            "of them to its own name and address, and restart it.",
        )


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
        f"at most {MAX_FACT_BYTES} bytes are allowed: use fewer or shorter labels and operators": (
            fits(worker)
        ),
        f"credential: at most {MAX_TEXT_BYTES} characters are allowed": len(worker.credential)
        <= MAX_TEXT_BYTES,
        f"instance: at most {_MAX_INSTANCE_LENGTH} characters are allowed": len(worker.instance)
        <= _MAX_INSTANCE_LENGTH,
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
