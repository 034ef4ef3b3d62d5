"""Reconciliation of the desired fragments with the fragments that a worker runs."""

import contextlib
from collections.abc import AsyncIterator

import httpx
import msgspec
import pytest

from analytics.client.worker import AsyncWorkerClient
from analytics.plan.fragments import Fragment
from analytics.plan.orders import Lease, Order, OrderAnswer
from analytics.plan.status import FragmentStatus
from analytics_enabler.execution.desired_fragments import DesiredFragments
from analytics_enabler.execution.worker_reconcilers import (
    MAX_LIST_AGE_S,
    MAX_REFUSALS,
    WorkerReconciler,
    WorkerReconcilers,
    _Contact,
)
from analytics_enabler.fragments import WHOLE, whole
from analytics_enabler.groups import Group
from mistbow.clock import system_clock
from mistbow.domains import DEFAULT_DOMAIN
from mistbow.errors import FencedError, StartingError, UnavailableError
from mistbow.fabric import Worker
from mistbow.failure_detector import Liveness
from mistbow.name_resolver import UnresolvedNameError
from tests.analytics_enabler.support import plan_of
from tests.support.conditions import aeventually

FRAGMENT = whole(Group(scope="s", scheduler="fair"), plan_of("a = COMPUTE AVG(x) EVERY 1 s"), "s")[
    WHOLE
]
RUNNING = FragmentStatus(
    id=FRAGMENT.id, fingerprint=FRAGMENT.fingerprint, state="running", frontier=0
)


WORKER = Worker(
    name="w", url="http://edge:8100", cores=1, memory_mb=1, cores_free=1, memory_free_mb=1
)


async def lease() -> Lease:
    return Lease(1, 1)


def missing(*observed: FragmentStatus) -> list[Fragment]:
    desired = DesiredFragments({FRAGMENT.id: FRAGMENT})
    return desired.missing({status.id: status for status in observed})


def test_missing_has_fragment_that_does_not_run_in_this_version() -> None:
    assert missing() == [FRAGMENT]
    assert missing(RUNNING) == []
    assert missing(msgspec.structs.replace(RUNNING, fingerprint="former")) == [FRAGMENT]


def test_missing_has_fenced_but_no_failed_fragment() -> None:
    assert missing(msgspec.structs.replace(RUNNING, state="fenced")) == [FRAGMENT]
    assert missing(msgspec.structs.replace(RUNNING, state="failed")) == []


def test_surplus_spares_desired_and_retained_fragments() -> None:
    desired = DesiredFragments({FRAGMENT.id: FRAGMENT}, frozenset({("all.fair", "edge")}))
    group_with_options = "all.fair.93f5352a"
    observed = [FRAGMENT.id, "all.fair.0123abcd.edge", "all.latency", group_with_options]
    assert desired.surplus(observed) == ["all.latency", group_with_options]
    assert DesiredFragments().surplus(observed) == observed


class ScriptedWorker(AsyncWorkerClient):
    """A client whose calls fail with ``error``, as a transport does; None: they succeed."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__("http://127.0.0.1:1", attempts=1)
        self.error = error
        self.calls = 0
        self.statuses: list[FragmentStatus] = []
        self.requests: list[str] = []
        self.orders: list[Order] = []
        self.lease: Lease | None = None
        """The lease of another enabler, which the worker obeys; None: it obeys every order."""

    async def list(self) -> list[FragmentStatus]:
        """Return the statuses, or raise the error."""
        self.calls += 1
        self.requests.append("list")
        if isinstance(self.error, StartingError):
            raise self.error
        if self.error is not None:
            raise UnavailableError("the worker does not answer") from self.error
        return self.statuses

    async def obey(self, domain: str, order: Order) -> OrderAnswer:
        """Run nothing, or refuse an order under a lesser lease."""
        self.calls += 1
        self.requests.append("obey")
        if self.lease is not None:
            raise FencedError("outdated", details=msgspec.to_builtins(self.lease))
        self.orders.append(order)
        return OrderAnswer(fragments=self.statuses)


class ManualSeconds:
    """A clock (s) that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@contextlib.asynccontextmanager
