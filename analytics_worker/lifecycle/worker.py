"""A worker: one streaming library, and the fragments that the library runs."""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from urllib.parse import quote

import msgspec
import pyarrow as pa

from analytics.operators.registry import installed
from analytics.plan.fragments import Fragment, Merge, Partial, Whole, fragment_from_json
from analytics.plan.logical_operators import operators_of, user_operators_of
from analytics.plan.orders import Order, OrderAnswer, surplus
from analytics.plan.preview import PreviewOrder
from analytics.plan.status import FragmentStatus
from analytics_worker.lifecycle.announcer import Announcer, announcement, with_trust
from analytics_worker.lifecycle.calibration import calibrated_speed
from analytics_worker.lifecycle.capacity_monitor import CapacityMonitor
from analytics_worker.lifecycle.cpu_accounting import CpuAccounting
from analytics_worker.lifecycle.domains import Domains
from analytics_worker.lifecycle.drain_mark import DrainMark
from analytics_worker.lifecycle.free_cores import FreeCores
from analytics_worker.lifecycle.kill_record import KillRecord
from analytics_worker.lifecycle.lag_monitor import LagMonitor
from analytics_worker.lifecycle.load_shedding import LoadShedder
from analytics_worker.lifecycle.node_facts import NodeFacts, with_battery, with_facts
from analytics_worker.lifecycle.preview import compute_preview
from analytics_worker.lifecycle.quality_checks import QualityChecks
from analytics_worker.lifecycle.retention_leases import RetentionLeases
from analytics_worker.lifecycle.runner import FragmentRunner
from analytics_worker.lifecycle.start_slot import StartSlot
from analytics_worker.settings import WorkerSettings
from analytics_worker.streaming_library import StreamingLibrary
from mistbow.client.agent import AgentClient
from mistbow.client.credentials import service_credentials
from mistbow.clock import system_clock
from mistbow.control_groups import oom_kills
from mistbow.domains import DEFAULT_DOMAIN
from mistbow.errors import (
    CapacityError,
    InvalidRequestError,
    MistbowError,
    NotFoundError,
    StartingError,
    UnavailableError,
)
from mistbow.fabric import Worker
from mistbow.runtime.periodic import PeriodicThread, Schedule
from mistbow.streams.schemas import panes_stream
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_CHECK_PERIOD_S = 1.0
_LEAVE_CHECK_S = 0.1
_MAX_STOPS = 8
"""The maximum number of fragments of an order that are stopped at the same time."""

_PREVIEW_WAIT_S = 10.0
"""The maximum time (s) for which a preview waits for another one."""

StartLibrary = Callable[[WorkerSettings], StreamingLibrary]
"""A function that starts the streaming library of a worker; the start takes seconds."""


