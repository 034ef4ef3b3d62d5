"""A fog whose fragments a test moves: real agents, workers and Spark, and an enabler."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import msgspec
import pytest
from fastapi import FastAPI

from analytics.client.enabler import EnablerClient
from analytics.client.worker import WorkerClient
from analytics.operators.interface import GROUP as OPERATORS
from analytics.plan.status import FragmentStatus
from analytics_enabler.main import create_app
from analytics_enabler.scheduling.registry import GROUP as SCHEDULERS
from analytics_enabler.settings import EnablerSettings
from ignite_server.ports import free_ports
from ignite_server.server import IgniteServer
from mistbow.auth.audiences import OwnAddresses
from mistbow.auth.service_key import ServiceKey
from mistbow.auth.service_sessions import ServiceSessions
from mistbow.client.agent import AgentClient
from mistbow.errors import MistbowError
from mistbow.fabric import Worker
from mistbow.service import add_challenge
from tests.handovers import steered_scheduler
from tests.support.conditions import eventually
from tests.support.http_server import served
from tests.support.operators import EXAMPLE
from tests.support.packages import declare, make_importable
from tests.support.services import Service, service, storage_agent
from tests.support.threads import in_threads

_VERSION = """
from robust_operators import TrimmedMean


class Version(TrimmedMean):
    version = "{version}"
"""


class Packages:
    """A folder with the packages of a fog: the scheduler of these tests, and an operator."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._operators = {"two": "robust_operators:TrimmedMean"}
        for module in (Path(steered_scheduler.__file__), EXAMPLE / "robust_operators.py"):
            (folder / module.name).write_text(module.read_text())
        declare(folder, SCHEDULERS, {"steered": "steered_scheduler:Steered"})
        self._declared = next(folder.glob("*.dist-info")) / "entry_points.txt"
        self._schedulers = self._declared.read_text()
        self._declare()
        make_importable(folder, monkeypatch)

    def add_version(self) -> str:
        """Install the next version of the operator ``TRIMMED_MEAN``; return its description."""
        number = len(self._operators) + 2
        module, version = f"trimmed_mean_{number}", f"{number}.0"
        self._operators[module] = f"{module}:Version"
        self._declare()
        # Last, since the change of the folder announces the change of its packages.
        (self._folder / f"{module}.py").write_text(_VERSION.format(version=version))
        return f"TRIMMED_MEAN {version}"

    def _declare(self) -> None:
        lines = [f"{name} = {place}" for name, place in self._operators.items()]
        self._declared.write_text("\n".join([self._schedulers, f"[{OPERATORS}]", *lines, ""]))


class Signpost:
    """A node without fragments, whose announcement names the node of all tasks.

    The scheduler of these tests sees nothing but the fog, so a test steers it by a node.
    """

    def __init__(self) -> None:
        self._operators: tuple[str, ...] = ()

    def point_to(self, node: str) -> None:
        """Let the scheduler place each task on ``node`` that may run there."""
        self._operators = (f"{node} 1.0",)

    @contextmanager
    def running(self, agent_url: str) -> Iterator[None]:
        """Answer the enabler, and announce the node to an agent, within the ``with``."""
        with served(_empty_node()) as url:

            def announce(stopped: threading.Event) -> None:
                while True:
                    node = Worker(
                        name=steered_scheduler.STEER, url=url, cores=1, memory_mb=1000,
                        cores_free=1, memory_free_mb=1000, operators=self._operators,
                    )  # fmt: skip
                    with suppress(httpx.HTTPError):
                        httpx.put(
                            f"{agent_url}/workers/{node.name}", content=msgspec.json.encode(node)
                        )
                    if stopped.wait(0.5):
                        return

            with in_threads(announce):
                yield


def _empty_node() -> FastAPI:
    app = FastAPI()
    add_challenge(app, ServiceSessions(ServiceKey(""), OwnAddresses([])))

    @app.get("/fragments")
    def list_fragments() -> list[str]:
        return []

    @app.put("/domains/{domain}/order")
    def obey(domain: str) -> dict[str, list[str]]:
        return {"fragments": []}

    return app