async def reconciler_of(
    client: ScriptedWorker, seconds: ManualSeconds
) -> AsyncIterator[WorkerReconciler]:
    """Yield the reconciler of a worker that has answered before; close it afterwards."""
    reconciler = WorkerReconciler(
        WORKER, client, DEFAULT_DOMAIN, lease, lambda: None, system_clock, seconds, is_known=True
    )
    try:
        yield reconciler
    finally:
        await reconciler.close()


async def wait_for_calls(client: ScriptedWorker, count: int) -> None:
    """Wait until the worker was called ``count`` times from now on."""
    before = client.calls

    async def are_made() -> bool:
        return client.calls >= before + count

    await aeventually(are_made)


@pytest.mark.integration  # it waits for repeated calls
@pytest.mark.parametrize(
    ("error", "liveness"),
    [
        (httpx.ConnectError("connection refused"), Liveness.DEAD),
        (UnresolvedNameError("the name edge has not resolved"), Liveness.ALIVE),
        (httpx.ReadTimeout("no answer"), Liveness.ALIVE),
    ],
)
async def test_only_refused_connections_are_death_at_once(
    error: Exception, liveness: Liveness
) -> None:
    client = ScriptedWorker(error)
    async with reconciler_of(client, ManualSeconds()) as reconciler:
        await wait_for_calls(client, 3)
        assert reconciler.liveness is liveness


@pytest.mark.integration  # it waits for repeated calls
async def test_restarted_worker_is_dead_until_it_can_run_fragments() -> None:
    client = ScriptedWorker(httpx.ConnectError("connection refused"))
    async with reconciler_of(client, ManualSeconds()) as reconciler:
        await wait_for_calls(client, 3)
        client.error = StartingError("Spark is starting")
        await wait_for_calls(client, 2)
        assert reconciler.liveness is Liveness.DEAD
        assert "does not run the fragments of the enabler" in str(reconciler.outage)
        assert "Spark is starting" in str(reconciler.outage)
        client.error = None
        await wait_for_calls(client, 2)
        assert reconciler.liveness is Liveness.ALIVE


@pytest.mark.integration  # it waits for repeated calls
async def test_dead_worker_that_is_too_slow_to_answer_stays_dead() -> None:
    client = ScriptedWorker(httpx.ReadTimeout("no answer"))
    async with reconciler_of(client, ManualSeconds()) as reconciler:
        for _ in range(MAX_REFUSALS):
            reconciler._note_contact(_Contact.REFUSAL)
            assert reconciler.liveness is Liveness.ALIVE
            await wait_for_calls(client, 2)
        for _ in range(MAX_REFUSALS):
            reconciler._note_contact(_Contact.REFUSAL)
        await wait_for_calls(client, 2)
        assert reconciler.liveness is Liveness.DEAD
        client.error = None
        await wait_for_calls(client, 2)
        assert reconciler.liveness is Liveness.ALIVE


@pytest.mark.integration  # it waits for repeated calls
async def test_silent_worker_is_dead_only_if_it_does_not_announce_itself_either() -> None:
    client, seconds = ScriptedWorker(None), ManualSeconds()
    async with reconciler_of(client, seconds) as reconciler:
        await wait_for_calls(client, 2)
        client.error = httpx.ReadTimeout("no answer")
        await wait_for_calls(client, 2)
        seconds.now += 3
        assert reconciler.liveness is Liveness.SUSPECTED
        reconciler.check_liveness()
        assert "slow, paused or cut off" in str(reconciler.outage)
        seconds.now += 12
        assert reconciler.liveness is Liveness.SUSPECTED
        reconciler.worker = msgspec.structs.replace(WORKER, suspected=True)
        assert reconciler.liveness is Liveness.DEAD
        # An address at which the worker never answers is of no use.
        reconciler.worker = WORKER
        seconds.now += 6
        assert reconciler.liveness is Liveness.DEAD
        client.error = None
        await wait_for_calls(client, 2)
        assert reconciler.liveness is Liveness.ALIVE
        assert reconciler.outage is None


