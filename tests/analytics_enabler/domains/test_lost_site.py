"""Enablers of two domains at two sites, with real workers, while one whole site is lost."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from analytics.client.enabler import EnablerClient
from analytics.client.worker import WorkerClient
from analytics_enabler.domains.role import GRACE_S, TURN_S
from ignite_server.ports import free_ports
from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.errors import MistbowError
from tests.oracle.sql import POINTS
from tests.oracle.stored_points import Identity, compact_key, expected_values
from tests.support.conditions import eventually
from tests.support.services import Service

MEAN = "mean = COMPUTE AVG(cpu, 4 s) BY entityID EVERY 1 s"
PEAK = "peak = COMPUTE MAX(cpu, 4 s) BY entityID WHEN site == 'b' EVERY 1 s"

ENDS = ("fragment_stopped", "fragment_moved")
"""The kinds of decisions that end a fragment on a worker."""


@dataclass
class Machine:
    """A site whose services are processes."""

    name: str
    ignite: IgniteServer
    services: dict[str, Service]

    def start(self) -> None:
        """Start all services except Ignite."""
        for service in self.services.values():
            service.start(ready=False)

    def kill(self) -> None:
        """Kill all processes of the site at once."""
        for service in self.services.values():
            service.kill()
        self.ignite.kill()

    def stop(self) -> None:
        """End all services."""
        for service in reversed(self.services.values()):
            service.stop()


@dataclass
class Sender:
    """Sends points to both sites, and records those that were stored."""

    agents: dict[str, AgentClient]
    rows: list[dict[str, object]] = field(default_factory=list)
    _stopped: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._send, args=(site,)) for site in self.agents]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            for thread in threads:
                thread.join()

    def _send(self, site: str) -> None:
        value = 0.0
        while not self._stopped.wait(0.2):
            ts = time.time_ns() // 1_000_000
            points = []
            for number in range(5):
                value = (value * 7 + 3 + number) % 101
                points.append(Point(metric="cpu", entity=f"{site}{number}", ts=ts, value=value))
            key = f"{site}-{ts}"
            while not self._stopped.is_set():
                try:
                    self.agents[site].put(points, idempotency_key=key)
                except MistbowError:
                    self._stopped.wait(0.2)
                    continue
                self.rows += [self._row(site, point) for point in points]
                break

    @staticmethod
    def _row(site: str, point: Point) -> dict[str, object]:
        return {
            "metric": point.metric,
            "entity": point.entity,
            "attributes": json.dumps({"entityID": point.entity, "site": site}),
            "ts": point.ts,
            "value": point.value,
            "horizon": 0,
        }


@pytest.fixture
def machines(processes: None, tmp_path: Path) -> Iterator[dict[str, Machine]]:
    ports = dict(zip("ab", free_ports(2), strict=True))
    with ExitStack() as stack:
        found = {}
        for name, other in (("a", "b"), ("b", "a")):
            home = tmp_path / name
            ignite = stack.enter_context(IgniteServer(home, durability="log"))
            found[name] = Machine(name, ignite, _services(name, home, ignite.port, ports, other))
        for machine in found.values():
            stack.callback(machine.stop)
            machine.start()
        for machine in found.values():
            for service in machine.services.values():
                service.wait()
        yield found


def _services(
    name: str, home: Path, ignite_port: int, ports: dict[str, int], other: str
) -> dict[str, Service]:
    agent = f"http://127.0.0.1:{ports[name]}"
    own_ports = dict(zip(("worker", "all", "north"), free_ports(3), strict=True))
    site = {"home": home, "log_level": "warning", "agent_url": agent}

    def enabler(domain: str, sites: str) -> Service:
        port = own_ports[domain]
        return Service(
            "analytics_enabler",
            port,
            {
                **site,
                "home": home / domain,
                "enabler_port": port,
                "enabler_url": f"http://127.0.0.1:{port}",
                "domain": domain,
                "domain_sites": sites,
                "patience_ms": 3000,
            },
        )

    services = {
        "agent": Service(
            "storage_agent",
            ports[name],
            {
                **site,
                "agent_port": ports[name],
                "ignite_port": ignite_port,
                "node": f"node-{name}",
                "site": name,
                "peers": f"http://127.0.0.1:{ports[other]}",
                "durability": "log",
            },
        ),
        "worker": Service(
            "analytics_worker",
            own_ports["worker"],
            {
                **site,
                "worker_port": own_ports["worker"],
                "worker_url": f"http://127.0.0.1:{own_ports['worker']}",
                "node": f"worker-{name}",
                "driver_memory": "512m",
            },
        ),
        "all": enabler("all", ""),
    }
    if name == "b":
        services["north"] = enabler("north", "b")
    return services


def active_site(agent: AgentClient) -> str | None:
    """Return the site of the active enabler of all sites, as an agent sees it."""
    sites = [
        site.name
        for site in agent.fabric().sites
        for each in site.enablers
        if site.reachable and each.domain == "all" and each.is_active
    ]
    return sites[0] if len(sites) == 1 else None


def values_of(enabler: EnablerClient, deployment: str, until: int | None) -> dict[Identity, float]:
    """Return the results of a deployment up to ``until`` (ms); None: all."""
    answer = enabler.results(deployment, limit=10_000, end=until)
    return {
        (each.insight, compact_key(each.key), each.ts): each.value
        for each in answer.results
        if each.value is not None
    }


def ids(enabler: EnablerClient) -> set[str]:
    """Return the ids of all deployments that an enabler lists; empty while it cannot answer."""
    try:
        return {each.deployment_id for each in enabler.list()}
    except MistbowError:
        return set()


def submitted(enabler: EnablerClient, text: str, domain: str) -> str:
    """Submit insights once the enabler has seen the domain; return the id of the deployment."""

    def accepted() -> str | None:
        report = enabler.submit(text)
        if enabler.show(report.deployment_id).domain == domain:
            return report.deployment_id
        enabler.delete(report.deployment_id)
        return None

    return eventually(accepted, timeout=30, what=f"the domain {domain} has the deployment")


def run_for(seconds: float, check: Callable[[], None]) -> None:
    """Call ``check`` every half second for some seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        check()
        time.sleep(0.5)


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(
            15,
            marks=[pytest.mark.alone, pytest.mark.soak, pytest.mark.timeout(400)],
            id="short",
        ),
        pytest.param(600, marks=[pytest.mark.soak, pytest.mark.timeout(1500)], id="long"),
    ],
)
def test_lost_site_costs_no_result(machines: dict[str, Machine], seconds: int) -> None:
    with ExitStack() as stack:

        def client(kind, site: str, service: str):  # type: ignore[no-untyped-def]
            made = kind(machines[site].services[service].url)
            stack.callback(made.close)
            return made

        agents = {site: client(AgentClient, site, "agent") for site in "ab"}
        workers = [client(WorkerClient, site, "worker") for site in "ab"]
        at_a, at_b = (client(EnablerClient, site, "all") for site in "ab")
        north = client(EnablerClient, "b", "north")
        eventually(
            lambda: active_site(agents["b"]) == "a", timeout=30, what="the first enabler rules"
        )
        sender = Sender(agents)
        with sender.running():
            mean, peak = submitted(at_a, MEAN, "all"), submitted(at_b, PEAK, "north")
            assert (at_b.show(mean).domain, at_a.show(peak).domain) == ("all", "north")
            eventually(
                lambda: {at_a.show(each).status for each in (mean, peak)} == {"running"},
                timeout=90,
                what="both run",
            )
            began = time.time_ns() // 1_000_000
            batches: dict[str, int] = {}

            def nothing_stops() -> None:
                now = {each.id: each.batches for worker in workers for each in worker.list()}
                assert all(now.get(name, -1) >= count for name, count in batches.items())
                batches.update(now)

            run_for(seconds, nothing_stops)
            decided = [*at_a.decisions(since=began), *north.decisions(since=began)]
            assert [each for each in decided if each.kind in ENDS] == []

            def region_batches() -> dict[str, int]:
                """Return fragment -> micro-batches, of the fragments that only b's region has."""
                fragments = [each for each in workers[1].list() if each.domain == "north"]
                return {each.id: each.batches for each in fragments}

            alone = region_batches()
            assert alone
            killed, at = time.monotonic(), time.time_ns() // 1_000_000
            machines["a"].kill()
            eventually(lambda: active_site(agents["b"]) == "b", timeout=30, what="it takes over")
            taken_over = time.monotonic() - killed
            eventually(
                lambda: any(tick > at + 1000 for _, _, tick in values_of(at_b, mean, None)),
                timeout=60,
                what="results go on",
            )
            print(
                f"taken over after {taken_over:.1f} s, next result after "
                f"{time.monotonic() - killed:.1f} s"
            )
            assert taken_over <= 10
            machines["a"].ignite.restart()
            machines["a"].start()
            eventually(
                lambda: {mean, peak} <= ids(at_a),
                timeout=60,
                what="the former enabler is back",
            )

            def is_fenced() -> None:
                assert active_site(agents["b"]) == "b"
                assert active_site(agents["a"]) != "a"
                now = region_batches()
                assert now.keys() == alone.keys()
                assert all(now[name] >= count for name, count in alone.items())
                alone.update(now)

            run_for(max(min(seconds, 30), GRACE_S + TURN_S + 2), is_fenced)
        until = time.time_ns() // 1_000_000 - 3000
        points = pa.Table.from_pylist(sender.rows, POINTS)
        for deployment, text in ((mean, MEAN), (peak, PEAK)):
            since = at_b.show(deployment).insights[0].since
            expected = expected_values(text, points, since, until)

            def equal(of: str = deployment, wanted: dict[Identity, float] = expected) -> bool:
                found = values_of(at_b, of, until)
                assert found.keys() == wanted.keys()
                assert found == pytest.approx(wanted, rel=1e-9)
                return True

            eventually(equal, timeout=180, what=f"the results of {text} equal the oracle's")
