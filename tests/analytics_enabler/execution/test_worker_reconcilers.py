"""Reconciliation of the desired fragments with the fragments that a worker runs."""

import httpx
import msgspec
import pytest

from analytics.client.worker import AsyncWorkerClient
from analytics.plan.fragments import Fragment
from analytics.plan.status import FragmentStatus
from analytics_enabler.execution.worker_reconcilers import DesiredFragments, WorkerReconciler
from analytics_enabler.fragments import WHOLE, whole
from analytics_enabler.groups import Group
from mistbow.clock import system_clock
from mistbow.errors import UnavailableError
from mistbow.fabric import Worker
from mistbow.name_resolver import UnresolvedNameError
from tests.analytics_enabler.support import plan_of
from tests.support.conditions import aeventually

FRAGMENT = whole(Group(scope="s", scheduler="fair"), plan_of("a = COMPUTE AVG(x) EVERY 1 s"), "s")[
    WHOLE
]
RUNNING = FragmentStatus(
    id=FRAGMENT.id, fingerprint=FRAGMENT.fingerprint, state="running", frontier=0
)


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


class UnreachableWorker(AsyncWorkerClient):
    """A client whose every call fails; ``failures``: how many calls have failed."""

    def __init__(self, error: Exception) -> None:
        super().__init__("http://127.0.0.1:1", attempts=1)
        self._error = error
        self.failures = 0

    async def list(self) -> list[FragmentStatus]:
        """Raise the error, as a transport does."""
        self.failures += 1
        raise UnavailableError("the worker does not answer") from self._error


@pytest.mark.integration  # it waits for repeated calls
@pytest.mark.parametrize(
    ("error", "is_dead"),
    [
        (httpx.ConnectError("connection refused"), True),
        (UnresolvedNameError("the name edge has not resolved"), False),
    ],
)
async def test_unresolved_name_is_no_refused_connection(error: Exception, is_dead: bool) -> None:
    worker = Worker(
        name="w", url="http://edge:8100", cores=1, memory_mb=1, cores_free=1, memory_free_mb=1
    )
    client = UnreachableWorker(error)

    async def check_lease() -> None:
        return None

    reconciler = WorkerReconciler(
        worker, client, check_lease, lambda: None, system_clock, is_known=True
    )

    async def has_failed_twice() -> bool:
        return client.failures == 2

    await aeventually(has_failed_twice)
    assert reconciler.is_dead == is_dead
    await reconciler.close()
