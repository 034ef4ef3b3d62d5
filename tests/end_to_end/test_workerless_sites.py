"""Six sites with one worker in all: results over all six equal the oracle's."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

from analytics.client.enabler import EnablerClient
from analytics.insight_models import DeploymentStatus
from analytics_enabler.main import create_app as create_enabler
from analytics_enabler.settings import EnablerSettings
from ignite_server.ports import free_ports
from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.streams.schemas import RAW
from tests.oracle.sql import POINTS, answers, opened
from tests.oracle.stored_points import compact_key
from tests.support.conditions import eventually
from tests.support.http_server import served
from tests.support.services import Service, service, storage_agent
from tests.support.traffic import Traffic

pytestmark = [pytest.mark.alone, pytest.mark.timeout(500)]

NAMES = ("a", "b", "c", "d", "e", "f")
COUNT = "number = COMPUTE COUNT(cpu, 6 s) BY site EVERY 2 s"

Values = dict[tuple[str, str, int], float]


@dataclass
class SixSites:
    """The sites ``a`` to ``f``; the site ``a`` has the enabler and the only worker."""

    enabler: EnablerClient
    agents: dict[str, AgentClient]
    services: dict[str, Service]
    points: dict[str, list[dict[str, object]]] = field(default_factory=dict)

    def send(self, seconds: float, but: str = "") -> None:
        """Send points to all sites except ``but``."""
        traffic = {
            site: Traffic(rate=20, late_every=13, seed=number).batches(seconds, pause=0.0)
            for number, site in enumerate(NAMES)
            if site != but
        }
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for site, batches in traffic.items():
                batch = next(batches, [])
                self.agents[site].put(batch)
                for point in batch:
                    attributes = json.dumps({"entityID": point.entity, "site": site})
                    self.points.setdefault(site, []).append(
                        {
                            "metric": point.metric,
                            "entity": point.entity,
                            "attributes": attributes,
                            "ts": point.ts,
                            "value": point.value,
                            "horizon": 0,
                        }
                    )
            time.sleep(0.2)

    def expected(self, text: str, since: int, until: int) -> Values:
        """Return the values of the oracle over the points of all sites."""
        rows = [point for points in self.points.values() for point in points]
        with opened(pa.Table.from_pylist(rows, POINTS)) as connection:
            found = answers(text, connection, since, until)
        return {
            (name, compact_key(json.loads(key)), tick): answer.value
            for (name, key, tick), answer in found.items()
            if isinstance(answer.value, float)
        }

    def found(self, deployment: str, until: int) -> Values:
        """Return the stored results of a deployment up to a time (ms)."""
        results = self.enabler.results(deployment, limit=100_000, end=until).results
        return {(r.insight, compact_key(r.key), r.ts): r.value or 0.0 for r in results}

    def wait_for_oracle(self, deployment: str, text: str, until: int) -> Values:
        """Wait until the results up to a time (ms) equal the oracle's, and return them."""
        since = max(one.since for one in self.enabler.show(deployment).insights)

        def equal() -> Values:
            right, results = self.expected(text, since, until), self.found(deployment, until)
            wrong = {
                key: (results.get(key), right.get(key))
                for key in results.keys() | right.keys()
                if results.get(key) != right.get(key)
            }
            assert not wrong, f"{len(wrong)} of {len(right)} differ: {sorted(wrong.items())[:8]}"
            return results

        return eventually(equal, timeout=150, what="the results equal the oracle's")

    def show(self, deployment: str, state: str) -> DeploymentStatus:
        """Wait until a deployment has a state, and return its status."""

        def shown() -> DeploymentStatus:
            found = self.enabler.show(deployment)
            assert found.lifecycle is not None
            assert found.lifecycle.state == state, (found.lifecycle, found.error)
            return found

        return eventually(shown, timeout=60)


@pytest.fixture(scope="module")
def fog(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SixSites]:
    home = tmp_path_factory.mktemp("fog")
    ports = dict(zip(NAMES, free_ports(len(NAMES)), strict=True))
    with ExitStack() as stack:
        ignites = {name: IgniteServer(home / f"ignite-{name}", durability="log") for name in NAMES}
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(stack.enter_context, ignites.values()))

        def agent(name: str) -> Service:
            # Without a token, sites must name each other.
            peers = [f"http://127.0.0.1:{port}" for peer, port in ports.items() if peer != name]
            settings = {"node": f"node-{name}", "site": name, "peers": ",".join(peers)}
            more = {"replication_every_ms": 500, "collect_routes": False}
            where = home / name, ignites[name].port
            running = storage_agent(*where, port=ports[name], **settings, **more)
            return stack.enter_context(running)

        with ThreadPoolExecutor(2) as pool:
            services = dict(zip(NAMES, pool.map(agent, NAMES), strict=True))
        agents = {name: AgentClient(each.url) for name, each in services.items()}
        for client in agents.values():
            stack.callback(client.close)
        eventually(
            lambda: sum(site.reachable for site in agents["a"].fabric().sites) == len(NAMES),
            timeout=120,
            what="all sites are members",
        )
        at_a = f"http://127.0.0.1:{ports['a']}"
        stack.enter_context(
            service("analytics_worker", "worker_port", agent_url=at_a, node="w1", home=home / "w1")
        )
        eventually(
            lambda: [len(site.workers) for site in agents["a"].fabric().sites] == [1, 0, 0, 0, 0, 0]
        )
        yield SixSites(_enabler(stack, at_a, home), agents, services)


def _enabler(stack: ExitStack, agent_url: str, home: Path) -> EnablerClient:
    app = create_enabler(EnablerSettings(home=home, agent_url=agent_url))
    url = stack.enter_context(served(app))
    eventually(lambda: httpx.get(f"{url}/readyz").is_success, what="the enabler is ready")
    client = EnablerClient(url)
    stack.callback(client.close)
    return client


def test_count_by_site_equals_the_oracle_over_all_sites(fog: SixSites) -> None:
    accepted = fog.enabler.submit(COUNT)
    messages = [each.message for each in accepted.warnings if "the site " in each.message]
    assert [message.partition(";")[0] for message in messages] == [
        f"the site {site} has no worker" for site in NAMES[1:]
    ]
    assert all("; the worker w1 at a reads its points (" in message for message in messages)
    fog.send(15)
    end = system_clock()
    results = fog.wait_for_oracle(accepted.deployment_id, COUNT, end)
    assert {key for _, key, _ in results} == {f'{{"site":"{site}"}}' for site in NAMES}
    assert sum(fog.agents[site].info(RAW).late for site in NAMES) > 3, "there are late points"
    shown = fog.show(accepted.deployment_id, "running")
    reads = {read.site: read for read in shown.insights[0].remote_reads}
    assert set(reads) == set(NAMES[1:])
    assert {(read.worker, read.worker_site) for read in reads.values()} == {("w1", "a")}
    fog.enabler.delete(accepted.deployment_id)
