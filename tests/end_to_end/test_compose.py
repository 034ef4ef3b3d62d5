"""Plain ``docker compose up`` and ``make identities``, and then ``make up``, as docs/operations.md
describes them.

The ports of the fog are scanned from the network namespaces of its own containers.
"""

import os
import re
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest

from analytics.client.enabler import EnablerClient
from deploy.compose import CORE, find_tool, folder_of
from fog_emulation.fog_trust import FogTrust
from fog_emulation.host import in_namespace
from grammar import ast, parse
from ignite_server.ports import free_ports
from tests.support import city
from tests.support.conditions import eventually
from tests.support.emulated_fogs import IMAGE, NEED_IMAGE, ROOT
from tests.support.port_scan import listening_ports, open_endpoints, udp_ports
from tests.support.printed_commands import run_printed_commands
from tests.support.secret_search import present_beside_files, present_in_container, secrets_in

docker = pytest.importorskip("docker")

pytestmark = NEED_IMAGE

START_S = 300
INSIGHTS = {
    each.name
    for each in parse(city.INSIGHTS.read_text()).statements
    if isinstance(each, ast.InsightStatement)
}
OWN_SECRETS = {
    "storage-cloud": {"agent-cloud.identity"},
    "worker-cloud": {"worker-cloud.identity", "monitor-worker-cloud.identity"},
    "enabler": {"enabler-cloud.identity", "monitor-enabler-cloud.identity"},
    "region": {"agent-region-1.identity"},
    "edge": {"agent-edge-1.identity", "worker-edge-1.identity"},
    "buses": {f"edge-{number}-sender.token" for number in (1, 2, 3)},
}
"""Service -> the secrets that its container has."""

IGNITE_PORTS = {10700, 10800, 10900}
PUBLISHING = "front"
"""The network of the published ports."""


@dataclass(frozen=True)
class Fog:
    """A running fog of compose: the environment of its project, and the token of a person."""

    environment: dict[str, str]
    token: str

    @property
    def project(self) -> str:
        return self.environment["COMPOSE_PROJECT_NAME"]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.environment['MISTBOW_ENABLER_PORT']}"


@dataclass(frozen=True)
class Container:
    """A container: its service, its network namespace, and its object in Docker's API.

    ``addresses``: network -> its address. ``gateways``: network -> the host's address.
    """

    service: str
    namespace: Path
    addresses: dict[str, str]
    gateways: dict[str, str]
    engine: Any


@dataclass(frozen=True)
class Scan:
    """The open ports of a container in a network, as another container in it finds them."""

    network: str
    scanner: Container
    target: Container
    ports: set[int]


def deploy(command: str, environment: dict[str, str]) -> None:
    argv = [sys.executable, "-m", "deploy", command]
    subprocess.run(argv, cwd=ROOT, env=environment, check=True)


@pytest.fixture(scope="module")
def fog(containers: None) -> Iterator[Fog]:
    """Yield a fog with a cloud, a region and an edge, whose workers have announced themselves."""
    ports = zip(
        ("ENABLER_PORT", "CLOUD_PORT", "REGION_PORTS", "EDGE_PORTS"), free_ports(4), strict=True
    )
    environment = {
        **os.environ,
        "COMPOSE_PROJECT_NAME": f"mistbow-test-{uuid.uuid4().hex[:8]}",
        # An image of other sources is not built anew.
        "MISTBOW_IMAGE": IMAGE,
        "MISTBOW_REGIONS": "1",
        "MISTBOW_EDGES": "1",
        **{f"MISTBOW_{name}": str(port) for name, port in ports},
    }
    try:
        subprocess.run([*find_tool(), "up", "--detach"], cwd=ROOT, env=environment, check=True)
        deploy("identities", environment)
        token = FogTrust(folder_of(environment["COMPOSE_PROJECT_NAME"])).token(CORE, "admin")
        started = Fog(environment, token)
        wait_for_workers(started)
        yield started
    finally:
        deploy("down", environment)


def wait_for_workers(fog: Fog) -> None:
    headers = {"Authorization": f"Bearer {fog.token}"}
    eventually(
        lambda: status(f"{fog.url}/readyz", headers=headers) == httpx.codes.OK,
        timeout=START_S,
        what="the enabler is ready",
        pause=0.5,
    )
    with closing(EnablerClient(fog.url, token=fog.token)) as enabler:
        workers = {"worker-cloud", "edge-1"}
        eventually(
            lambda: {node.name for node in enabler.fog().nodes} == workers,
            timeout=START_S,
            what="the workers have announced themselves",
            pause=0.5,
        )


