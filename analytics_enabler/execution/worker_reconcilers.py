"""One reconciler for each worker, so that a slow worker does not delay the other workers."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from enum import Enum, auto

import httpx

from analytics.client.worker import AsyncWorkerClient
from analytics.plan.demand import MAX_MEMORY_MB
from analytics.plan.fragments import Fragment
from analytics.plan.orders import Lease, lease_from, order_of
from analytics.plan.status import FragmentStatus
from analytics_enabler.execution.desired_fragments import DesiredFragments
from analytics_enabler.execution.outages import (
    Outage,
    full_worker,
    refusing_worker,
    silent_worker,
    suspected_worker,
)
from analytics_enabler.execution.rate_meter import START_S, FragmentMeter
from mistbow.clock import Clock
from mistbow.errors import (
    CapacityError,
    FencedError,
    InvalidRequestError,
    MistbowError,
    NotFoundError,
    StartingError,
    UnavailableError,
)
from mistbow.fabric import Worker
from mistbow.failure_detector import FailureDetector, Liveness, RunningTime, Seconds
from mistbow.name_resolver import UnresolvedNameError
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.telemetry import get_logger

log = get_logger(__name__)

INTERVAL_S = 0.5
_RETRY_S = 0.1
"""The delay (s) of the first retry of a failed request: short, to detect a death soon."""

PATIENCE_S = 4.0
MAX_REFUSALS = 2
"""The number of consecutive refusals after which a worker is considered dead.

A request is refused if no process listens at the address, if another program answers there, or if
the worker is still starting.
"""

MAX_SILENCE_S = 20.0
"""The time (s) after which a silent worker is considered dead although it announces itself.

