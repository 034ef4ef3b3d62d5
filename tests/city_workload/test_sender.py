"""The sender of the city's points over real HTTP, also while agents are unreachable."""

import asyncio
from collections import defaultdict
from itertools import islice
from typing import Any

from fastapi import FastAPI, Request

from city_workload import City, batches, nearest_agents, send
from ignite_server.ports import free_ports
from mistbow.client import AsyncAgentClient
from tests.support.conditions import aeventually
from tests.support.http_server import served

CITY = City(regions=("west", "east"), vehicles=20, rate=500, seed=3)


class Receiver:
    """Accepts points as a storage agent does, and records the points."""

    def __init__(self) -> None:
        self.points: list[dict[str, Any]] = []
        self.app = FastAPI()
        self.app.post("/put")(self._put)

    async def _put(self, request: Request) -> dict[str, str]:
        self.points += (await request.json())["monitoring"]
        return {"result": "OK"}


class FakeTime:
    """A clock that advances only when ``sleep`` is called."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1000)
        await asyncio.sleep(0)


async def test_send_delivers_each_batch_to_agent_of_region_at_its_end() -> None:
    time = FakeTime()
    west, east = Receiver(), Receiver()
    sent_batches = list(islice(batches(CITY, 0), 5))
    with served(west.app) as west_url, served(east.app) as east_url:
        agents = {"west": AsyncAgentClient(west_url), "east": AsyncAgentClient(east_url)}
        sent = await send(sent_batches, agents, clock=time, sleep=time.sleep)
        for agent in agents.values():
            await agent.close()
    assert time.now == 5000
    expected: defaultdict[str, int] = defaultdict(int)
    for batch in sent_batches:
        for point in batch.points:
            assert point.labels is not None
            expected[str(point.labels["region"])] += 1
    assert dict(sent.stored) == dict(expected)
    assert sum(sent.lost.values()) == 0
    for region, receiver in (("west", west), ("east", east)):
        assert {point["labels"]["region"] for point in receiver.points} == {region}
        assert len(receiver.points) == expected[region]


async def test_send_does_not_delay_regions_for_unreachable_agent() -> None:
    time = FakeTime()
    east = Receiver()
    count = 40
    nobody = f"http://127.0.0.1:{free_ports(1)[0]}"
    with served(east.app) as east_url:
        agents = nearest_agents(
            CITY.regions, [AsyncAgentClient(nobody), AsyncAgentClient(east_url)]
        )
        ticks = islice(batches(CITY, 0), count)
        sender = asyncio.create_task(send(ticks, agents, clock=time, sleep=time.sleep))

        async def all_sent() -> bool:
            return time.now == count * 1000 and bool(east.points)

        await aeventually(all_sent)
        assert not sender.done(), "the sender still tries to reach the agent"
        sender.cancel()
        await asyncio.wait([sender])
        for agent in agents.values():
            await agent.close()


async def test_send_counts_points_of_region_without_agent_as_lost() -> None:
    time = FakeTime()
    (batch,) = islice(batches(CITY, 0), 1)
    sent = await send([batch], {}, clock=time, sleep=time.sleep)
    assert sum(sent.lost.values()) == len(batch.points)