class AnalyticsWorker:
    """Runs fragments on a streaming library, each fragment from ``run`` to ``remove``."""

    def __init__(self, settings: WorkerSettings, start_library: StartLibrary) -> None:
        self._settings = settings
        self._start_library = start_library
        self._agent = AgentClient(
            settings.agent_url,
            service_credentials(settings.agent_url, settings.proof, "agent"),
            ca=settings.client_tls,
        )
        record = settings.home / f"worker-{quote(settings.node, safe='')}.json"
        self._capacity = CapacityMonitor(
            self._fragments,
            self._queries,
            KillRecord(record, oom_kills, system_clock),
            free_cores=FreeCores().measure,
        )
        self._drain = DrainMark(settings.home / f"drained-{quote(settings.node, safe='')}")
        self._is_leaving = False
        self._cpu = CpuAccounting(self._measured_cpu_s)
        self._speed: float | None = None
        self._facts = NodeFacts(self._agent, settings)
        self._announcer = Announcer(self._agent, announcement(settings), self._with_measures)
        self._library: StreamingLibrary | None = None
        self._runners: dict[str, FragmentRunner] = {}
        self._slot = StartSlot(self._capacity.has_handover_memory)
        self._quality = QualityChecks(self._agent, self._fragments, settings.node)
        self._lag_monitor = LagMonitor(self._agent, self._running, LoadShedder())
        self._lock = threading.Lock()
        self._order_lock = threading.Lock()
        self._previewing = threading.Lock()
        self._domains = Domains()
        self._checks = PeriodicThread(
            self._watch, Schedule("worker_check", _CHECK_PERIOD_S, delay_s=_CHECK_PERIOD_S)
        )
        # A site that does not answer must not delay the check of the library.
        self._renewals = PeriodicThread(
            RetentionLeases(self._agent, self._fragments).renew,
            Schedule("retention_lease_renewal", _CHECK_PERIOD_S, delay_s=_CHECK_PERIOD_S),
        )
        self._threads = (
            self._announcer, self._lag_monitor, self._checks, self._renewals, self._quality,
        )  # fmt: skip

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
        self._capacity.start()
        for thread in self._threads:
            thread.start()
        log.info("spark_started", seconds=round(time.monotonic() - began, 1))
        try:
            library.warm_up()
        except Exception as error:
            # The first results only take longer.
            log.warning("spark_warm_up_failed", reason=str(error)[:500])
        self._capacity.note_warm()
        self._cpu.start()
        self._calibrate()

    def _calibrate(self) -> None:
        node = quote(self._settings.node, safe="")
        try:
            self._speed = calibrated_speed(self._settings.home / f"calibration-{node}.json")
        except OSError as error:
            log.warning("worker_calibration_failed", reason=str(error))

    def _with_measures(self, worker: Worker) -> Worker:
        measured = msgspec.structs.replace(
            self._capacity.announced(with_trust(worker, self._settings)),
            speed=self._speed,
            drained=self._drain.is_set or self._is_leaving,
        )
        facts = self._facts.current()
        return with_battery(with_facts(measured, facts), facts, system_clock())

    def drain(self) -> None:
        """Announce from now on that the worker is drained, also after restarts."""
        self._drain.set()
        log.info("worker_drained", fragments=len(self._running()))

    def undrain(self) -> None:
        """Announce from now on that the worker accepts fragments."""
        self._drain.clear()
        log.info("worker_undrained")

    async def leave(self) -> None:
        """Announce that the worker is drained, and wait until it has no fragments.

        The wait takes at most the setting ``drain_s``. Unlike ``drain``, this method has no effect
        on a later start.
        """
        self._is_leaving = True
        if not self._runners:
            return
        log.info("worker_leaving", fragments=len(self._runners))
        until = time.monotonic() + self._settings.drain_s
        while self._runners and time.monotonic() < until:  # noqa: ASYNC110 - runners are of threads
            await asyncio.sleep(_LEAVE_CHECK_S)
        if self._runners:
            log.warning("worker_leave_incomplete", fragments=sorted(self._runners))

    def stop(self) -> None:
        """Stop all fragments and the library."""
        for thread in (*self._threads, self._capacity, self._cpu):
            thread.stop()
        for runner in self._running():
            runner.stop()
        if self._library is not None:
            self._library.stop()
        self._agent.close()

    def _watch(self) -> None:
        """End this process if the library's engine has died."""
        if self._library is not None and not self._library.is_alive():
            # The supervisor starts this process again.
            log.critical("spark_died")
            with suppress(Exception):
                self._capacity.measure()  # the kernel may have killed Spark
            os._exit(1)

    async def readiness(self) -> list[str]:
        """Return the reasons why the worker is not ready; empty if the worker is ready."""
        if self._library is None:
            return ["Spark is starting"]
        return [] if self._announcer.refusal is None else [self._announcer.refusal]

    def check_started(self) -> None:
        """Raise ``StartingError`` while the library starts."""
        self._started_library()

    def obey(self, domain: str, order: Order) -> OrderAnswer:
        """Run the fragments of an order, and stop the other fragments of its domain.

        A refused fragment does not delay the others. Raises ``FencedError`` if the worker has
        obeyed a newer order, and ``StartingError`` while the library starts.
        """
        self._started_library()
        refused: dict[str, str] = {}
        without_capacity: set[str] = set()
        with self._order_lock:
            self._domains.accept(domain, order.lease, order.number)
            for fragment_id, fragment in order.fragments.items():
                try:
                    self._start_ordered(domain, fragment_id, fragment)
                except MistbowError as error:
                    refused[fragment_id] = error.text
                    if isinstance(error, CapacityError):
                        without_capacity.add(fragment_id)
            self._note_orphans(domain, order)
            self._quality.set_shares(order.fragments, order.checked)
            running = [each.id for each in self.list() if each.domain == domain]
            surplus_ids = surplus(running, order.fragments, order.retained, order.moving)
            stopped = [each for each in map(self._take, surplus_ids) if each is not None]
        # The end of a query takes up to seconds, for which a later order does not wait.
        with ThreadPoolExecutor(_MAX_STOPS, "stop") as pool:
            list(pool.map(FragmentRunner.stop, stopped))
        statuses = [each for each in self.list() if each.domain == domain]
        return OrderAnswer(
            fragments=statuses, refused=refused, without_capacity=frozenset(without_capacity)
        )

    def _start_ordered(self, domain: str, fragment_id: str, encoded: bytes) -> None:
        """Run a fragment of an order, unless this version of the fragment is accepted already."""
        try:
            fragment = fragment_from_json(encoded)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise InvalidRequestError(f"{fragment_id} is not a valid fragment: {error}") from error
        if fragment.id != fragment_id:
            raise InvalidRequestError(f"the fragment {fragment.id} has the key {fragment_id}")
        runner = self._runners.get(fragment_id)
        self._domains.check_owner(fragment_id, domain, runs=runner is not None)
        status = None if runner is None else runner.status()
        if status is None or status.fingerprint != fragment.fingerprint or status.state == "fenced":
            self.run(fragment)
            self._domains.assign(fragment_id, domain)

    def _note_orphans(self, domain: str, order: Order) -> None:
        streams = {panes_stream(each) for each in order.orphaned}
        for runner in self._running():
            fragment = runner.fragment
            if self._domains.of(fragment.id) != domain:
                continue
            runner.note_orphan(fragment.id in order.orphaned and fragment.id in order.fragments)
            if isinstance(fragment, Merge):
                sources = [each for each in fragment.sources if each.stream in streams]
                runner.note_orphaned_sites({each.data_site: order.number for each in sources})

    def _take(self, fragment_id: str) -> FragmentRunner | None:
        """Remove the runner of a fragment, and return it; None: it was removed before."""
        with self._lock:
            runner = self._runners.pop(fragment_id, None)
        if runner is not None:
            self._domains.assign(fragment_id, DEFAULT_DOMAIN)
        return runner

    def run(self, fragment: Fragment) -> FragmentStatus:
        """Run a fragment, in place of a running version of the fragment, and return its status.

        Raises ``StartingError`` while the library starts, ``InvalidRequestError`` if the library
        cannot run the fragment, and ``CapacityError`` if a new fragment does not fit.
        """
        _check(fragment, self._started_library())
        with self._lock:
            runner = self._runners.get(fragment.id)
            former = None
            if runner is not None and runner.target != fragment.target:
                former, runner = self._runners.pop(fragment.id), None
            if runner is None:
                if former is None:
                    self._capacity.check(fragment, self._fragments())
                library = self._started_library()
                runner = FragmentRunner(library, self._agent, fragment, self._slot)
                self._runners[fragment.id] = runner
                runner.start()
            else:
                runner.accept(fragment)
        if former is not None:
            former.stop()
        return self._status(runner)

    def preview(self, order: PreviewOrder) -> pa.Table:
        """Return the results of a preview; see ``compute_preview``.

        One preview is computed at a time, after the running fragments. Raises ``CapacityError`` if
        the memory is short, and ``UnavailableError`` if the engine fails or is busy.
        """
        library = self._started_library()
        _check(_as_fragment(order), library)
        if not self._capacity.has_handover_memory():
            raise CapacityError("the worker has too little memory for a preview")
        if not self._previewing.acquire(timeout=_PREVIEW_WAIT_S):
            raise UnavailableError("the worker computes another preview", hint="Try again.")
        try:
            library.adopt_thread()
            library.set_salience(None)
            return compute_preview(library, self._agent, order)
        except MistbowError:
            raise
        except Exception as error:
            reason = library.failure_of(error).error
            log.warning("preview_failed", reason=reason)
            raise UnavailableError(f"the preview failed: {reason}") from error
        finally:
            self._previewing.release()

    def list(self) -> list[FragmentStatus]:
        """Return the status of every fragment."""
        return [self._status(runner) for runner in self._running()]

    def show(self, fragment_id: str) -> FragmentStatus:
        """Return the status of a fragment; raises ``NotFoundError`` if the worker lacks the
        fragment.
        """
        return self._status(self._runner(fragment_id))

    def remove(self, fragment_id: str) -> None:
        """Stop and remove a fragment; raises ``NotFoundError`` if the worker lacks the fragment."""
        runner = self._take(fragment_id)
        if runner is None:
            raise _unknown(fragment_id)
        runner.stop()

    def _status(self, runner: FragmentRunner) -> FragmentStatus:
        status = runner.status()
        usage = self._quality.usage(status.id)
        return msgspec.structs.replace(
            status,
            checked=self._quality.share(status.id),
            points_checked=usage.points,
            check_cpu_s=round(usage.cpu_s, 4),
            domain=self._domains.of(status.id),
            cpu_s=self._cpu.cpu_s(status.id),
            memory_mb=round(self._capacity.used_mb / max(len(self._runners), 1), 1),
        )

    def _measured_cpu_s(self) -> dict[str, float]:
        return {runner.fragment.id: runner.status().cpu_s for runner in self._running()}

    def _started_library(self) -> StreamingLibrary:
        if self._library is None:
            raise StartingError("Spark is starting", hint="Try again in some seconds.")
        return self._library

    def _fragments(self) -> Sequence[Fragment]:
        return [runner.fragment for runner in self._running()]

    def _queries(self) -> int:
        return sum(runner.query_count for runner in self._running())

    def _running(self) -> Sequence[FragmentRunner]:
        return tuple(self._runners.values())

    def _runner(self, fragment_id: str) -> FragmentRunner:
        runner = self._runners.get(fragment_id)
        if runner is None:
            raise _unknown(fragment_id)
        return runner


def _unknown(fragment_id: str) -> NotFoundError:
    return NotFoundError(
        f"no fragment {fragment_id} runs on this worker",
        hint="GET /fragments lists the fragments of this worker.",
    )


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


def _as_fragment(order: PreviewOrder) -> Whole:
    """Return a fragment with the plan of a preview, which needs the same operators."""
    if not order.locations:
        raise InvalidRequestError("the preview has no streams to read")
    location = order.locations[0]
    return Whole(id="preview", source=location, target=location, plan=order.plan)


def _refusal(fragment: Fragment, reason: str, hint: str | None = None) -> InvalidRequestError:
    return InvalidRequestError(f"fragment {fragment.id} cannot run: {reason}", hint=hint)
