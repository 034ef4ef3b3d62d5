"""Two real workers at one site; one is paused for seconds, and then for longer."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from analytics.client.enabler import EnablerClient
from analytics.client.worker import WorkerClient
from mistbow.client.agent import AgentClient
from storage_agent.settings import AgentSettings
from tests.analytics_enabler.conftest import running_enabler
from tests.support.agents import running_agent
from tests.support.conditions import eventually
from tests.support.sender import Sender
from tests.support.services import Service, service
from tests.support.traffic import Traffic

QUERY = "mean = COMPUTE AVG(cpu, 5 s) BY entityID EVERY 1 s"
TRAFFIC = Traffic(metrics=("cpu",), entities=("vm1", "vm2"), rate=20)


@dataclass
class TwoWorkers:
    """A site with an enabler and the workers ``a`` and ``b``."""

    agent: AgentClient
    enabler: EnablerClient
    processes: dict[str, Service]
    clients: dict[str, WorkerClient]

    def fragments(self, name: str) -> list[str]:
        """Return the ids of the fragments that a worker runs."""
        return [status.id for status in self.clients[name].list()]

    def running(self) -> str | None:
        """Return the worker that runs the fragment; None: it runs on none, or on both."""
        names = [name for name in self.clients if self.fragments(name)]
        return names[0] if len(names) == 1 else None

    def suspected(self) -> dict[str, bool]:
        """Return name -> whether the agent suspects the worker, for the workers in the fabric."""
        (site,) = self.agent.fabric().sites
        return {worker.name: worker.suspected for worker in site.workers}

    def reliability(self, name: str) -> float:
        """Return the reliability of a worker; 2.0: it is not in the fabric."""
        (site,) = self.agent.fabric().sites
        return next((each.reliability for each in site.workers if each.name == name), 2.0)

    def newest(self, deployment: str) -> int:
        """Return the time (ms) of the newest result; 0: no result."""
        return max((row.ts for row in self.enabler.results(deployment).results), default=0)

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """Pause the process of a worker within the ``with``."""
        pid = self.processes[name].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)


@pytest.fixture
def site(agent_settings: AgentSettings, tmp_path: Path) -> Iterator[TwoWorkers]:
    with ExitStack() as stack:
        agent_url = stack.enter_context(running_agent(agent_settings))
        processes = {
            name: stack.enter_context(
                service(
                    "analytics_worker",
                    "worker_port",
                    home=tmp_path / name,
                    node=name,
                    agent_url=agent_url,
                    spark_master="local[1]",
                    driver_memory="512m",
                )
            )
            for name in ("a", "b")
        }
        enabler_url = stack.enter_context(running_enabler(agent_url, tmp_path / "enabler"))
        clients = {name: WorkerClient(each.url) for name, each in processes.items()}
        stack.enter_context(Sender(agent_url, TRAFFIC))
        two = TwoWorkers(AgentClient(agent_url), EnablerClient(enabler_url), processes, clients)
        eventually(lambda: two.suspected() == {"a": False, "b": False}, what="both are announced")
        yield two


@pytest.mark.soak
def test_paused_worker_keeps_its_fragment_until_it_is_dead(site: TwoWorkers) -> None:
    deployment = site.enabler.submit(QUERY).deployment_id
    name = eventually(site.running, timeout=60, what="a worker has the fragment")
    other = "b" if name == "a" else "a"
    eventually(lambda: site.newest(deployment), timeout=90, what="the first result")
    with site.paused(name):
        eventually(lambda: site.suspected()[name], timeout=20, what="it is suspected")
    before = site.newest(deployment)
    eventually(lambda: not site.suspected()[name], what="it has returned")
    eventually(lambda: site.newest(deployment) > before, timeout=30, what="results go on")
    assert (site.running(), site.fragments(other)) == (name, [])

    with site.paused(name):
        eventually(lambda: site.fragments(other), timeout=60, what="the other worker has it")
        before = site.newest(deployment)
        eventually(lambda: site.newest(deployment) > before, timeout=60, what="results go on")
    eventually(lambda: site.running() == other, timeout=30, what="the former worker has stopped it")
    # Two suspicions at least; the agent may have found the worker dead, too.
    eventually(lambda: site.reliability(name) < 0.7, what="it has returned")
    assert site.reliability(other) == 1.0
