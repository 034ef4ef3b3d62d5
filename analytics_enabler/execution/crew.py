"""The workers: each has a keeper that makes it run what is placed on it, and no other waits."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import httpx

from analytics_enabler.execution.meter import Meter
from mistbow.client.worker import AsyncWorkerClient
from mistbow.errors import MistbowError
from mistbow.fabric import Worker
from mistbow.plan.fragments import Fragment
from mistbow.plan.status import FragmentStatus
from mistbow.tasks import end
from mistbow.telemetry import get_logger

log = get_logger(__name__)

LOOK_S = 0.5
PATIENCE_S = 4.0
REFUSALS = 2
"""A worker that refuses connections so often in a row is dead, whatever the fabric says yet."""

SILENCES = 3
"""The same of one that does not answer: it may announce itself by a way that leads to nobody."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What a worker is to run, by id, and the beginnings of ids that it may go on with."""

    fragments: Mapping[str, Fragment] = field(default_factory=dict)
    spared: tuple[str, ...] = ()


Connect = Callable[[str], AsyncWorkerClient]
"""Returns a client of the worker at an address."""


class Keeper:
    """Compares, again and again, what one worker runs with its orders, and mends the difference."""

    def __init__(
        self,
        worker: Worker,
        client: AsyncWorkerClient,
        may_act: Callable[[], Awaitable[None]],
        noticed: Callable[[], None],
    ) -> None:
        self.worker = worker
        self.orders: Orders | None = None
        self.statuses: dict[str, FragmentStatus] = {}
        self.meters: dict[str, Meter] = {}
        self.problem: str | None = None
        """Why the worker may not run what it should; None when it does."""
        self._client = client
        self._may_act = may_act
        self._noticed = noticed
        self._refusals = 0
        self._silences = 0
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    @property
    def dead(self) -> bool:
        """Whether nobody listens at the worker's address, or whoever does says nothing."""
        return self._refusals >= REFUSALS or self._silences >= SILENCES

    def order(self, orders: Orders) -> None:
        """Have the worker run this, from now on."""
        if orders != self.orders:
            self.orders = orders
            self._changed.set()

    async def close(self) -> None:
        """Look no longer; the worker goes on."""
        await end([self._task])
        await self._client.close()

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._look()
                self._note(None)
            except TimeoutError:
                self.statuses = {}
                self._count_silence()
                self._note(f"{self.worker.url} does not answer within {PATIENCE_S:g} s")
            except MistbowError as error:
                self._note(error.message)
            except Exception as error:
                # A fault of ours: the loop must live, or no later change would reach the worker.
                log.exception("looking after a worker failed", worker=self.worker.name)
                self._note(f"{type(error).__name__}: {error}")
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._changed.wait()
            self._changed.clear()

    async def _look(self) -> None:
        try:
            found = {status.id: status for status in await self._client.list()}
        except MistbowError as error:
            self.statuses = {}
            if isinstance(error.__cause__, httpx.TimeoutException):
                self._count_silence()
            else:
                self._count(refused=isinstance(error.__cause__, httpx.ConnectError))
            raise
        self._count(refused=False)
        self.statuses = found
        self.meters = {name: self.meters.get(name, Meter()) for name in found}
        for name, status in found.items():
            self.meters[name].read(time.monotonic(), status.bytes_written)
        if self.orders is not None:
            await self._mend(self.orders, found)

    async def _mend(self, orders: Orders, found: Mapping[str, FragmentStatus]) -> None:
        missing = [
            fragment
            for fragment in orders.fragments.values()
            if not _in_hand(fragment, found.get(fragment.id))
        ]
        surplus = [
            name
            for name in found
            if name not in orders.fragments and not name.startswith(orders.spared)
        ]
        if missing or surplus:
            await self._may_act()
        problems = [await self._tried(self._start(fragment)) for fragment in missing]
        problems += [await self._tried(self._stop(name)) for name in surplus]
        if any(problems):
            raise next(filter(None, problems))

    async def _start(self, fragment: Fragment) -> None:
        self.statuses[fragment.id] = await self._client.run(fragment)
        fields = {"worker": self.worker.name, "fragment": fragment.id}
        log.info("fragment sent", fingerprint=fragment.fingerprint, **fields)

    async def _stop(self, name: str) -> None:
        await self._client.stop(name)
        self.statuses.pop(name, None)
        log.info("fragment stopped", worker=self.worker.name, fragment=name)

    async def _tried(self, attempt: Awaitable[None]) -> MistbowError | None:
        # One fragment that is refused keeps no other one waiting.
        try:
            await attempt
        except MistbowError as error:
            return error
        return None

    def _count_silence(self) -> None:
        was_dead = self.dead
        self._silences += 1
        if self.dead != was_dead:
            self._noticed()

    def _count(self, *, refused: bool) -> None:
        was_dead = self.dead
        self._silences = 0
        self._refusals = self._refusals + 1 if refused else 0
        if self.dead != was_dead:
            self._noticed()

    def _note(self, problem: str | None) -> None:
        if problem is not None and problem != self.problem:
            log.warning("a worker does not run what it should", reason=problem)
        self.problem = problem


def _in_hand(wanted: Fragment, status: FragmentStatus | None) -> bool:
    """Return whether a worker has this fragment in hand.

    One that was fenced off has given up, until it is asked anew.
    """
    return (
        status is not None and status.fingerprint == wanted.fingerprint and status.state != "fenced"
    )


class Crew:
    """A keeper for each worker that can be reached, by the worker's name."""

    def __init__(
        self,
        connect: Connect,
        may_act: Callable[[], Awaitable[None]],
        noticed: Callable[[], None],
    ) -> None:
        self._connect = connect
        self._may_act = may_act
        self._noticed = noticed
        self._keepers: dict[str, Keeper] = {}

    async def muster(self, workers: Mapping[str, Worker]) -> None:
        """Have keepers for these workers, and for no others."""
        for name, keeper in list(self._keepers.items()):
            worker = workers.get(name)
            if worker is None or worker.url != keeper.worker.url:
                del self._keepers[name]
                await keeper.close()
        for name, worker in workers.items():
            if name not in self._keepers:
                client = self._connect(worker.url)
                self._keepers[name] = Keeper(worker, client, self._may_act, self._noticed)

    def all(self) -> list[tuple[str, Keeper]]:
        """Return each worker's name and keeper."""
        return list(self._keepers.items())

    def get(self, name: str) -> Keeper | None:
        """Return the keeper of a worker."""
        return self._keepers.get(name)

    @property
    def dead(self) -> set[str]:
        """The workers that are known to be dead before the fabric says so."""
        return {name for name, keeper in self._keepers.items() if keeper.dead}

    async def close(self) -> None:
        """Look after no worker any longer."""
        await self.muster({})