def status(url: str, **arguments: object) -> int:
    """Return the status of the answer to a GET request; 0 if there is no answer."""
    try:
        return httpx.get(url, timeout=5, **arguments).status_code  # type: ignore[arg-type]
    except httpx.TransportError:
        return 0


@pytest.fixture(scope="module")
def members(fog: Fog) -> dict[str, Container]:
    """Return service -> its container, once all of them are healthy."""
    engine = docker.from_env()
    of_fog = {"label": f"com.docker.compose.project={fog.project}"}

    def healthy() -> bool:
        states = [each.attrs["State"] for each in engine.containers.list(filters=of_fog)]
        return all(state.get("Health", {"Status": "healthy"})["Status"] == "healthy"
                   for state in states)  # fmt: skip

    eventually(healthy, timeout=START_S, what="all containers are healthy", pause=0.5)
    found = {}
    for each in engine.containers.list(filters=of_fog):
        service = each.labels["com.docker.compose.service"]
        networks = each.attrs["NetworkSettings"]["Networks"]
        addresses, gateways = {}, {}
        for name, network in networks.items():
            short = name.removeprefix(f"{fog.project}_")
            addresses[short] = network["IPAddress"]
            gateways[short] = gateway(engine, name)
        namespace = Path(f"/proc/{each.attrs['State']['Pid']}/ns/net")
        found[service] = Container(service, namespace, addresses, gateways, each)
    return found


def gateway(engine: Any, network: str) -> str:
    """Return the address of the host in a network, also if the network is internal."""
    [config] = engine.networks.get(network).attrs["IPAM"]["Config"]
    return str(config.get("Gateway") or next(ip_network(config["Subnet"]).hosts()))


@pytest.fixture(scope="module")
def scans(members: dict[str, Container]) -> list[Scan]:
    """Scan each container in each of its networks, from another container in it.

    The scan tries the ports on which a socket in the container listens, and those that are open
    elsewhere. No other port can accept a connection.
    """
    found = []
    elsewhere = IGNITE_PORTS.union(*documented_ports().values())
    for target in members.values():
        with in_namespace(target.namespace):
            ports = listening_ports() | elsewhere
        for network in target.addresses.keys() - {PUBLISHING}:
            scanner = next(
                each
                for each in members.values()
                if each is not target and network in each.addresses
            )
            with in_namespace(scanner.namespace):
                opened = open_endpoints((target.addresses[network], port) for port in ports)
            found.append(Scan(network, scanner, target, {port for _, port in opened}))
    return found


def documented_ports() -> dict[str, set[int]]:
    """Return service -> its open ports, as docs/operations.md lists them."""
    text = (ROOT / "docs" / "operations.md").read_text()
    _, _, rest = text.partition("| service | open TCP ports |")
    rows = re.findall(r"^\| (`.+) \| (.+) \|$", rest.partition("\n\n")[0], re.MULTILINE)
    return {
        service: {int(port) for port in re.findall(r"\d+", ports)}
        for services, ports in rows
        for service in re.findall(r"`(.+?)`", services)
    }


