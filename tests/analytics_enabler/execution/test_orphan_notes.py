"""The notes about orphaned fragments, which the worker of their merge receives."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

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
    place = PlacementDriver.place

    async def fail_without_other(
        driver: PlacementDriver, jobs: Sequence[Job], fog: Fog, current: NodesByJob
    ) -> NodesByJob:
        if other.name in {node.name for node in fog.nodes}:
            return await place(driver, jobs, fog, current)
        raise RuntimeError("no placement can be decided")

    workers = [RecordingWorker("w-cloud"), RecordingWorker("w-edge")]
    with ExitStack() as stack:
        running = {worker.name: stack.enter_context(ExitStack()) for worker in workers}
        for worker, url in zip(workers, agent_urls, strict=True):
            running[worker.name].enter_context(worker.running(url))
        enabler = EnablerClient(stack.enter_context(running_enabler(agent_urls[0], tmp_path)))
        enabler.submit(QUERY)
        eventually(lambda: all(worker.fragments_of(Partial) for worker in workers))
        merging = eventually(lambda: next((w for w in workers if w.fragments_of(Merge)), None))
        (other,) = (worker for worker in workers if worker is not merging)
        (orphan,) = other.fragments_of(Partial)
        with monkeypatch.context() as patch:
            patch.setattr(PlacementDriver, "place", fail_without_other)
            running[other.name].close()
            eventually(lambda: merging.orders[-1].orphaned == {orphan.id})
            assert orphan.id not in merging.fragments
        eventually(lambda: orphan.id in merging.fragments, timeout=60)
        placed = next(order for order in merging.orders if orphan.id in order.fragments)
        assert placed.orphaned == {orphan.id}
