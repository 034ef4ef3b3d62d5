"""The enabler's view of the fabric: sites without a worker."""

from typing import cast

import msgspec

from analytics_enabler.fabric_view import LONG_MS, FabricView
from mistbow.client.agent import AsyncAgentClient
from mistbow.fabric import Fabric, Site, Worker

MINUTE_MS = 60_000
WORKER = Worker(name="w", url="http://w:8100", cores=1, memory_mb=1, cores_free=1, memory_free_mb=1)
SITE = Site(
    name="edge", node="node-edge", url="http://edge:8300", workers=(WORKER,), reachable=True
)


class FabricAgent:
    """An agent that only answers with the fabric that a test sets."""

    def __init__(self, fabric: Fabric) -> None:
        self.answer = fabric

    async def fabric(self) -> Fabric:
        return self.answer


async def test_site_whose_worker_restarts_is_not_without_a_worker_for_long() -> None:
    now = MINUTE_MS
    agent = FabricAgent(Fabric(site="edge", sites=(SITE,)))
    view = FabricView(cast("AsyncAgentClient", agent), lambda: now)
    await view.refresh()
    assert view.workerless.now == frozenset()
    agent.answer = msgspec.structs.replace(
        agent.answer, sites=(msgspec.structs.replace(SITE, workers=()),)
    )
    await view.refresh()
    now += MINUTE_MS
    await view.refresh()
    assert (view.workerless.now, view.workerless.long) == ({"edge"}, frozenset())
    now += LONG_MS
    await view.refresh()
    assert view.workerless.long == {"edge"}


async def test_site_has_confined_workers_for_long_while_each_look_finds_some() -> None:
    now = MINUTE_MS
    worker = msgspec.structs.replace(WORKER, own_site_only=True)
    confined = msgspec.structs.replace(SITE, workers=(worker,))
    agent = FabricAgent(Fabric(site="edge", sites=(confined,)))
    view = FabricView(cast("AsyncAgentClient", agent), lambda: now)
    await view.refresh()
    now += LONG_MS - 1
    await view.refresh()
    assert view.workerless.confined == frozenset()
    now += 1
    assert view.workerless.confined == {"edge"}
    with_worker = agent.answer
    for workers in ((), (worker, WORKER)):
        site = msgspec.structs.replace(SITE, workers=workers)
        agent.answer = msgspec.structs.replace(with_worker, sites=(site,))
        await view.refresh()
        assert view.workerless.confined == frozenset()
    agent.answer = with_worker
    await view.refresh()
    assert view.workerless.confined == frozenset()
