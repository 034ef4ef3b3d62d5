"""The notes about orphaned fragments, which the worker of their merge receives."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from analytics.client.enabler import EnablerClient
from analytics.plan.fragments import Merge, Partial
from analytics_enabler.scheduling.driver.driver import NodesByJob, PlacementDriver
from analytics_enabler.scheduling.model.jobs import Job
from analytics_enabler.scheduling.model.snapshot import Fog
from ignite_server.ports import free_ports
from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from storage_agent.main import create_app
from storage_agent.settings import AgentSettings
from tests.analytics_enabler.conftest import running_enabler
from tests.analytics_enabler.recording_worker import RecordingWorker
from tests.support.conditions import eventually
from tests.support.http_server import served
from tests.support.ignite import empty

QUERY = "mean = COMPUTE AVG(cpu, 10 s) EVERY 5 s"


@pytest.fixture
def agent_urls(
    ignite_server: IgniteServer, other_ignite: IgniteServer, tmp_path: Path
) -> Iterator[list[str]]:
    """Yield the addresses of the agents of two sites that reach each other."""
    ports = free_ports(2)
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    with ExitStack() as stack:
        sites = zip(("cloud", "edge"), (ignite_server, other_ignite), ports, strict=True)
        for number, (site, ignite, port) in enumerate(sites):
            empty(ignite)
            settings = AgentSettings(
                home=tmp_path / site,
                node=f"{site}-1",
                site=site,
                ignite_port=ignite.port,
                agent_url=urls[number],
                peers=urls[1 - number],
            )
            stack.enter_context(served(create_app(settings), port))
        with closing(AgentClient(urls[0])) as client:
            eventually(lambda: sum(site.reachable for site in client.fabric().sites) == 2)
        yield urls


def test_merge_learns_of_an_orphan_before_and_after_it_is_placed_again(
    agent_urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, spare = PlacementDriver.place, RecordingWorker("w-spare")

    async def fail_without_worker(
        driver: PlacementDriver, jobs: Sequence[Job], fog: Fog, *more: Any
    ) -> NodesByJob:
        if {other.name, spare.name}.isdisjoint(node.name for node in fog.nodes):
            raise RuntimeError("no placement can be decided")
        return await place(driver, jobs, fog, *more)

    workers = dict(zip(agent_urls, map(RecordingWorker, ("w-cloud", "w-edge")), strict=True))
    with ExitStack() as stack:
        running = {url: stack.enter_context(ExitStack()) for url in workers}
        for url, worker in workers.items():
            running[url].enter_context(worker.running(url))
        enabler = EnablerClient(stack.enter_context(running_enabler(agent_urls[0], tmp_path)))
        enabler.submit(QUERY)
        eventually(lambda: all(worker.fragments_of(Partial) for worker in workers.values()))
        merging = eventually(
            lambda: next((w for w in workers.values() if w.fragments_of(Merge)), None)
        )
        [(url, other)] = [(url, each) for url, each in workers.items() if each is not merging]
        (orphan,) = other.fragments_of(Partial)
        monkeypatch.setattr(PlacementDriver, "place", fail_without_worker)
        running[url].close()
        eventually(lambda: merging.orders[-1].orphaned == {orphan.id}, what="the first note")
        orders = len(merging.orders)
        # Until the merge has learned of the placement, the new worker does not write.
        spare.status_fields[orphan.id] = {"state": "starting", "active": None}
        stack.enter_context(spare.running(url))
        eventually(lambda: orphan.id in spare.fragments, timeout=60, what="the orphan is placed")
        eventually(lambda: len(merging.orders) > orders, what="the second note")
        assert merging.orders[orders].orphaned == {orphan.id}
        assert orphan.id not in merging.fragments
        placed = next(order for order in spare.orders if orphan.id in order.fragments)
        assert placed.orphaned == {orphan.id}