The enabler cannot send orders to such a worker: its address may be wrong.
"""

MAX_LIST_AGE_S = 2.0
"""The time (s) after which the fragments of all domains are listed again before the next order."""

_CHECK_S = 0.25


Connect = Callable[[str, str], AsyncWorkerClient]
"""A function that returns a client of the worker at an address (URL), of a site."""

ReadLease = Callable[[], Awaitable[Lease]]
"""A function that returns the lease of the enabler; raises ``FencedError`` without the lease."""


class _Contact(Enum):
    """The outcome of one request to a worker."""

    ANSWER = auto()
    STARTING = auto()
    """The worker has been restarted and cannot run fragments yet."""
    REFUSAL = auto()
    TIMEOUT = auto()


class WorkerReconciler:
    """Makes one worker run its desired fragments, and no other fragments of the domain."""

    def __init__(
        self,
        worker: Worker,
        client: AsyncWorkerClient,
        domain: str,
        lease: ReadLease,
        on_change: Callable[[], None],
        clock: Clock,
        running_time: Seconds,
        *,
        is_known: bool,
    ) -> None:
        """Start to reconcile.

        ``on_change``: called when the worker is suspected, dead or alive again. ``is_known``:
        whether the worker may have fragments already. Any other worker is considered dead until it
        answers, so that no fragment moves to an address without a worker.
        """
        self.worker = worker
        self.desired: DesiredFragments | None = None
        """The fragments that the worker should run.

        None: no placement was decided yet, so no fragment is started or stopped.
        """
        self.observed: dict[str, FragmentStatus] = {}
        """Fragment id -> status, for the fragments of this domain that the worker runs.

        The mapping is empty while the worker does not answer.
        """
        self.rival_lease: Lease | None = None
        """The newer lease that a refused order has met at the worker; None: no order is refused."""
        self.others_mb = 0.0
        """The memory (MB) that the fragments of other domains need on the worker."""
        self.meters: dict[str, FragmentMeter] = {}
        """Fragment id -> the meter of the fragment's demand."""
        self._ordered_checks: Mapping[str, float] | None = None
        """The shares of checked points in the last order; None: it was of a former enabler."""
        self._is_changed = False
        """Whether the desired fragments have changed since the last reconciliation."""
        self._has_observed = False
        """Whether ``observed`` is from the worker's answer to the last list or order."""
        self._listed_at = 0.0
        """When (s) the worker last listed the fragments of all domains."""
        self._ordered_orphans: frozenset[str] = frozenset()
        """The present orphaned fragments that the last orders contained."""
        self._ordered_round = 0
        """The round of these orphaned fragments."""
        self._client = client
        self._domain = domain
        self._lease = lease
        self._on_change = on_change
        self._clock = clock
        self._running_time = running_time
        self._contact = _Contact.ANSWER
        self._has_answered = is_known
        self._refusals = 0
        self._detector = FailureDetector(INTERVAL_S, running_time)
        self._noted = self.liveness
        self._task = PeriodicTask(
            self._reconcile,
            Schedule(
                "worker_reconciliation",
                INTERVAL_S,
                retry_s=_RETRY_S,
                max_retry_s=INTERVAL_S,
                fields={"worker": worker.name},
            ),
            clock=clock,
        )
        self._task.start()

    @property
    def outage(self) -> Outage | None:
        """The outage of the worker if it is suspected, or if its last reconciliation failed."""
        error, failing_since = self._task.error, self._task.failing_since
        if self._noted is Liveness.SUSPECTED:
            since = self._clock() - round(self._detector.silence_s * 1000)
            return suspected_worker(self.worker, since)
        if error is None:
            return None
        if isinstance(error, CapacityError):
            return full_worker(self.worker, failing_since, error)
        answers = self._contact in (_Contact.ANSWER, _Contact.STARTING)
        describe = refusing_worker if answers else silent_worker
        return describe(self.worker, failing_since, error)

    @property
    def liveness(self) -> Liveness:
        """The state of the worker, by its answers and its announcements to the agent of its site.

        A refused connection is strong evidence of death, silence is not: a worker that still
        announces itself is only suspected, until ``MAX_SILENCE_S``. An announced worker that has
        never answered is dead.
        """
        if not self._has_answered or self._refusals >= MAX_REFUSALS:
            return Liveness.DEAD
        liveness = self._detector.liveness
        if liveness is Liveness.DEAD and not self.worker.suspected:
            is_dead = self._detector.silence_s >= MAX_SILENCE_S
            return Liveness.DEAD if is_dead else Liveness.SUSPECTED
        return liveness

    def check_liveness(self) -> None:
        """Report and log whether the worker has become suspected, dead or alive."""
        liveness = self.liveness
        if liveness is self._noted:
            return
        self._noted = liveness
        phi, silence_s = round(self._detector.phi, 1), round(self._detector.silence_s, 1)
        name, refusals = self.worker.name, self._refusals
        match liveness:
            case Liveness.SUSPECTED:
                log.warning("worker_suspected", worker=name, phi=phi, silence_s=silence_s)
            case Liveness.DEAD:
                log.warning(
                    "worker_lost", worker=name, phi=phi, silence_s=silence_s, refusals=refusals
                )
            case Liveness.ALIVE:
                log.info("worker_returned", worker=name)
        self._on_change()

    def set_desired(self, desired: DesiredFragments) -> None:
        """Replace the fragments that the worker should run."""
        if desired != self.desired:
            self.desired = desired
            self._is_changed = True
            self._task.wake()

    async def drain(self, *, is_drained: bool) -> None:
        """Drain the worker, or end this; raises the ``MistbowError`` of the worker's answer."""
        await (self._client.drain() if is_drained else self._client.undrain())

    async def running(self) -> list[str]:
        """Return the ids of all fragments that the worker runs now, in any domain.

        Raises ``UnavailableError`` if the worker gives no answer: its fragments are then unknown.
        """
        try:
            async with asyncio.timeout(PATIENCE_S):
                return sorted(each.id for each in await self._client.list())
        except TimeoutError:
            reason = f"it does not answer within {PATIENCE_S:g} s"
        except MistbowError as error:
            reason = error.message
        raise UnavailableError(
            f"the fragments of the worker {self.worker.name} are unknown: {reason}"
        )

    async def close(self) -> None:
        """Stop reconciling; the worker continues to run its fragments."""
        await self._task.close()
        await self._client.close()

    async def _reconcile(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                is_urgent, self._is_changed = self._is_changed and self._may_order_at_once, False
                if is_urgent and self.desired is not None and await self._act(self.desired):
                    return
                await self._observe()
                if self.desired is not None:
                    await self._act(self.desired)
        except TimeoutError:
            self.observed = {}
            self._note_contact(_Contact.TIMEOUT)
            raise UnavailableError(
                f"the worker {self.worker.url} does not answer within {PATIENCE_S:g} s"
            ) from None

    @property
    def _may_order_at_once(self) -> bool:
        """Whether an order needs no new observation: an order and its answer are whole states."""
        return self._has_observed and self._running_time() - self._listed_at < MAX_LIST_AGE_S

    async def _observe(self) -> None:
        self._has_observed = False
        try:
            statuses = await self._client.list()
        except MistbowError as error:
            self.observed = {}
            match error.__cause__:
                # Nothing was refused: a name that does not resolve is no evidence about the worker.
                case httpx.TimeoutException() | TimeoutError() | UnresolvedNameError():
                    self._note_contact(_Contact.TIMEOUT)
                case httpx.RequestError():
                    self._note_contact(_Contact.REFUSAL)
                case _ if isinstance(error, NotFoundError):
                    # Another service of the fog has this address.
                    self._note_contact(_Contact.REFUSAL)
                case _ if isinstance(error, StartingError):
                    self._note_contact(_Contact.STARTING)
                case _:
                    self._note_contact(_Contact.ANSWER)
            raise
        self._note_contact(_Contact.ANSWER)
        self._listed_at = self._running_time()
        self._note_observed([each for each in statuses if each.domain == self._domain])
        self.others_mb = MAX_MEMORY_MB * (len(statuses) - len(self.observed))

    def _note_observed(self, statuses: Iterable[FragmentStatus]) -> None:
        self._has_observed = True
        self.observed = {each.id: each for each in statuses}
        meters, self.meters = self.meters, {}
        for name in self.observed:
            self.meters[name] = meters.get(name) or FragmentMeter(START_S)
        for name, status in self.observed.items():
            self.meters[name].read(time.monotonic(), status)

    async def _act(self, desired: DesiredFragments) -> bool:
        """Send an order if one is needed; return whether one was sent."""
        missing, stopped = desired.missing(self.observed), desired.surplus(self.observed)
        checked = self._ordered_checks
        if checked is None:
            checked = {id: each.checked for id, each in self.observed.items() if each.checked}
        self._ordered_orphans &= desired.orphaned
        is_noted = not desired.orphaned or (
            desired.orphaned == self._ordered_orphans
            and desired.orphan_round == self._ordered_round
        )
        if not missing and not stopped and desired.checked == checked and is_noted:
            self.rival_lease = None
            return False
        self._has_observed = False
        order = order_of(
            await self._lease(),
            desired.fragments.values(),
            desired.retained,
            desired.moving,
            desired.checked,
            # A restarted enabler has another lease, so the numbers of one lease increase.
            number=time.monotonic_ns(),
            orphaned=desired.orphaned,
        )
        try:
            answer = await self._client.obey(self._domain, order)
        except FencedError as error:
            self.rival_lease = lease_from(error.details)
            raise
        self.rival_lease = None
        self._note_contact(_Contact.ANSWER)
        self._ordered_checks = desired.checked
        self._ordered_orphans, self._ordered_round = desired.orphaned, desired.orphan_round
        self._note_observed(answer.fragments)
        self._log_changes(missing, stopped)
        if answer.refused:
            is_full = answer.refused.keys() <= answer.without_capacity
            kind = CapacityError if is_full else InvalidRequestError
            raise kind("; ".join(answer.refused.values()))
        return True

    def _log_changes(self, started: Iterable[Fragment], stopped: Iterable[str]) -> None:
        for fragment in started:
            status = self.observed.get(fragment.id)
            if status is not None and status.fingerprint == fragment.fingerprint:
                log.info(
                    "fragment_sent",
                    worker=self.worker.name,
                    fragment=fragment.id,
                    fingerprint=fragment.fingerprint,
                )
        for fragment_id in stopped:
            if fragment_id not in self.observed:
                log.info("fragment_stopped", worker=self.worker.name, fragment=fragment_id)

    def _note_contact(self, contact: _Contact) -> None:
        self._contact = contact
        if contact in (_Contact.REFUSAL, _Contact.STARTING):
            self._refusals += 1
        elif contact is _Contact.ANSWER or self._refusals < MAX_REFUSALS:
            # A dead worker that starts again may be too slow to answer at first.
            self._refusals = 0
        if contact is _Contact.ANSWER:
            self._has_answered = True
            self._detector.record_heartbeat()
        self.check_liveness()


class WorkerReconcilers:
    """The reconcilers of all available workers."""

    def __init__(
        self,
        connect: Connect,
        domain: str,
        lease: ReadLease,
        on_change: Callable[[], None],
        clock: Clock,
        monotonic: Seconds = time.monotonic,
    ) -> None:
        self._connect = connect
        self._domain = domain
        self._lease = lease
        self._on_change = on_change
        self._clock = clock
        self._running_time = RunningTime(monotonic)
        self._by_name: dict[str, WorkerReconciler] = {}
        self._sites: dict[str, str] = {}
        self._is_first = True
        self._is_started = False
        self._checks = PeriodicTask(self._check, Schedule("worker_liveness_check", _CHECK_S))

    async def set_workers(
        self, workers: Mapping[str, tuple[str, Worker]], placed: Collection[str]
    ) -> None:
        """Start a reconciler for each new worker, and close the reconcilers of missing workers.

        ``workers``: name -> (site, worker), for all available workers. Those of the first call may
        run fragments of a former enabler. ``placed``: the names of the workers with fragments.
        Such a worker ran on while its site was unreachable.
        """
        known = set(workers) if self._is_first else {*self._by_name, *placed}
        self._is_first = False
        if not self._is_started:
            self._is_started = True
            self._checks.start()
        for name, reconciler in list(self._by_name.items()):
            site, worker = workers.get(name, ("", None))
            is_same = worker is not None and worker.url == reconciler.worker.url
            if worker is None or not is_same or site != self._sites[name]:
                del self._by_name[name], self._sites[name]
                await reconciler.close()
            else:
                reconciler.worker = worker
        for name, (site, worker) in workers.items():
            if name not in self._by_name:
                self._sites[name] = site
                client = self._connect(worker.url, site)
                self._by_name[name] = WorkerReconciler(
                    worker,
                    client,
                    self._domain,
                    self._lease,
                    self._on_change,
                    self._clock,
                    self._running_time,
                    is_known=name in known,
                )

    def all(self) -> list[WorkerReconciler]:
        """Return the reconcilers of all workers."""
        return list(self._by_name.values())

    def get(self, name: str) -> WorkerReconciler | None:
        """Return the reconciler of a worker; None if the worker is not available."""
        return self._by_name.get(name)

    @property
    def others_mb(self) -> dict[str, float]:
        """Worker -> the memory (MB) that the fragments of other domains need."""
        return {name: reconciler.others_mb for name, reconciler in self._by_name.items()}

    @property
    def rival_lease(self) -> Lease | None:
        """The greatest lease that workers obey instead of that of this enabler; None: no lease."""
        leases = (each.rival_lease for each in self._by_name.values())
        return max((each for each in leases if each is not None), default=None)

    @property
    def dead(self) -> set[str]:
        """The names of the workers considered dead, which the fabric may still report as alive."""
        return self._in_state(Liveness.DEAD)

    @property
    def suspected(self) -> set[str]:
        """The names of the suspected workers."""
        return self._in_state(Liveness.SUSPECTED)

    async def close(self) -> None:
        """Close all reconcilers."""
        await self.release()
        await self._checks.close()

    async def release(self) -> None:
        """Close the reconcilers of all workers, because another enabler sends the orders now.

        The workers of the next call of ``set_workers`` may run fragments of that enabler.
        """
        reconcilers, self._by_name = self.all(), {}
        for reconciler in reconcilers:
            await reconciler.close()
        self._is_first = True

    def _in_state(self, liveness: Liveness) -> set[str]:
        return {name for name, each in self._by_name.items() if each.liveness is liveness}

    async def _check(self) -> None:
        self._running_time()
        for reconciler in self._by_name.values():
            reconciler.check_liveness()
