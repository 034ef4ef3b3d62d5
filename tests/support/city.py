"""The city as an emulated fog of containers, for tests and benchmarks: real images and links."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from analytics.client.enabler import EnablerClient
from fog_emulation import model
from fog_emulation.backend import start_fog
from fog_emulation.docker_backend import DockerBackend
from fog_emulation.plan import plan
from fog_emulation.scenario import EffectOutcome, run_scenario
from fog_emulation.services import load_services
from fog_emulation.timetable import timetable
from mistbow.client.agent import AgentClient
from mistbow.errors import MistbowError
from tests.oracle.sql import POINTS

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
INSIGHTS = ROOT / "examples" / "city.insights"
TOKEN = ROOT / ".mistbow" / "compose" / "token"
EDGES = ("edge-1", "edge-2", "edge-3")
SITES = {
    "cloud": ("storage-cloud-1", "lan-cloud"),
    "region-1": ("region-1", "internet"),
    "region-2": ("region-2", "internet"),
    **{edge: (edge, "street") for edge in EDGES},
}
"""Site -> the node with its agent, and a network in which the host reaches the node."""


@dataclass(frozen=True)
class EmulatedCity:
    """The running fog of the city, whose nodes are reached from the host."""

    backend: DockerBackend
    token: str

    def url(self, node: str, network: str, port: int) -> str:
        """Return the URL of a port of a node in a network."""
        return f"http://{self.backend.address(node, network)}:{port}"

    def agent_url(self, site: str) -> str:
        """Return the URL of a site's agent."""
        return self.url(*SITES[site], 8300)

    def agent(self, site: str) -> AgentClient:
        """Return a client of a site's agent."""
        return AgentClient(self.agent_url(site), token=self.token)

    def enabler_url(self) -> str:
        """Return the URL of the enabler at its current address."""
        return self.url("enabler-1", "lan-cloud", 8000)

    def enabler(self) -> EnablerClient:
        """Return a client of the enabler at its current address."""
        return EnablerClient(self.enabler_url(), token=self.token)

    def serves(self) -> bool:
        """Return whether the enabler answers, and has read its deployments."""
        client = self.enabler()
        try:
            return client.list() is not None
        except MistbowError:
            return False
        finally:
            client.close()

    def run(self, scenario: str) -> tuple[EffectOutcome, ...]:
        """Run a scenario; return the outcomes of its actions, with their times."""
        fog = model.load(FILE)
        return run_scenario(self.backend, timetable(fog, plan(fog), scenario))

    def points(self) -> pa.Table:
        """Return the points of all sites as a table (``POINTS``) without late points."""
        tables = []
        for site in SITES:
            agent = self.agent(site)
            table = agent.read("raw").table
            frontier_before = pa.repeat(pa.scalar(0, pa.int64()), table.num_rows)
            columns = [*(table[name] for name in POINTS.names[:-1]), frontier_before]
            tables.append(pa.table(columns, names=POINTS.names).cast(POINTS))
            agent.close()
        return pa.concat_tables(tables)


@contextmanager
def running_city(name: str, rate: int = 200, vehicles: int | None = None) -> Iterator[EmulatedCity]:
    """Run the city within the ``with``; its token must exist already. Yields the city."""
    fog = plan(model.load(FILE))
    services = load_services(FILE)
    command = [
        f"--rate={rate}" if word.startswith("--rate=") else word
        for word in services["buses"].command or []
    ]
    if vehicles is not None:
        command.append(f"--vehicles={vehicles}")
    services["buses"] = replace(services["buses"], command=command)
    backend = DockerBackend(name, fog, services)
    start_fog(backend)
    try:
        yield EmulatedCity(backend, TOKEN.read_text().strip())
    finally:
        backend.down()