class HandoverFog:
    """A running fog; ``workers``: name -> process, and ``sites``: name -> client of its agent."""

    def __init__(self, home: Path, sites: Mapping[str, tuple[str, ...]], stack: ExitStack) -> None:
        """Start the fog; ``sites``: site -> its workers. The first site has the enabler."""
        self._home = home
        self._stack = stack
        self.sites: dict[str, AgentClient] = {}
        self.workers: dict[str, Service] = {}
        self._clients: dict[str, WorkerClient] = {}
        ports = dict(zip(sites, free_ports(len(sites)), strict=True))
        for site, names in sites.items():
            self._start_site(site, names, ports)
        self.home_agent = next(iter(self.sites.values()))
        self.steer = Signpost()
        self.steer.point_to(next(iter(self.workers)))
        stack.enter_context(self.steer.running(self.home_agent.url))
        self._enabler = stack.enter_context(ExitStack())
        self.enabler = self._start_enabler()

    def _start_site(self, site: str, names: tuple[str, ...], ports: Mapping[str, int]) -> None:
        home = self._home / site
        home.mkdir(parents=True)
        ignite = self._stack.enter_context(IgniteServer(home, durability="log"))
        peers = ",".join(
            f"http://127.0.0.1:{port}" for other, port in ports.items() if other != site
        )
        agent = self._stack.enter_context(
            storage_agent(home, ignite.port, port=ports[site], node=site, site=site, peers=peers)
        )
        self.sites[site] = AgentClient(agent.url)
        self._stack.callback(self.sites[site].close)
        for name in names:
            worker = service(
                "analytics_worker", "worker_port", home=home / name, agent_url=agent.url, node=name,
                spark_master="local[2]", driver_memory="512m",
            )  # fmt: skip
            self.workers[name] = self._stack.enter_context(worker)
            self._clients[name] = WorkerClient(self.workers[name].url)

    def _start_enabler(self) -> EnablerClient:
        settings = EnablerSettings(
            home=self._home, agent_url=self.home_agent.url, scheduler="steered"
        )
        url = self._enabler.enter_context(served(create_app(settings)))
        return EnablerClient(url)

    def restart_enabler(self) -> None:
        """Stop the enabler, and start another one in its place."""
        self._enabler.close()
        self.enabler = self._start_enabler()

    def statuses(self) -> dict[str, dict[str, FragmentStatus]]:
        """Return the fragments of the workers that answer: worker -> fragment id -> status."""
        found = {}
        for name, client in self._clients.items():
            try:
                found[name] = {each.id: each for each in client.list()}
            except MistbowError:
                continue
        return found

    def steer_to(self, worker: str) -> None:
        """Let the scheduler place on ``worker`` each task that may run there."""
        self.steer.point_to(worker)

    def writer(self) -> tuple[str, FragmentStatus] | None:
        """Return the only worker that runs the fragment with the results, and its status.

        None while several workers run it, or the version that was accepted last does not run yet.
        """
        found = [
            (name, status)
            for name, fragments in self.statuses().items()
            for status in fragments.values()
            if "." not in status.id.removeprefix("all.")
        ]
        match found:
            case [(name, status)] if (
                status.state == "running"
                and status.active == status.fingerprint
                and status.queries == 1
            ):
                return name, status
        return None

    def await_writer(
        self, what: str, condition: Callable[[str, FragmentStatus], bool]
    ) -> tuple[str, FragmentStatus]:
        """Wait until one worker runs the fragment with the results, and a condition is true."""

        def found() -> tuple[str, FragmentStatus] | None:
            writer = self.writer()
            return writer if writer is not None and condition(*writer) else None

        return eventually(found, timeout=120, what=what)  # type: ignore[return-value]


@contextmanager
def handover_fog(home: Path, sites: Mapping[str, tuple[str, ...]]) -> Iterator[HandoverFog]:
    """Run a fog within the ``with``; ``sites``: site -> the names of its workers."""
    with ExitStack() as stack:
        yield HandoverFog(home, sites, stack)
