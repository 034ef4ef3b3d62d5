"""A site of two Ignite nodes with an agent, and another site that stores a replica."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ignite_server.ports import free_ports
from ignite_server.server import IgniteServer
from tests.support.conditions import eventually


class SupervisedAgent:
    """A process ``python -m storage_agent`` that is restarted when it exits, as by a supervisor."""

    def __init__(self, home: Path, **settings: object) -> None:
        [port] = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        given = {"home": home, "agent_port": port, "agent_url": self.url, **settings}
        self._environment = {f"MISTBOW_{name.upper()}": str(it) for name, it in given.items()}
        self.home = home
        self._log = home / "agent.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process, without waiting."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "storage_agent"],
                env={**os.environ, **self._environment},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def restart_if_exited(self) -> None:
        """Start the process again if it has exited."""
        if self._process is not None and self._process.poll() is not None:
            self.start()

    def add_peer(self, url: str) -> None:
        """Restart the process with another agent as a peer.

        Without a token, an agent ignores the heartbeats of agents that are not in its settings.
        """
        self.stop()
        self._environment["MISTBOW_PEERS"] = url
        self.start()
        self.ready()

    def stop(self) -> None:
        """End the process by SIGTERM, and wait for its end."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)

    def waiting_for(self) -> list[str]:
        """Restart the process if it has exited; return the conditions that the agent waits for.

        Raises ``AssertionError`` while the agent does not answer.
        """
        self.restart_if_exited()
        try:
            waiting: list[str] = httpx.get(f"{self.url}/readyz", timeout=10).json()["waiting_for"]
        except (httpx.TransportError, ValueError) as error:
            raise AssertionError(str(error)) from error
        return waiting

    def ready(self) -> None:
        """Wait until the agent is ready."""
        eventually(lambda: self.waiting_for() == [], timeout=60, what="the agent is ready")


@pytest.fixture
def nodes(processes: None, tmp_path: Path) -> Iterator[list[IgniteServer]]:
    ports = free_ports(2)
    site = tuple(f"127.0.0.1:{port}" for port in ports)
    servers = [
        IgniteServer(tmp_path / f"node{number}", nodes=site, discovery_port=port)
        for number, port in enumerate(ports)
    ]
    for server in servers:
        server.launch()
    for server in servers:
        server.wait()
    yield servers
    for server in servers:
        server.kill()


@pytest.fixture
def agent(nodes: list[IgniteServer], tmp_path: Path) -> Iterator[SupervisedAgent]:
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in nodes)
    agent = SupervisedAgent(tmp_path / "a", node="n", site="a", ignite_host=hosts)
    agent.start()
    agent.ready()
    yield agent
    agent.stop()
