"""One reconciler for each worker, so that a slow worker does not delay the other workers."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial

import httpx

from analytics.client.worker import AsyncWorkerClient
from analytics.plan.fragments import Fragment
from analytics.plan.status import FragmentStatus
from analytics_enabler.execution.outages import Outage, refusing_worker, silent_worker
from analytics_enabler.execution.rate_meter import RateMeter
from analytics_enabler.fragments import PartialOwner, partial_owner
from mistbow.clock import Clock
from mistbow.errors import MistbowError, NotFoundError, UnavailableError
from mistbow.fabric import Worker
from mistbow.name_resolver import UnresolvedNameError
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.telemetry import get_logger

log = get_logger(__name__)

INTERVAL_S = 0.5
PATIENCE_S = 4.0
MAX_REFUSALS = 2
"""The number of consecutive refusals after which a worker is considered dead.

The connection was refused, or what listens at the address is no worker of this fog.
"""

MAX_TIMEOUTS = 3
"""The number of consecutive timeouts after which a worker is considered dead.

A worker whose address is wrong may time out at each request.
"""


@dataclass(frozen=True, slots=True)
class DesiredFragments:
    """The fragments that a worker should run; ``fragments``: fragment id -> fragment.

    A running fragment that is not desired is stopped, unless ``retained`` contains the owner (group
    id, site) of this partial fragment: of any version, since former merges read former versions.
    """

    fragments: Mapping[str, Fragment] = field(default_factory=dict)
    retained: frozenset[PartialOwner] = frozenset()

    def missing(self, observed: Mapping[str, FragmentStatus]) -> list[Fragment]:
        """Return the desired fragments to send to the worker: missing, outdated or fenced ones."""
        return [
            fragment
            for fragment in self.fragments.values()
            if (status := observed.get(fragment.id)) is None
            or status.fingerprint != fragment.fingerprint
            or status.state == "fenced"
        ]

    def surplus(self, observed: Iterable[str]) -> list[str]:
        """Return the ids of the observed fragments to stop."""
        return [
            fragment_id
            for fragment_id in observed
            if fragment_id not in self.fragments and partial_owner(fragment_id) not in self.retained
        ]


Connect = Callable[[str], AsyncWorkerClient]
"""A function that returns a client of the worker at an address (URL)."""


class _Contact(Enum):
    """The outcome of one request to a worker."""

    ANSWER = auto()
    REFUSAL = auto()
    TIMEOUT = auto()


class WorkerReconciler:
    """Makes one worker run its desired fragments, and no other fragments."""

    def __init__(
        self,
        worker: Worker,
        client: AsyncWorkerClient,
        check_lease: Callable[[], Awaitable[None]],
        on_death: Callable[[], None],
        clock: Clock,
        *,
        is_known: bool,
    ) -> None:
        """Start to reconcile.

        ``is_known``: whether the worker may have fragments already. Any other worker is considered
        dead until it answers, so that no fragment moves to an address at which no worker is.
        """
        self.worker = worker
        self.desired: DesiredFragments | None = None
        """The fragments that the worker should run.

        None: no placement was decided yet, so no fragment is started or stopped.
        """
        self.observed: dict[str, FragmentStatus] = {}
        """Fragment id -> status, for the fragments that the worker runs.

        The mapping is empty while the worker does not answer.
        """
        self.meters: dict[str, RateMeter] = {}
        """Fragment id -> the meter of the bytes that the fragment writes."""
        self._client = client
        self._check_lease = check_lease
        self._on_death = on_death
        self._clock = clock
        self._failing_since: int | None = None
        self._contact = _Contact.ANSWER
        self._has_answered = is_known
        self._refusals = 0
        self._timeouts = 0
        self._task = PeriodicTask(
            self._attempt,
            Schedule("worker_reconciliation", INTERVAL_S, fields={"worker": worker.name}),
        )
        self._task.start()

    @property
    def outage(self) -> Outage | None:
        """The outage of the worker if its last reconciliation failed; None after a success."""
        error = self._task.error
        if error is None:
            return None
        describe = refusing_worker if self._contact is _Contact.ANSWER else silent_worker
        return describe(self.worker, self._failing_since, error)

    @property
    def is_dead(self) -> bool:
        """Whether the worker is considered dead: it has not answered yet, or does not any more."""
        return (
            not self._has_answered
            or self._refusals >= MAX_REFUSALS
            or self._timeouts >= MAX_TIMEOUTS
        )

    def set_desired(self, desired: DesiredFragments) -> None:
        """Replace the fragments that the worker should run."""
        if desired != self.desired:
            self.desired = desired
            self._task.wake()

    async def close(self) -> None:
        """Stop reconciling; the worker continues to run its fragments."""
        await self._task.close()
        await self._client.close()

    async def _attempt(self) -> None:
        try:
            await self._reconcile()
        except Exception:
            if self._failing_since is None:
                self._failing_since = self._clock()
            raise
        self._failing_since = None

    async def _reconcile(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._observe()
                if self.desired is not None:
                    await self._act(self.desired)
        except TimeoutError:
            self.observed = {}
            self._note_contact(_Contact.TIMEOUT)
            raise UnavailableError(
                f"the worker {self.worker.url} does not answer within {PATIENCE_S:g} s"
            ) from None

    async def _observe(self) -> None:
        try:
            statuses = await self._client.list()
        except MistbowError as error:
            self.observed = {}
            match error.__cause__:
                # Nothing was refused: a name that does not resolve says nothing about the worker.
                case httpx.TimeoutException() | UnresolvedNameError():
                    self._note_contact(_Contact.TIMEOUT)
                case httpx.RequestError():
                    self._note_contact(_Contact.REFUSAL)
                case _ if isinstance(error, NotFoundError):
                    # Another service of the fog has this address.
                    self._note_contact(_Contact.REFUSAL)
                case _:
                    self._note_contact(_Contact.ANSWER)
            raise
        self._note_contact(_Contact.ANSWER)
        self.observed = {status.id: status for status in statuses}
        self.meters = {name: self.meters.get(name, RateMeter()) for name in self.observed}
        for name, status in self.observed.items():
            self.meters[name].read(time.monotonic(), status.bytes_written)

    async def _act(self, desired: DesiredFragments) -> None:
        missing, surplus = desired.missing(self.observed), desired.surplus(self.observed)
        if missing or surplus:
            await self._check_lease()
        errors: list[MistbowError] = []
        actions: list[Callable[[], Awaitable[None]]]
        actions = [partial(self._start, fragment) for fragment in missing]
        actions += [partial(self._stop, fragment_id) for fragment_id in surplus]
        for action in actions:
            # One fragment that is refused delays no other.
            try:
                await action()
            except MistbowError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    async def _start(self, fragment: Fragment) -> None:
        self.observed[fragment.id] = await self._client.run(fragment)
        log.info(
            "fragment_sent",
            worker=self.worker.name,
            fragment=fragment.id,
            fingerprint=fragment.fingerprint,
        )

    async def _stop(self, fragment_id: str) -> None:
        await self._client.stop(fragment_id)
        self.observed.pop(fragment_id, None)
        log.info("fragment_stopped", worker=self.worker.name, fragment=fragment_id)

    def _note_contact(self, contact: _Contact) -> None:
        was_dead = self.is_dead
        self._contact = contact
        if contact is _Contact.TIMEOUT:
            self._timeouts += 1
        else:
            self._timeouts = 0
            self._refusals = self._refusals + 1 if contact is _Contact.REFUSAL else 0
            self._has_answered |= contact is _Contact.ANSWER
        if self.is_dead != was_dead:
            self._on_death()


class WorkerReconcilers:
    """The reconcilers of all available workers."""

    def __init__(
        self,
        connect: Connect,
        check_lease: Callable[[], Awaitable[None]],
        on_death: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._connect = connect
        self._check_lease = check_lease
        self._on_death = on_death
        self._clock = clock
        self._by_name: dict[str, WorkerReconciler] = {}
        self._is_first = True

    async def set_workers(self, workers: Mapping[str, Worker]) -> None:
        """Start a reconciler for each new worker, and close the reconcilers of missing workers.

        ``workers``: name -> worker, for all available workers. Those of the first call may run
        fragments of a former enabler.
        """
        known = set(workers) if self._is_first else set(self._by_name)
        self._is_first = False
        for name, reconciler in list(self._by_name.items()):
            worker = workers.get(name)
            if worker is None or worker.url != reconciler.worker.url:
                del self._by_name[name]
                await reconciler.close()
        for name, worker in workers.items():
            if name not in self._by_name:
                client = self._connect(worker.url)
                self._by_name[name] = WorkerReconciler(
                    worker,
                    client,
                    self._check_lease,
                    self._on_death,
                    self._clock,
                    is_known=name in known,
                )

    def all(self) -> list[WorkerReconciler]:
        """Return the reconcilers of all workers."""
        return list(self._by_name.values())

    def get(self, name: str) -> WorkerReconciler | None:
        """Return the reconciler of a worker; None if the worker is not available."""
        return self._by_name.get(name)

    @property
    def dead(self) -> set[str]:
        """The names of the workers considered dead, which the fabric may still report as alive."""
        return {name for name, reconciler in self._by_name.items() if reconciler.is_dead}

    async def close(self) -> None:
        """Close all reconcilers."""
        await self.set_workers({})
