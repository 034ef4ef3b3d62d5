"""A worker tells its site's agent, each second, that it is there and what it has."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import msgspec

from analytics_worker.capacity import clock_mhz, cores, heap_mb, memory_mb
from mistbow.client.agent import AgentClient
from mistbow.errors import MistbowError
from mistbow.fabric import Worker
from mistbow.labels import parse_labels
from mistbow.operators.installed import installed
from mistbow.plan.expressions import UserOperator
from mistbow.settings import WorkerSettings
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_EVERY_S = 1.0


def announcement(settings: WorkerSettings) -> Worker:
    """Return what a worker says of itself: fragments may take all cores, and Spark's heap."""
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
    """Announces a worker from ``start`` to ``stop``; an agent that is away is tried again.

    Which operators of other packages it has is looked up each time. That may take long, for it
    imports them: till it is known, what was known before is said, or a worker would seem dead.
    """

    def __init__(self, agent: AgentClient, worker: Worker) -> None:
        self._agent = agent
        self._worker = worker
        self._looks = ThreadPoolExecutor(1, "operators")
        self._look: Future[tuple[str, ...]] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="announce", daemon=True)
        self._problem: str | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Take leave, if the agent can be told."""
        self._stopping.set()
        self._looks.shutdown(wait=False, cancel_futures=True)
        if self._thread.is_alive():
            self._thread.join()
            try:
                self._agent.leave(self._worker.name)
            except MistbowError as error:
                log.info("left without a word", reason=error.message)

    def _run(self) -> None:
        while not self._stopping.is_set():
            problem = None
            try:
                self._agent.announce(self._equipped())
            except MistbowError as error:
                problem = error.message
            if problem != self._problem and problem is not None:
                log.warning("not announced", reason=problem)
            self._problem = problem
            self._stopping.wait(_EVERY_S)

    def _equipped(self) -> Worker:
        if self._look is None:
            self._look = self._looks.submit(_operators)
        with suppress(TimeoutError):
            operators = self._look.result(_EVERY_S / 2)
            self._look = None
            self._worker = msgspec.structs.replace(self._worker, operators=operators)
        return self._worker


def _operators() -> tuple[str, ...]:
    return tuple(str(UserOperator(each.name, each.version)) for each in installed().operators)
