"""The announcement that a worker sends to its site's agent each second."""

import secrets
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

import msgspec

from analytics.operators.registry import installed
from analytics.plan.functions import UserOperator
from analytics_worker.lifecycle.capacity import clock_mhz, cores, node_memory
from analytics_worker.lifecycle.node_facts import with_facts
from analytics_worker.settings import WorkerSettings
from mistbow.client.agent import AgentClient
from mistbow.errors import ConflictError, MistbowError, UnauthorizedError
from mistbow.fabric import Worker
from mistbow.runtime.periodic import PeriodicThread, Schedule
from mistbow.settings import parse_labels
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_PERIOD_S = 1.0
_MAX_REFUSED_PAUSE_S = 8.0
"""The maximum time (s) between announcements of a worker whose name another worker has."""


def announcement(settings: WorkerSettings) -> Worker:
    """Return the announcement of a worker: its cores, its free memory, and declared facts."""
    all_cores, memory = cores(), node_memory()
    worker = Worker(
        name=settings.node,
        url=settings.worker_url,
        cores=all_cores,
        memory_mb=memory.limit_mb,
        cores_free=all_cores,
        memory_free_mb=min(max(memory.free_mb, 0.0), memory.limit_mb),
        clock_mhz=clock_mhz(),
        region=settings.region,
        labels=parse_labels(settings.labels),
        instance=secrets.token_hex(8),
    )
    return with_trust(with_facts(worker, settings), settings)


def with_trust(worker: Worker, settings: WorkerSettings) -> Worker:
    """Return an announcement with the present credential of the worker and its reach, and with the
    expiry of its certificate.
    """
    end, identity = settings.certificates.expires, settings.identity
    expires = None if end is None else int(end.timestamp() * 1000)
    worker = msgspec.structs.replace(worker, certificate_expires=expires)
    if identity is None:
        return worker
    try:
        current = identity.current()
    except UnauthorizedError:
        # No agent accepts the announcement either.
        return worker
    return msgspec.structs.replace(
        worker, own_site_only=current.credential.is_confined, credential=current.text
    )


class Announcer:
    """Sends announcements from ``start`` to ``stop``, and retries while the agent is unreachable.

    Each announcement lists the installed operators of other packages. The lookup of operators
    imports packages and may be slow. Until the lookup ends, announcements contain the previous
    list, since the agent treats a silent worker as lost.

    While another live worker has the name, the agent refuses the announcements, and the pauses
    between them are doubled up to ``_MAX_REFUSED_PAUSE_S``.

    ``with_measures``: returns an announcement with the present capacity and battery charge.
    """

    def __init__(
        self, agent: AgentClient, worker: Worker, with_measures: Callable[[Worker], Worker]
    ) -> None:
        self._agent = agent
        self._worker = worker
        self._with_measures = with_measures
        self._lookups = ThreadPoolExecutor(1, "operators")
        self._lookup: Future[tuple[str, ...]] | None = None
        self._thread = PeriodicThread(self._announce, Schedule("announcement", _PERIOD_S))
        self._is_started = False
        self._refused = 0
        self.refusal: str | None = None
        """Why the agent refuses the worker's name; None: the last announcement was not refused."""

    def start(self) -> None:
        """Start sending announcements."""
        self._is_started = True
        self._thread.start()

    def stop(self) -> None:
        """Stop sending announcements, and report to the agent that the worker leaves.

        If the agent is unreachable, only an event is logged.
        """
        self._lookups.shutdown(wait=False, cancel_futures=True)
        if self._is_started:
            self._thread.stop()
            try:
                self._agent.leave(self._worker.name, self._worker.instance)
            except MistbowError as error:
                log.info("worker_leave_failed", reason=error.message)

    def _announce(self) -> float:
        """Send an announcement; return the pause (s) until the next one."""
        if self._lookup is None:
            self._lookup = self._lookups.submit(_operators)
        lookup = self._lookup
        if wait([lookup], _PERIOD_S / 2).done:
            self._lookup = None
            if (error := lookup.exception()) is None:
                self._worker = msgspec.structs.replace(self._worker, operators=lookup.result())
            else:
                log.warning("operator_lookup_failed", reason=str(error))
        try:
            self._agent.announce(self._with_measures(self._worker))
        except ConflictError as error:
            return self._note_refusal(error)
        if self.refusal is not None:
            log.info("worker_name_accepted", worker=self._worker.name, refused=self._refused)
        self._refused, self.refusal = 0, None
        return _PERIOD_S

    def _note_refusal(self, error: ConflictError) -> float:
        """Record and log that another worker has the name; return the pause (s) until a retry."""
        refusal = error.text
        if refusal != self.refusal:
            log.error("worker_name_refused", worker=self._worker.name, reason=refusal)
        self.refusal = refusal
        pause_s = min(_PERIOD_S * 2.0**self._refused, _MAX_REFUSED_PAUSE_S)
        self._refused = min(self._refused + 1, 100)
        return pause_s


def _operators() -> tuple[str, ...]:
    return tuple(str(UserOperator(each.name, each.version)) for each in installed().operators)
