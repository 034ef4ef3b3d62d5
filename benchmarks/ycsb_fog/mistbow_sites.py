"""Mistbow on the nodes of a fog: each node is a site with an agent and an Ignite of its own.

The sites form pairs, and each site has only its partner as a peer. In one fabric, the heartbeats
and subscriptions of many sites would use all cores of a small host.
"""

import asyncio
import subprocess
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import httpx

from benchmarks.storage.http_clients import read_body
from benchmarks.storage.ycsb import Mistbow
from benchmarks.ycsb_fog.plan import NETWORK, node_names
from benchmarks.ycsb_fog.target import Target
from fog_emulation.namespace_backend import NamespaceBackend
from ignite_server.cluster import make_ready
from ignite_server.config import IgniteConfig
from ignite_server.jars import ensure_jars
from ignite_server.settings import IgniteSettings
from mistbow.client.agent import AgentClient
from mistbow.java import find_java
from mistbow.runtime.environment import inherited_environment
from tests.support.conditions import eventually

_TOKEN = "of-the-benchmark"  # noqa: S105 - of this fog only
_PORT = 8300
_IGNITE_PORT = 10800
_HEAP_MB = 128
_RECORDS = "records/application"
_AT_ONCE = 4
"""The number of sites that start at once: more of them start no faster on a few cores."""

_START_S = 240.0
_REPLICAS_S = 120.0
_PAUSE_S = 0.1
_LOG_LINES = 15


