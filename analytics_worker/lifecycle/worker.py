"""A worker: one streaming library, and the fragments that the library runs."""

import os
import threading
import time
from collections.abc import Callable, Sequence

from analytics.operators.registry import installed
from analytics.plan.fragments import Fragment, Merge, Partial
from analytics.plan.logical_operators import operators_of, user_operators_of
from analytics.plan.status import FragmentStatus
from analytics_worker.lifecycle.announcer import Announcer, announcement
from analytics_worker.lifecycle.lag_monitor import LagMonitor
from analytics_worker.lifecycle.load_shedding import LoadShedder
from analytics_worker.lifecycle.retention_leases import RetentionLeases
from analytics_worker.lifecycle.runner import FragmentRunner
from analytics_worker.lifecycle.start_slot import StartSlot
from analytics_worker.settings import WorkerSettings
from analytics_worker.streaming_library import StreamingLibrary
from mistbow.client.agent import AgentClient
from mistbow.client.credentials import service_credentials
from mistbow.errors import InvalidRequestError, NotFoundError, UnavailableError
from mistbow.runtime.periodic import PeriodicThread, Schedule
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_CHECK_PERIOD_S = 1.0

StartLibrary = Callable[[WorkerSettings], StreamingLibrary]
"""A function that starts the streaming library of a worker; the start takes seconds."""


class AnalyticsWorker:
    """Runs fragments on a streaming library, each fragment from ``run`` to ``remove``."""

    def __init__(self, settings: WorkerSettings, start_library: StartLibrary) -> None:
        self._settings = settings
        self._start_library = start_library
        self._agent = AgentClient(
            settings.agent_url,
            service_credentials(settings.agent_url, settings.secret),
            ca=settings.tls_ca,
        )
        self._announcer = Announcer(self._agent, announcement(settings))
        self._retention_leases = RetentionLeases(self._agent, self._fragments)
        self._library: StreamingLibrary | None = None
        self._runners: dict[str, FragmentRunner] = {}
        self._slot = StartSlot()
        self._lag_monitor = LagMonitor(self._agent, self._running, LoadShedder())
        self._lock = threading.Lock()
        self._checks = PeriodicThread(
            self._watch, Schedule("worker_check", _CHECK_PERIOD_S, delay_s=_CHECK_PERIOD_S)
        )
        self._threads = (self._announcer, self._lag_monitor, self._checks)

    def start(self) -> None:
        """Start the library and the periodic tasks, then warm up the library while fragments may
        run.

        If the library cannot start, this process ends.
        """
        began = time.monotonic()
        try:
            library = self._start_library(self._settings)
        except Exception as error:
            log.critical("spark_start_failed", reason=str(error)[:2000])
            os._exit(1)
        self._library = library
        for thread in self._threads:
            thread.start()
        log.info("spark_started", seconds=round(time.monotonic() - began, 1))
        try:
            library.warm_up()
        except Exception as error:
            # The first results only take longer.
            log.warning("spark_warm_up_failed", reason=str(error)[:500])

    def stop(self) -> None:
        """Stop all fragments and the library."""
        for thread in self._threads:
            thread.stop()
        for runner in self._running():
            runner.stop()
        if self._library is not None:
            self._library.stop()
        self._agent.close()

    def _watch(self) -> None:
        """End this process if the library's engine has died; else renew the retention leases."""
        if self._library is not None and not self._library.is_alive():
            # The supervisor starts this process again.
            log.critical("spark_died")
            os._exit(1)
        self._retention_leases.renew()

    async def readiness(self) -> list[str]:
        """Return the reasons why the worker is not ready; empty if the worker is ready."""
        if self._library is None:
            return ["Spark is starting"]
        return [] if self._announcer.refusal is None else [self._announcer.refusal]

    def run(self, fragment: Fragment) -> FragmentStatus:
        """Run a fragment, in place of a running version of the fragment, and return its status.

        Raises ``UnavailableError`` while the library starts, and ``InvalidRequestError`` if the
        library cannot run the fragment.
        """
        if self._library is None:
            raise UnavailableError("Spark is starting", hint="Try again in some seconds.")
        _check(fragment, self._library)
        with self._lock:
            runner = self._runners.get(fragment.id)
            former = None
            if runner is not None and runner.target != fragment.target:
                former, runner = self._runners.pop(fragment.id), None
            if runner is None:
                runner = FragmentRunner(self._library, self._agent, fragment, self._slot)
                self._runners[fragment.id] = runner
                runner.start()
            else:
                runner.accept(fragment)
        if former is not None:
            former.stop()
        return runner.status()

    def list(self) -> list[FragmentStatus]:
        """Return the status of every fragment."""
        return [runner.status() for runner in self._running()]

    def show(self, fragment_id: str) -> FragmentStatus:
        """Return the status of a fragment; raises ``NotFoundError`` if the worker lacks the
        fragment.
        """
        return self._runner(fragment_id).status()

    def remove(self, fragment_id: str) -> None:
        """Stop and remove a fragment; raises ``NotFoundError`` if the worker lacks the fragment."""
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
            raise NotFoundError(
                f"no fragment {fragment_id} runs on this worker",
                hint="GET /fragments lists the fragments of this worker.",
            )
        return runner


def _check(fragment: Fragment, library: StreamingLibrary) -> None:
    """Raise ``InvalidRequestError`` for a fragment that the library cannot run."""
    if isinstance(fragment, Partial):
        if not fragment.panes or fragment.grain_ms <= 0 or fragment.lookback_ms <= 0:
            raise _refusal(fragment, "a partial needs panes, a grain and a lookback")
    elif not fragment.plan.insights:
        raise _refusal(fragment, "the fragment has no insights")
    elif isinstance(fragment, Merge) and not fragment.sources:
        raise _refusal(fragment, "the fragment has no sources")
    for operator, used_by in operators_of(fragment):
        reason = library.support[operator]
        if reason is not None:
            raise _refusal(fragment, f"{used_by} needs {operator}: {reason}")
    found = installed()
    for called, used_by in user_operators_of(fragment).items():
        if found.version(called.name, called.version) is None:
            available = [f"{each.name} {each.version}" for each in found.operators]
            raise _refusal(
                fragment,
                f"{used_by} calls {called}, which is not installed on this worker",
                "Install its package in the worker's environment; no restart is needed. "
                f"Installed: {', '.join(available) or 'no operators of other packages'}.",
            )


def _refusal(fragment: Fragment, reason: str, hint: str | None = None) -> InvalidRequestError:
    return InvalidRequestError(f"fragment {fragment.id} cannot run: {reason}", hint=hint)
