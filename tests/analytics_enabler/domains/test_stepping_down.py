"""An active enabler that becomes a standby, with clients whose requests are open."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import Any, cast

import httpx
import pytest

from analytics.plan.orders import Lease
from analytics_enabler.api.events import _Stream
from analytics_enabler.api.live_answers import until_standby
from analytics_enabler.api.results import _events
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.domains.proxy import DomainProxy
from analytics_enabler.domains.role import RoleState
from analytics_enabler.live.events import CursorClock
from analytics_enabler.live.result_hub import ResultHub
from analytics_enabler.live.topic_hub import TopicHub
from analytics_enabler.live.topics import DecisionsTopic
from analytics_enabler.results.follower import ResultFollower
from analytics_enabler.results.streams import ResultStreams
from mistbow.auth.callers import FOG
from mistbow.client.agent import AsyncAgentClient
from tests.analytics_enabler.domains.conftest import DomainFog
from tests.analytics_enabler.domains.support import MEAN
from tests.analytics_enabler.domains.test_role import active
from tests.analytics_enabler.live.reader import reading
from tests.analytics_enabler.spark_worker import TEST_TIMEOUT_S
from tests.analytics_enabler.support import deployment

LIMIT_S = 2.0
"""The time (s) within which open streams end after the enabler has become a standby."""


class NoDecisions:
    """A log of no decisions."""

    def newest(self, _limit: int) -> list[Any]:
        """Return no decision."""
        return []


async def consume(items: AsyncGenerator[Any, None], begun: asyncio.Event) -> None:
    """Read a stream up to its end; set ``begun`` at its first item."""
    async for _ in items:
        begun.set()


async def test_open_streams_end_at_a_standby_and_leave_no_task() -> None:
    place = await active(5)
    agent = AsyncAgentClient("http://127.0.0.1:1")
    clock = CursorClock()
    nothing: Any = None
    decisions: Any = NoDecisions()
    hub = ResultHub(cast(Deployments, nothing), nothing, nothing, clock)
    topics = TopicHub({"decisions": DecisionsTopic(decisions)}, clock)
    stream = _Stream(hub, topics, clock, cast(DomainProxy, nothing), FOG)
    followed = deployment("a = COMPUTE AVG(x) EVERY 1 s")
    follower = ResultFollower(ResultStreams(agent, lambda: ""), lambda: followed, None, {}, FOG)
    before = asyncio.all_tasks()
    begun = asyncio.Event()
    reading = [
        asyncio.create_task(consume(until_standby(place.role, events), begun))
        for events in (stream.events(["decisions"], [], None), _events(follower))
    ]
    await begun.wait()
    assert await place.run(1) is RoleState.ACTIVE
    assert not any(each.done() for each in reading)
    place.others["a"] = Lease(6, 1), True
    assert await place.run(0.5) is RoleState.STANDBY
    async with asyncio.timeout(LIMIT_S):
        await asyncio.gather(*reading)
    # The end of a task that was cancelled is seen one step later.
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
    await agent.close()


async def test_end_and_error_of_a_stream_of_an_active_enabler_remain() -> None:
    async def numbers(*, fails: bool) -> AsyncGenerator[int, None]:
        yield 1
        yield 2
        if fails:
            raise ValueError("broken")

    place = await active()
    assert [each async for each in until_standby(place.role, numbers(fails=False))] == [1, 2]
    with pytest.raises(ValueError, match="broken"):
        async for _ in until_standby(place.role, numbers(fails=True)):
            pass


def step_down(fog: DomainFog) -> None:
    """Cut the sites until the enabler of ``b`` has taken over from the one of ``a``; heal them."""
    fog.cut()
    fog.wait_for(fog.b, {("b", "all"): True})
    fog.heal()
    fog.wait_for(fog.b, {("a", "all"): False, ("b", "all"): True})


@contextmanager
def open_stream(url: str) -> Iterator[threading.Thread]:
    """Read a stream in a thread, which ends with the stream, before the end of the ``with``."""
    with httpx.stream("GET", url, timeout=60) as response:
        response.raise_for_status()
        thread = threading.Thread(target=lambda: [*response.iter_raw()], daemon=True)
        thread.start()
        yield thread


@pytest.mark.soak
@pytest.mark.timeout(TEST_TIMEOUT_S)
def test_clients_of_an_enabler_that_steps_down_are_passed_on(fog: DomainFog) -> None:
    first = fog.a.start_enabler()
    mean = first.submit(MEAN).deployment_id
    fog.wait_for(fog.b, {("a", "all"): True})
    fog.b.start_enabler()
    fog.wait_for(fog.b, {("a", "all"): True, ("b", "all"): False})
    with (
        open_stream(f"{first.url}/api/insights/{mean}/results/follow") as follow,
        reading(first.url, topics="states", insights=mean) as events,
    ):
        assert events.next("state")["deployment_id"] == mean
        step_down(fog)
        follow.join(30)
        assert not follow.is_alive()
        events.wait_for_end()
    # The same client connects again, at the same enabler.
    with reading(first.url, last_id=events.last_id, topics="states", insights=mean) as again:
        assert again.next("present")["deployment_ids"] == [mean]
    follow_url = f"{first.url}/api/insights/{mean}/results/follow"
    with httpx.stream("GET", follow_url, timeout=60) as answer:
        assert answer.status_code == 200
