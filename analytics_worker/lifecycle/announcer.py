"""The announcement that a worker sends to its site's agent each second."""

from concurrent.futures import Future, ThreadPoolExecutor, wait

import msgspec

from analytics.operators.registry import installed
from analytics.plan.functions import UserOperator
from analytics_worker.lifecycle.capacity import clock_mhz, cores, heap_mb, memory_mb
from analytics_worker.settings import WorkerSettings
from mistbow.client.agent import AgentClient
from mistbow.errors import MistbowError
from mistbow.fabric import Worker
from mistbow.runtime.periodic import PeriodicThread, Schedule
from mistbow.settings import parse_labels
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_PERIOD_S = 1.0


def announcement(settings: WorkerSettings) -> Worker:
    """Return the announcement of a worker, which offers all cores and Spark's heap to fragments."""
    all_cores, all_memory = cores(), memory_mb()
    return Worker(
        name=settings.node,
        url=settings.worker_url,
        cores=all_cores,
        memory_mb=all_memory,
        cores_free=all_cores,
        memory_free_mb=min(heap_mb(settings.driver_memory), all_memory),
        clock_mhz=clock_mhz(),
        region=settings.region,
        labels=parse_labels(settings.labels),
    )


class Announcer:
    """Sends announcements from ``start`` to ``stop``, and retries while the agent is unreachable.

    Each announcement lists the installed operators of other packages. The lookup of operators
    imports packages and may be slow. Until the lookup ends, announcements contain the previous
    list, since the agent treats a silent worker as lost.
    """

    def __init__(self, agent: AgentClient, worker: Worker) -> None:
        self._agent = agent
        self._worker = worker
        self._lookups = ThreadPoolExecutor(1, "operators")
        self._lookup: Future[tuple[str, ...]] | None = None
        self._thread = PeriodicThread(self._announce, Schedule("announcement", _PERIOD_S))
        self._is_started = False

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
                self._agent.leave(self._worker.name)
            except MistbowError as error:
                log.info("worker_leave_failed", reason=error.message)

    def _announce(self) -> None:
        if self._lookup is None:
            self._lookup = self._lookups.submit(_operators)
        lookup = self._lookup
        if wait([lookup], _PERIOD_S / 2).done:
            self._lookup = None
            if (error := lookup.exception()) is None:
                self._worker = msgspec.structs.replace(self._worker, operators=lookup.result())
            else:
                log.warning("operator_lookup_failed", reason=str(error))
        self._agent.announce(self._worker)


def _operators() -> tuple[str, ...]:
    return tuple(str(UserOperator(each.name, each.version)) for each in installed().operators)
