"""A site whose worker runs under a memory limit, as in a small container."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from analytics.client.enabler import EnablerClient
from analytics.client.worker import WorkerClient
from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from mistbow.fabric import Worker
from tests.support.memory_group import MemoryGroup, memory_group
from tests.support.services import Service, service, storage_agent


@dataclass(frozen=True)
class ConfinedSite:
    """The clients of the services, and the worker with its control group."""

    group: MemoryGroup
    worker_service: Service
    agent: AgentClient
    worker: WorkerClient
    enabler: EnablerClient

    def announced(self) -> Worker:
        """Return the worker as it announces itself."""
        workers = [worker for site in self.agent.fabric().sites for worker in site.workers]
        assert len(workers) == 1
        return workers[0]

    def running(self) -> set[str]:
        """Return the ids of the fragments that run."""
        return {status.id for status in self.worker.list() if status.state == "running"}


@contextmanager
def confined_site(folder: Path, limit_mb: int) -> Iterator[ConfinedSite]:
    """Run Ignite, an agent, an enabler, and a worker with a memory limit (MB).

    ``folder``: contains the homes of the services.
    """
    with ExitStack() as stack:
        group = stack.enter_context(memory_group(limit_mb))
        ignite = stack.enter_context(IgniteServer(folder / "site"))
        agent = stack.enter_context(storage_agent(folder / "site", ignite.port, node="n1"))
        worker = stack.enter_context(
            service(
                "analytics_worker", "worker_port", home=folder / "worker", node="w1",
                agent_url=agent.url, prefix=group.prefix,
            )
        )  # fmt: skip
        enabler = stack.enter_context(
            service(
                "analytics_enabler", "enabler_port", home=folder / "enabler", agent_url=agent.url
            )
        )
        site = ConfinedSite(
            group, worker, AgentClient(agent.url), WorkerClient(worker.url),
            EnablerClient(enabler.url),
        )  # fmt: skip
        for client in (site.agent, site.worker, site.enabler):
            stack.callback(client.close)
        yield site
