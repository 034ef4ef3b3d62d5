"""A fog of three sites: ``hub`` has points and the enabler; ``east`` and ``west`` have workers."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from analytics.client.enabler import EnablerClient
from analytics.client.worker import WorkerClient
from analytics_enabler.main import create_app
from analytics_enabler.settings import EnablerSettings
from ignite_server.ports import free_ports
from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from mistbow.errors import MistbowError
from tests.support.conditions import eventually
from tests.support.http_server import served
from tests.support.services import Service, service, storage_agent
from tests.support.slow_link import SlowLink

HUB = "hub"
WORKERS = ("east", "west")


class AdaptiveFog:
    """The running fog; ``links``: site -> the link through which other sites reach it."""

    def __init__(self, home: Path, stack: ExitStack) -> None:
        self.sites: dict[str, AgentClient] = {}
        self.links: dict[str, SlowLink] = {}
        self.workers: dict[str, WorkerClient] = {}
        names = (HUB, *WORKERS)
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        for name in names:
            self.links[name] = stack.enter_context(SlowLink(ports[name]))
        with ThreadPoolExecutor(len(names)) as pool:
            agents = pool.map(lambda name: self._start_agent(home, name, ports[name], stack), names)
            for name, agent in zip(names, agents, strict=True):
                self.sites[name] = AgentClient(agent.url)
                stack.callback(self.sites[name].close)
            workers = pool.map(lambda name: self._start_worker(home, name, stack), WORKERS)
            for name, worker in zip(WORKERS, workers, strict=True):
                self.workers[name] = WorkerClient(worker.url)
                stack.callback(self.workers[name].close)
        settings = EnablerSettings(home=home, agent_url=self.sites[HUB].url)
        self.enabler = EnablerClient(stack.enter_context(served(create_app(settings))))
        eventually(self._is_whole, timeout=240, what="all workers are calibrated members")

    def _start_agent(self, home: Path, name: str, port: int, stack: ExitStack) -> Service:
        (home / name).mkdir()
        ignite = stack.enter_context(IgniteServer(home / name, durability="log"))
        peers = ",".join(link.url for other, link in self.links.items() if other != name)
        return stack.enter_context(
            storage_agent(
                home / name,
                ignite.port,
                port=port,
                node=name,
                site=name,
                peers=peers,
                agent_url=self.links[name].url,
                collect_routes=False,
            )
        )

    def _start_worker(self, home: Path, name: str, stack: ExitStack) -> Service:
        return stack.enter_context(
            service(
                "analytics_worker",
                "worker_port",
                home=home / name / "worker",
                agent_url=self.sites[name].url,
                node=name,
                spark_master="local[2]",
                driver_memory="512m",
                node_full_w=10,
            )
        )

    def _is_whole(self) -> bool:
        fabric = self.sites[HUB].fabric()
        workers = [worker for site in fabric.sites for worker in site.workers]
        return len(workers) == len(WORKERS) and all(worker.speed for worker in workers)

    def declare(self, node: str, **facts: float) -> None:
        """Send facts of a node as points to its site; NaN withdraws a fact."""
        now = system_clock()
        self.sites[node].put(
            [Point(metric=name, entity=node, ts=now, value=value) for name, value in facts.items()]
        )

    def node_of(self, deployment: str) -> str | None:
        """Return the only worker that runs the fragment of a deployment with one insight."""
        group = self.enabler.show(deployment).insights[0].group
        found = []
        for name, client in self.workers.items():
            try:
                found += [(name, each) for each in client.list() if each.id == group]
            except MistbowError:
                return None
        match found:
            case [(name, status)] if status.state == "running" and status.queries == 1:
                return name
        return None

    def await_node(self, deployment: str, former: str | None = None) -> str:
        """Wait until another worker than ``former`` alone runs a deployment; return its name."""

        def other() -> str | None:
            node = self.node_of(deployment)
            return node if node != former else None

        return eventually(other, timeout=150, what=f"it runs elsewhere than on {former}") or ""


@contextmanager
def adaptive_fog(home: Path) -> Iterator[AdaptiveFog]:
    """Run the fog within the ``with``."""
    with ExitStack() as stack:
        yield AdaptiveFog(home, stack)
