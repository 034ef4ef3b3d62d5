"""The log of decisions over a real storage agent: bounds, restarts, and a second enabler."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from analytics_enabler import decision_log
from analytics_enabler.decision_log import Decision, DecisionKind, DecisionLog, decision_from_json
from analytics_enabler.journal import EventJournal
from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import NotFoundError
from mistbow.runtime.tasks import cancel_and_wait
from mistbow.streams.schemas import DECISIONS
from tests.support.conditions import aeventually

LIMIT = 5


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_log, "MAX_DECISIONS", LIMIT)
    monkeypatch.setattr(decision_log, "RETRY_S", 0.05)


class Lease:
    """The lease of an enabler, which a test revokes."""

    def __init__(self) -> None:
        self.is_held = True

    async def check(self) -> bool:
        return self.is_held


@asynccontextmanager
async def running_log(
    url: str, lease: Lease, clock: Callable[[], int]
) -> AsyncIterator[DecisionLog]:
    agent = AsyncAgentClient(url)
    log = DecisionLog(EventJournal(agent, DECISIONS, decision_from_json), lease.check, clock)
    task = asyncio.create_task(log.run())
    try:
        yield log
    finally:
        await cancel_and_wait([task])
        await agent.close()


@pytest.fixture
def clock() -> Callable[[], int]:
    times = iter(range(1, 1000))
    return lambda: next(times)


def record(log: DecisionLog, number: int, kind: DecisionKind = DecisionKind.SITE_MISSING) -> None:
    log.record(kind, f"s{number}", what=f"what {number}", why="why", by="me")


def subjects(decisions: list[Decision]) -> list[str]:
    return [each.subject for each in decisions]


async def stored(url: str) -> list[int]:
    """Return the numbers of the decisions that the stream has."""
    agent = AsyncAgentClient(url)
    try:
        rows = await agent.read(DECISIONS)
    except NotFoundError:
        return []
    else:
        return [decision_from_json(each).number for each in rows.table["event"].to_pylist()]
    finally:
        await agent.close()


async def await_stored(url: str, numbers: list[int]) -> None:
    """Wait until the stream has the decisions with these numbers."""

    async def are_stored() -> bool:
        return await stored(url) == numbers

    await aeventually(are_stored)


async def test_decisions_survive_a_restart_and_are_bounded(
    agent_url: str, clock: Callable[[], int]
) -> None:
    async with running_log(agent_url, Lease(), clock) as log:
        for number in range(3):
            record(log, number)
        assert subjects(log.newest(2)) == ["s1", "s2"]
        await await_stored(agent_url, [0, 1, 2])
    async with running_log(agent_url, Lease(), clock) as again:

        async def loaded() -> bool:
            return again.is_loaded

        await aeventually(loaded)
        assert subjects(again.newest(10)) == ["s0", "s1", "s2"]
        assert again.latest_kind("site", "s1") is DecisionKind.SITE_MISSING
        for number in range(3, 8):
            record(again, number)

        async def last_stored() -> bool:
            return (await stored(agent_url))[-1] == 7

        await aeventually(last_stored)
        assert subjects(again.newest(10)) == ["s3", "s4", "s5", "s6", "s7"]
    agent = AsyncAgentClient(agent_url)
    keys = (await agent.read(DECISIONS)).table["key"].to_pylist()
    await agent.close()
    # Compaction retains the last row of each key.
    assert set(keys) == {str(number) for number in range(LIMIT)}


async def test_decisions_are_selected_by_time_and_subject(
    agent_url: str, clock: Callable[[], int]
) -> None:
    async with running_log(agent_url, Lease(), clock) as log:
        record(log, 1)
        record(log, 2, DecisionKind.DEPLOYMENT_PAUSED)
        record(log, 3, DecisionKind.FRAGMENT_MOVED)
        assert subjects(log.newest(10, since=2)) == ["s2", "s3"]
        assert subjects(log.newest(10, subjects={"s1", "s2"})) == ["s2"]
        assert subjects(log.newest(10, subjects={"s3"})) == ["s3"]


async def test_only_the_enabler_with_the_lease_stores_decisions(
    agent_url: str, clock: Callable[[], int]
) -> None:
    first, second = Lease(), Lease()
    second.is_held = False
    async with (
        running_log(agent_url, first, clock) as old,
        running_log(agent_url, second, clock) as new,
    ):
        record(old, 1)
        await await_stored(agent_url, [0])
        record(new, 2)
        first.is_held, second.is_held = False, True
        record(old, 3)
        await await_stored(agent_url, [0, 1])
        assert subjects(new.newest(10)) == ["s1", "s2"]
        first.is_held, second.is_held = True, False
        record(old, 4)
        await await_stored(agent_url, [0, 1, 2, 3])
        assert subjects(old.newest(10)) == ["s1", "s2", "s3", "s4"]


async def test_reclaimed_log_has_only_stored_decisions(
    agent_url: str, clock: Callable[[], int]
) -> None:
    first, second = Lease(), Lease()
    second.is_held = False
    async with (
        running_log(agent_url, first, clock) as old,
        running_log(agent_url, second, clock) as new,
    ):
        record(old, 1)
        await await_stored(agent_url, [0])
        first.is_held, second.is_held = False, True
        record(old, 2)
        record(new, 3)
        await await_stored(agent_url, [0, 1])
        await old.reclaim()
        assert not old.is_loaded
        first.is_held, second.is_held = True, False

        async def is_loaded() -> bool:
            return old.is_loaded

        await aeventually(is_loaded)
        assert subjects(old.newest(10)) == ["s1", "s3"]
        assert await stored(agent_url) == [0, 1]


async def test_copied_decisions_are_stored_once_and_survive_a_restart(
    agent_url: str, clock: Callable[[], int]
) -> None:
    def theirs(number: int, at: int) -> Decision:
        kind = DecisionKind.SITE_MISSING
        return Decision(
            at=at, kind=kind, subject=f"t{number}", what="gone", why="why", by="me", number=number
        )

    async with running_log(agent_url, Lease(), clock) as log:
        record(log, 0)
        await await_stored(agent_url, [0])
        # One of the other enabler is as old as the own one, and has the same number.
        await log.copy([theirs(0, 1), theirs(1, 40)])
        await log.copy([theirs(0, 1), theirs(1, 40), theirs(2, 50)])
        assert subjects(log.newest(10)) == ["s0", "t0", "t1", "t2"]
        assert log.latest_kind("site", "t2") is DecisionKind.SITE_MISSING
    async with running_log(agent_url, Lease(), clock) as again:

        async def are_loaded() -> bool:
            return subjects(again.newest(10)) == ["s0", "t0", "t1", "t2"]

        await aeventually(are_loaded)
        await again.copy([theirs(number, 60 + number) for number in range(3, 6)])
        newest = ["t1", "t2", "t3", "t4", "t5"]
        assert subjects(again.newest(10)) == newest
        # A full log takes no older decisions in exchange for newer ones.
        await again.copy([theirs(0, 1), theirs(9, 30)])
        assert subjects(again.newest(10)) == newest


async def test_decisions_that_are_copied_after_a_split_are_in_the_order_of_time(
    agent_url: str,
) -> None:
    now = [10]

    def theirs(kind: DecisionKind, at: int) -> Decision:
        return Decision(
            at=at, kind=kind, subject="w1", what=f"at {at}", why="why", by="me", number=at
        )

    async with running_log(agent_url, Lease(), lambda: now[0]) as log:
        log.record(DecisionKind.WORKER_RETURNED, "w1", what="back", why="why", by="me")
        await await_stored(agent_url, [0])
        await log.copy([theirs(DecisionKind.WORKER_SUSPECTED, 4)])
        await log.copy([theirs(DecisionKind.WORKER_DEAD, 5)])
        assert [each.at for each in log.newest(10)] == [4, 5, 10]
        assert [each.at for each in log.newest(1)] == [10]
        assert [each.at for each in log.newest(10, since=5)] == [5, 10]
        assert log.latest_kind("worker", "w1") is DecisionKind.WORKER_RETURNED
        # The next decision is the latest one, although the clock was set back.
        now[0] = 7
        log.record(DecisionKind.WORKER_SUSPECTED, "w2", what="silent", why="why", by="me")
        now[0] = 6
        log.record(DecisionKind.WORKER_RETURNED, "w2", what="back", why="why", by="me")
        assert log.latest_kind("worker", "w2") is DecisionKind.WORKER_RETURNED
    async with running_log(agent_url, Lease(), lambda: now[0]) as again:

        async def is_loaded() -> bool:
            return again.is_loaded

        await aeventually(is_loaded)
        assert again.latest_kind("worker", "w1") is DecisionKind.WORKER_RETURNED
        assert [each.at for each in again.newest(10)][-1] == 10