@pytest.fixture(scope="module")
def shown(fog: Fog) -> str:
    """Return what ``make up`` prints about the fog that compose has started."""
    argv = [sys.executable, "-m", "deploy", "up"]
    done = subprocess.run(
        argv, cwd=ROOT, env=fog.environment, check=False, stdout=subprocess.PIPE, text=True
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_make_up_shows_results_of_a_fog_that_compose_and_identities_have_started(
    shown: str,
) -> None:
    results = re.findall(r"^ *\d+\.\d s  \d\d:\d\d:\d\d (\w+) ", shown, re.MULTILINE)
    assert {*results} == INSIGHTS
    # `make identities` has delivered all files before.
    assert ".identity" not in shown


def test_printed_commands_send_a_point_and_follow_its_insight(shown: str) -> None:
    run_printed_commands(shown, ROOT)


def test_each_container_has_only_the_documented_ports_open(scans: list[Scan]) -> None:
    documented = documented_ports()
    assert {scan.network for scan in scans} == {"internet", "lan-cloud", "street"}
    assert {scan.target.service for scan in scans} == documented.keys()
    for scan in scans:
        place = f"{scan.target.service} in {scan.network}"
        assert scan.ports == documented[scan.target.service], place


def test_no_container_has_a_udp_port_open(members: dict[str, Container]) -> None:
    for member in members.values():
        with in_namespace(member.namespace):
            assert udp_ports() == set(), member.service


def test_each_open_port_requires_a_token(scans: list[Scan]) -> None:
    wrong = {"Authorization": "Bearer wrong"}
    with httpx.Client(timeout=10) as client:
        for scan in scans:
            for port in scan.ports:
                url = f"http://{scan.target.addresses[scan.network]}:{port}"
                with in_namespace(scan.scanner.namespace):
                    assert client.get(f"{url}/healthz").status_code == httpx.codes.OK
                    for path in ("/metrics", "/readyz", "/docs"):
                        for headers in ({}, wrong):
                            answer = client.get(url + path, headers=headers)
                            assert answer.status_code == httpx.codes.UNAUTHORIZED, (url, path)


def test_ports_of_ignite_and_spark_are_open_to_their_own_container_only(
    members: dict[str, Container], scans: list[Scan]
) -> None:
    documented = documented_ports()
    for service in ("storage-cloud", "region", "edge", "worker-cloud"):
        with in_namespace(members[service].namespace):
            inside = listening_ports() - documented[service]
        of_ignite = set() if service == "worker-cloud" else IGNITE_PORTS
        assert inside >= of_ignite, service
        # Spark chooses its ports.
        assert bool(inside - IGNITE_PORTS) == (service in ("edge", "worker-cloud")), service
        for scan in scans:
            assert scan.target.service != service or not scan.ports & inside, scan.network


def test_containers_reach_no_address_of_another_network(members: dict[str, Container]) -> None:
    documented = documented_ports()
    for scanner in members.values():
        foreign = [
            (address, port)
            for target in members.values()
            if target is not scanner
            for network, address in target.addresses.items()
            if network == PUBLISHING or network not in scanner.addresses
            for port in documented[target.service] | IGNITE_PORTS
        ]
        with in_namespace(scanner.namespace):
            assert open_endpoints(foreign) == set(), scanner.service


def firewall_rules(fog: Fog) -> str:
    """Return the commands that docs/operations.md recommends, for this fog."""
    text = (ROOT / "docs" / "operations.md").read_text().partition("### Firewall of the host")[2]
    block = re.search(r"```sh\n(.*?)```", text, re.DOTALL)
    assert block is not None
    return block[1].replace("mistbow_", f"{fog.project}_")


def reached_hosts(members: dict[str, Container], port: int) -> set[tuple[str, str]]:
    """Return (service, network) for each container that reaches a port of the host."""
    found = set()
    for each in members.values():
        with in_namespace(each.namespace):
            opened = open_endpoints((host, port) for host in each.gateways.values())
        at = {address for address, _ in opened}
        found |= {(each.service, name) for name, host in each.gateways.items() if host in at}
    return found


def test_containers_reach_the_host_until_it_has_the_documented_rules(
    fog: Fog, members: dict[str, Container]
) -> None:
    rules = firewall_rules(fog)
    everywhere = {(each.service, name) for each in members.values() for name in each.gateways}
    with socket.create_server(("0.0.0.0", 0)) as of_host:  # noqa: S104 - as the host's services
        port = of_host.getsockname()[1]
        assert reached_hosts(members, port) == everywhere
        try:
            subprocess.run(["sh", "-ec", rules], check=True)
            assert reached_hosts(members, port) == set()
            assert status(f"{fog.url}/healthz") == httpx.codes.OK
        finally:
            subprocess.run(["sh", "-c", rules.replace(" -I ", " -D ")], check=True)


def test_containers_reach_no_port_of_the_fog_at_the_host(
    fog: Fog, members: dict[str, Container]
) -> None:
    published = {
        int(port)
        for name, port in fog.environment.items()
        if name.startswith("MISTBOW_") and name.endswith(("_PORT", "_PORTS"))
    }
    ports = published | IGNITE_PORTS.union(*documented_ports().values())
    for scanner in members.values():
        endpoints = [(host, port) for host in scanner.gateways.values() for port in ports]
        with in_namespace(scanner.namespace):
            assert open_endpoints(endpoints) == set(), scanner.service


def test_secrets_are_in_their_own_containers_only(fog: Fog, members: dict[str, Container]) -> None:
    secrets = secrets_in(folder_of(fog.project))
    assert {own for each in OWN_SECRETS.values() for own in each} < secrets.keys()
    for name, member in members.items():
        assert present_beside_files(secrets, member.engine) == set(), name
        assert present_in_container(secrets, member.engine) == OWN_SECRETS[name], name
