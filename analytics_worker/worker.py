"""A worker: one Spark session and the fragments that it runs."""

import os
import threading
import time
from collections.abc import Sequence

from pyspark.sql import SparkSession

from analytics_worker.announcing import Announcer, announcement
from analytics_worker.class_archive import java_options
from analytics_worker.holding import Holder
from analytics_worker.overload import Watch
from analytics_worker.runner import FragmentRunner, Turns
from analytics_worker.shedding import Shedding
from analytics_worker.spark.session import is_alive, start_session, warm_up
from mistbow.client.agent import AgentClient
from mistbow.errors import InvalidRequestError, NotFoundError, UnavailableError
from mistbow.plan.fragments import Fragment, Merge, Partial
from mistbow.plan.status import FragmentStatus
from mistbow.settings import WorkerSettings
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_LOOK = 1.0


class Worker:
    """Starts Spark, and runs what it is asked to until told otherwise."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._agent = AgentClient(settings.agent_url, settings.secret, ca=settings.tls_ca)
        self._announcer = Announcer(self._agent, announcement(settings))
        self._holder = Holder(self._agent, self._fragments)
        self._spark: SparkSession | None = None
        self._runners: dict[str, FragmentRunner] = {}
        self._turns = Turns()
        self._watch = Watch(self._agent, self._running, Shedding())
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    def start(self) -> None:
        """Start Spark, and warm it up beside the first fragment; then watch over its JVM."""
        began = time.monotonic()
        try:
            spark = start_session(
                self._settings.spark_master, self._settings.driver_memory, java_options()
            )
        except Exception as error:
            log.critical("Spark does not start", reason=str(error)[:2000])
            os._exit(1)
        self._spark = spark
        self._announcer.start()
        self._watch.start()
        log.info("Spark is ready", seconds=round(time.monotonic() - began, 1))
        try:
            warm_up(spark)
        except Exception as error:
            log.warning("Spark is not warm: the first results take longer", reason=str(error)[:500])
        while not self._stopping.wait(_LOOK):
            if not is_alive(spark):
                log.critical("Spark's JVM has died: this process ends, to be started again")
                os._exit(1)
            self._holder.hold()

    def stop(self) -> None:
        """Stop all fragments, and Spark."""
        self._stopping.set()
        self._announcer.stop()
        self._watch.stop()
        for runner in self._runners.values():
            runner.stop()
        if self._spark is not None:
            self._spark.stop()
        self._agent.close()

    async def readiness(self) -> list[str]:
        """Return what the worker waits for."""
        return [] if self._spark is not None else ["Spark is starting"]

    def run(self, fragment: Fragment) -> FragmentStatus:
        """Run a fragment, in place of the version of it that runs."""
        _check(fragment)
        if self._spark is None:
            raise UnavailableError("Spark is starting", hint="Try again in some seconds.")
        with self._lock:
            runner = self._runners.get(fragment.id)
            former = None
            if runner is not None and runner.target != fragment.target:
                former, runner = self._runners.pop(fragment.id), None
            if runner is None:
                runner = FragmentRunner(self._spark, self._agent, fragment, self._turns)
                self._runners[fragment.id] = runner
            else:
                runner.accept(fragment)
        if former is not None:
            former.stop()
        return runner.status()

    def list(self) -> list[FragmentStatus]:
        """Return the status of every fragment."""
        return [runner.status() for runner in self._running()]

    def show(self, fragment_id: str) -> FragmentStatus:
        """Return the status of one fragment; raises ``NotFoundError``."""
        return self._runner(fragment_id).status()

    def remove(self, fragment_id: str) -> None:
        """Stop a fragment and forget it; raises ``NotFoundError``."""
        with self._lock:
            runner = self._runner(fragment_id)
            del self._runners[fragment_id]
        runner.stop()

    def _fragments(self) -> Sequence[Fragment]:
        return [runner.fragment for runner in self._running()]

    def _running(self) -> Sequence[FragmentRunner]:
        return tuple(self._runners.values())

    def _runner(self, fragment_id: str) -> FragmentRunner:
        runner = self._runners.get(fragment_id)
        if runner is None:
            raise NotFoundError(f"no fragment {fragment_id} runs here")
        return runner


def _check(fragment: Fragment) -> None:
    """Refuse what a query cannot be made of."""
    if isinstance(fragment, Partial):
        if not fragment.panes or fragment.grain_ms <= 0 or fragment.reach_ms <= 0:
            raise InvalidRequestError(
                f"fragment {fragment.id} cannot run: it has no panes, no grain or no reach"
            )
        return
    if not fragment.plan.lowered or not fragment.plan.insights:
        raise InvalidRequestError(
            f"fragment {fragment.id} cannot run: its plan is empty or not optimised",
            hint="Each aggregate must have become a measure of a window.",
        )
    if isinstance(fragment, Merge) and not fragment.sources:
        raise InvalidRequestError(f"fragment {fragment.id} cannot run: it has no sources")
