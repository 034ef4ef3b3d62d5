"""A worker: one streaming library and the fragments that it runs."""

import os
import threading
import time
from collections.abc import Callable, Sequence

from analytics_worker.announcing import Announcer, announcement
from analytics_worker.holding import Holder
from analytics_worker.overload import Watch
from analytics_worker.runner import FragmentRunner, Turns
from analytics_worker.shedding import Shedding
from analytics_worker.streaming_library import StreamingLibrary
from mistbow.client.agent import AgentClient
from mistbow.errors import InvalidRequestError, NotFoundError, UnavailableError
from mistbow.operators.installed import installed
from mistbow.plan.fragments import Fragment, Merge, Partial
from mistbow.plan.operators import operators_of, user_operators_of
from mistbow.plan.status import FragmentStatus
from mistbow.settings import WorkerSettings
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_LOOK = 1.0


StartLibrary = Callable[[WorkerSettings], StreamingLibrary]
"""Starts the engine of a worker; takes seconds."""


class Worker:
    """Starts its streaming library, and runs what it is asked to until told otherwise."""

    def __init__(self, settings: WorkerSettings, start_library: StartLibrary) -> None:
        self._settings = settings
        self._start_library = start_library
        self._agent = AgentClient(settings.agent_url, settings.secret, ca=settings.tls_ca)
        self._announcer = Announcer(self._agent, announcement(settings))
        self._holder = Holder(self._agent, self._fragments)
        self._library: StreamingLibrary | None = None
        self._runners: dict[str, FragmentRunner] = {}
        self._turns = Turns()
        self._watch = Watch(self._agent, self._running, Shedding())
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    def start(self) -> None:
        """Start Spark, and warm it up beside the first fragment; then watch over its JVM."""
        began = time.monotonic()
        try:
            library = self._start_library(self._settings)
        except Exception as error:
            log.critical("Spark does not start", reason=str(error)[:2000])
            os._exit(1)
        self._library = library
        self._announcer.start()
        self._watch.start()
        log.info("Spark is ready", seconds=round(time.monotonic() - began, 1))
        try:
            library.warm_up()
        except Exception as error:
            log.warning("Spark is not warm: the first results take longer", reason=str(error)[:500])
        while not self._stopping.wait(_LOOK):
            if not library.is_alive():
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
        if self._library is not None:
            self._library.stop()
        self._agent.close()

    async def readiness(self) -> list[str]:
        """Return what the worker waits for."""
        return [] if self._library is not None else ["Spark is starting"]

    def run(self, fragment: Fragment) -> FragmentStatus:
        """Run a fragment, in place of the version of it that runs."""
        if self._library is None:
            raise UnavailableError("Spark is starting", hint="Try again in some seconds.")
        _check(fragment, self._library)
        with self._lock:
            runner = self._runners.get(fragment.id)
            former = None
            if runner is not None and runner.target != fragment.target:
                former, runner = self._runners.pop(fragment.id), None
            if runner is None:
                runner = FragmentRunner(self._library, self._agent, fragment, self._turns)
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


def _check(fragment: Fragment, library: StreamingLibrary) -> None:
    """Refuse what a query cannot be made of."""
    if isinstance(fragment, Partial):
        if not fragment.panes or fragment.grain_ms <= 0 or fragment.reach_ms <= 0:
            raise _refusal(fragment, "it has no panes, no grain or no reach")
    elif not fragment.plan.insights:
        raise _refusal(fragment, "it has no insights")
    elif isinstance(fragment, Merge) and not fragment.sources:
        raise _refusal(fragment, "it has no sources")
    for operator, place in operators_of(fragment):
        lacking = library.support[operator]
        if lacking is not None:
            raise _refusal(fragment, f"{place} needs {operator}: {lacking}")
    found = installed()
    for called, place in user_operators_of(fragment).items():
        if found.version(called.name, called.version) is None:
            there = [f"{each.name} {each.version}" for each in found.operators]
            raise _refusal(
                fragment,
                f"{place} calls {called}, which is not installed beside this worker",
                f"Install it there: it has {', '.join(there) or 'no operators of other packages'}. "
                "The worker need not be restarted.",
            )


def _refusal(fragment: Fragment, why: str, hint: str | None = None) -> InvalidRequestError:
    return InvalidRequestError(f"fragment {fragment.id} cannot run: {why}", hint=hint)
