"""Sending the city's story over real HTTP, to agents some of which are away."""

import asyncio
from collections import defaultdict
from itertools import islice
from typing import Any

from fastapi import FastAPI, Request

from mistbow.city import City, batches, nearest, send
from mistbow.client import AsyncAgentClient
from mistbow.ports import free_ports
from tests.support.serving import served
from tests.support.waiting import aeventually

CITY = City(regions=("west", "east"), vehicles=20, rate=500, seed=3)


class Receiver:
    """Takes what is put, as a storage agent does, and remembers it."""

    def __init__(self) -> None:
        self.points: list[dict[str, Any]] = []
        self.app = FastAPI()
        self.app.post("/put")(self._put)

    async def _put(self, request: Request) -> None:
        self.points += (await request.json())["monitoring"]


class FakeTime:
    """A clock that moves only when someone sleeps."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1000)
        await asyncio.sleep(0)


async def test_each_region_goes_to_its_own_agent_when_its_time_is_over() -> None:
    time = FakeTime()
    west, east = Receiver(), Receiver()
    told = list(islice(batches(CITY, 0), 5))
    with served(west.app) as west_url, served(east.app) as east_url:
        agents = {"west": AsyncAgentClient(west_url), "east": AsyncAgentClient(east_url)}
        sent = await send(told, agents, clock=time, sleep=time.sleep)
        for agent in agents.values():
            await agent.close()
    assert time.now == 5000
    expected: defaultdict[str, int] = defaultdict(int)
    for batch in told:
        for point in batch.points:
            assert point.labels is not None
            expected[str(point.labels["region"])] += 1
    assert dict(sent.stored) == dict(expected)
    assert sum(sent.lost.values()) == 0
    for region, receiver in (("west", west), ("east", east)):
        assert {point["labels"]["region"] for point in receiver.points} == {region}
        assert len(receiver.points) == expected[region]


async def test_an_agent_that_is_away_holds_up_no_other() -> None:
    time = FakeTime()
    east = Receiver()
    count = 40
    nobody = f"http://127.0.0.1:{free_ports(1)[0]}"
    with served(east.app) as east_url:
        agents = nearest(CITY.regions, [AsyncAgentClient(nobody), AsyncAgentClient(east_url)])
        ticks = islice(batches(CITY, 0), count)
        story = asyncio.create_task(send(ticks, agents, clock=time, sleep=time.sleep))

        async def all_told() -> bool:
            return time.now == count * 1000 and bool(east.points)

        await aeventually(all_told)
        assert not story.done(), "it still tries to reach the one that is away"
        story.cancel()
        await asyncio.wait([story])
        for agent in agents.values():
            await agent.close()


async def test_points_without_an_agent_are_counted() -> None:
    time = FakeTime()
    (batch,) = islice(batches(CITY, 0), 1)
    sent = await send([batch], {}, clock=time, sleep=time.sleep)
    assert sum(sent.lost.values()) == len(batch.points)