class MistbowSites:
    """The running sites, to which sites are only added.

    The calling thread is in the network of the clients' node. ``home``: the folder of the logs.
    """

    def __init__(self, backend: NamespaceBackend, home: Path) -> None:
        self._backend = backend
        self._home = home
        self._jars = IgniteSettings().jars_folder
        ensure_jars(self._jars)
        self._sites: list[str] = []
        self._agents: dict[str, AgentClient] = {}
        self._urls: dict[str, str] = {}
        self._http = httpx.Client(headers={"Authorization": f"Bearer {_TOKEN}"})
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def grow(self, count: int, show: Callable[[str], None]) -> None:
        """Start sites until there are ``count``; wait until each of them reaches its partner."""
        added = node_names(count)[len(self._sites) :]
        for first in range(0, len(added), _AT_ONCE):
            self._start_sites(added[first : first + _AT_ONCE])
            show(f"{len(self._sites)} sites are ready")
        for site in self._sites:
            self._wait(f"agent-{site}", partial(self._reaches_partner, site))

    def target(self, *, replicas: bool) -> Target:
        """Return the sites as a target; each key is stored at one of them."""
        count = len(self._sites)
        return Target(
            store="Mistbow",
            nodes=count,
            replicas=replicas,
            addresses=[(self._backend.address(site, NETWORK), _PORT) for site in self._sites],
            servers=[Mistbow(self._url(site), _TOKEN) for site in self._sites],
            owner=lambda key: zlib.crc32(key.encode()) % count,
            read_reply=_read_length,
            wait_replicas=self._wait_replicas if replicas else lambda: None,
            pids=[process.pid for process in self._processes.values()],
        )

    def replicate(self) -> None:
        """Copy the records of each site to its partner, and wait until the replicas have them."""
        for site in self._sites:
            self._agents[site].operations.request_copy(_partner(site), _RECORDS)
        self._wait_replicas()

    def end_replication(self) -> None:
        """Withdraw all copies, and wait until the replicas are deleted."""
        for site in self._sites:
            operations = self._agents[site].operations
            for copy in operations.replication().copies:
                operations.withdraw_copy(copy.id, force=True)
        for site in self._sites:
            eventually(
                partial(self._has_no_replica, site), timeout=_REPLICAS_S, pause=_PAUSE_S, what=site
            )

    def close(self) -> None:
        """End all processes at once: their data is in memory only."""
        self._http.close()
        for agent in self._agents.values():
            agent.close()
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()

    def _start_sites(self, sites: Sequence[str]) -> None:
        configs = {site: self._ignite_config(site) for site in sites}
        for site, config in configs.items():
            self._start(f"ignite-{site}", site, config.argv(find_java(), self._jars), {})
        for site, config in configs.items():
            self._wait(f"ignite-{site}", partial(self._is_active, site, config))
        for site in sites:
            argv = [sys.executable, "-m", "storage_agent"]
            self._start(f"agent-{site}", site, argv, self._settings(site))
            self._agents[site] = AgentClient(self._url(site), _TOKEN)
        for site in sites:
            self._wait(f"agent-{site}", partial(self._is_ready, site))
        self._sites += sites

    def _wait_replicas(self) -> None:
        for site in self._sites:
            head = self._agents[site].info(_RECORDS).head
            eventually(
                partial(self._has_replica, _partner(site), site, head),
                timeout=_REPLICAS_S,
                pause=_PAUSE_S,
                what=f"the replica of {site} is complete",
            )

    def _has_replica(self, target: str, source: str, head: int) -> bool:
        replicas = self._agents[target].operations.replication().replicas
        return any(
            each.source == source and each.complete and each.position >= head for each in replicas
        )

    def _has_no_replica(self, site: str) -> bool:
        return not self._agents[site].operations.replication().replicas

    def _is_active(self, site: str, config: IgniteConfig) -> bool:
        with self._backend.inside(site):
            return make_ready(config, self._jars)

    def _is_ready(self, site: str) -> bool:
        return self._http.get(f"{self._url(site)}/readyz").is_success

    def _reaches_partner(self, site: str) -> bool:
        found = self._agents[site].fabric().sites
        return _partner(site) in {each.name for each in found if each.reachable}

    def _start(
        self, name: str, site: str, argv: Sequence[str], settings: Mapping[str, str]
    ) -> None:
        with self._log(name).open("wb") as log:
            self._processes[name] = self._backend.spawn(
                site,
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**inherited_environment(), **settings},
            )

    def _wait(self, name: str, is_ready: partial[bool]) -> None:
        def probe() -> bool:
            if self._processes[name].poll() is not None:
                lines = self._log(name).read_text(errors="replace").splitlines()[-_LOG_LINES:]
                raise RuntimeError("\n".join([f"{name} has ended", *lines]))
            return is_ready()

        eventually(probe, timeout=_START_S, pause=_PAUSE_S, what=f"{name} is ready")

    def _log(self, name: str) -> Path:
        return self._home / f"{name}.log"

    def _ignite_config(self, site: str) -> IgniteConfig:
        folder = self._home / site / "ignite"
        return IgniteConfig(
            folder,
            port=_IGNITE_PORT,
            discovery_port=10900,
            communication_port=10700,
            durability="memory",
            heap_mb=_HEAP_MB,
        )

    def _settings(self, site: str) -> dict[str, str]:
        return {
            "MISTBOW_HOME": str(self._home / site),
            "MISTBOW_NODE": site,
            "MISTBOW_SITE": site,
            "MISTBOW_HOST": "0.0.0.0",  # noqa: S104 - in a namespace of its own
            "MISTBOW_TOKEN": _TOKEN,
            "MISTBOW_PEERS": self._url(_partner(site)),
            "MISTBOW_AGENT_URL": self._url(site),
            "MISTBOW_AGENT_PORT": str(_PORT),
            "MISTBOW_IGNITE_PORT": str(_IGNITE_PORT),
            "MISTBOW_DURABILITY": "memory",
            "MISTBOW_REPLICATION_POLICY": "",
            "MISTBOW_COLLECT_ROUTES": "false",
            "MISTBOW_LINK_PROBE_S": "0",
            "MISTBOW_LOG_LEVEL": "warning",
        }

    def _url(self, site: str) -> str:
        if site not in self._urls:
            self._urls[site] = f"http://{self._backend.address(site, NETWORK)}:{_PORT}"
        return self._urls[site]


def _partner(site: str) -> str:
    """Return the other site of a pair.

    >>> _partner("n1"), _partner("n2"), _partner("n20")
    ('n2', 'n1', 'n19')
    """
    number = int(site.removeprefix("n"))
    return f"n{number + 1 if number % 2 else number - 1}"


async def _read_length(reader: asyncio.StreamReader) -> int:
    return len(await read_body(reader))
