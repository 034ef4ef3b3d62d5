"""A site with Ignite, a storage agent and a worker with Spark."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from analytics.client.enabler import EnablerClient
from analytics.client.worker import WorkerClient
from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from storage_agent.settings import AgentSettings
from tests.support.agents import running_agent
from tests.support.conditions import eventually
from tests.support.services import service

NODE = "n1"


@dataclass(frozen=True, slots=True)
class LiveSite:
    """The agent and the worker of a site; each test starts an enabler of its own."""

    home: Path
    agent_url: str
    agent: AgentClient
    worker: WorkerClient

    def clear(self, enabler_url: str) -> None:
        """Delete all deployments, and wait until the worker has no fragment."""
        enabler = EnablerClient(enabler_url)
        for deployment in enabler.list():
            enabler.delete(deployment.deployment_id)
        enabler.close()

        def has_no_fragment() -> bool:
            remaining = self.worker.list()
            assert not remaining, remaining
            return True

        eventually(has_no_fragment, timeout=90, what="the worker has no fragment")


@contextmanager
def running_live_site(home: Path) -> Iterator[LiveSite]:
    """Run the services of a site within the ``with``."""
    with (
        IgniteServer(home, durability="log") as ignite,
        running_agent(AgentSettings(home=home, node=NODE, ignite_port=ignite.port)) as agent,
        service("analytics_worker", "worker_port", home=home, agent_url=agent, node=NODE) as worker,
    ):
        site = LiveSite(home, agent, AgentClient(agent), WorkerClient(worker.url))
        yield site
        site.agent.close()
        site.worker.close()