@pytest.mark.integration  # it waits for repeated calls
async def test_lease_that_the_worker_obeys_is_known_while_it_refuses_orders() -> None:
    client = ScriptedWorker(None)
    client.lease = Lease(9, 3)
    async with reconciler_of(client, ManualSeconds()) as reconciler:
        reconciler.set_desired(DesiredFragments({FRAGMENT.id: FRAGMENT}))
        await wait_for_calls(client, 4)
        assert reconciler.rival_lease == Lease(9, 3)
        client.lease = None
        await wait_for_calls(client, 4)
        assert reconciler.rival_lease is None


@pytest.mark.integration  # it waits for repeated calls
async def test_changes_in_a_row_are_ordered_at_once_until_the_last_list_is_old() -> None:
    client, seconds = ScriptedWorker(None), ManualSeconds()
    client.statuses = [msgspec.structs.replace(RUNNING, domain=DEFAULT_DOMAIN)]

    async def order(reconciler: WorkerReconciler, share: float) -> list[str]:
        """Change the fragments; return the requests up to the order."""
        client.requests.clear()
        checked = {FRAGMENT.id: share}
        reconciler.set_desired(DesiredFragments({FRAGMENT.id: FRAGMENT}, checked=checked))

        async def is_ordered() -> bool:
            return "obey" in client.requests

        await aeventually(is_ordered)
        return client.requests[: client.requests.index("obey") + 1]

    async with reconciler_of(client, seconds) as reconciler:
        reconciler.set_desired(DesiredFragments({FRAGMENT.id: FRAGMENT}))
        await wait_for_calls(client, 2)
        assert [await order(reconciler, share) for share in (0.1, 0.2, 0.3)] == [["obey"]] * 3
        # The answer to an order is a reading of the fragment's demand too.
        assert reconciler.meters.keys() == {FRAGMENT.id}
        seconds.now += MAX_LIST_AGE_S
        assert await order(reconciler, 0.4) == ["list", "obey"]


@pytest.mark.integration  # it waits for repeated calls
async def test_worker_receives_one_order_when_a_fragment_that_it_runs_is_orphaned() -> None:
    client = ScriptedWorker(None)
    client.statuses = [msgspec.structs.replace(RUNNING, domain=DEFAULT_DOMAIN)]
    async with reconciler_of(client, ManualSeconds()) as reconciler:
        for orphaned, orders in ((set(), 0), ({FRAGMENT.id}, 1), (set(), 1), ({FRAGMENT.id}, 2)):
            desired = DesiredFragments({FRAGMENT.id: FRAGMENT}, orphaned=frozenset(orphaned))
            reconciler.set_desired(desired)
            await wait_for_calls(client, 3)
            assert len(client.orders) == orders
        assert {each.orphaned for each in client.orders} == {frozenset({FRAGMENT.id})}


@pytest.mark.integration  # it waits for repeated calls
async def test_worker_learns_of_an_orphaned_fragment_again_in_the_next_round() -> None:
    client = ScriptedWorker(None)
    client.statuses = [msgspec.structs.replace(RUNNING, domain=DEFAULT_DOMAIN)]
    async with reconciler_of(client, ManualSeconds()) as reconciler:
        for orphan_round, orphaned, orders in ((0, {"o"}, 1), (1, {"o"}, 2), (2, set(), 2)):
            desired = DesiredFragments(
                {FRAGMENT.id: FRAGMENT},
                orphaned=frozenset(orphaned),
                orphan_round=orphan_round,
            )
            reconciler.set_desired(desired)
            await wait_for_calls(client, 3)
            assert len(client.orders) == orders


@pytest.mark.integration  # it starts reconcilers, which call the worker
@pytest.mark.parametrize(("placed", "dead"), [([WORKER.name], set()), ([], {WORKER.name})])
async def test_worker_that_appears_is_alive_if_it_has_fragments(
    placed: list[str], dead: set[str]
) -> None:
    seconds = ManualSeconds()
    unanswered = ScriptedWorker(httpx.ReadTimeout("slow"))
    reconcilers = WorkerReconcilers(
        lambda _url, _site: unanswered, DEFAULT_DOMAIN, lease, lambda: None, system_clock, seconds
    )
    await reconcilers.set_workers({}, [])
    await reconcilers.set_workers({WORKER.name: ("site", WORKER)}, placed)
    assert reconcilers.dead == dead
    await reconcilers.set_workers({}, [])
    assert not reconcilers._sites, "it retains nothing about a worker that has left"
    await reconcilers.close()
