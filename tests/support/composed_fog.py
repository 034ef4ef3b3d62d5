"""The fog of ``docker-compose.yml``, started by plain compose, and scans of its ports.

The ports are scanned from the network namespaces of the fog's own containers.
"""

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import docker  # type: ignore[import-untyped]
import httpx

from analytics.client.enabler import EnablerClient
from deploy.compose import CORE, find_tool, folder_of
from deploy.image import NAME as IMAGE
from deploy.image import ROOT
from fog_emulation.fog_trust import FogTrust
from fog_emulation.host import in_namespace
from ignite_server.ports import free_ports
from mistbow.tls import client_context
from tests.support.conditions import eventually
from tests.support.port_scan import listening_ports, open_endpoints, udp_ports

START_S = 300
OWN_SECRETS = {
    "storage-cloud": {"agent-cloud.identity"},
    "worker-cloud": {"worker-cloud.identity", "monitor-worker-cloud.identity"},
    "enabler": {"enabler-cloud.identity", "monitor-enabler-cloud.identity"},
    "region": {"agent-region-1.identity"},
    "edge": {"agent-edge-1.identity", "worker-edge-1.identity"},
    "buses": {f"edge-{number}-sender.token" for number in (1, 2, 3)},
}
"""Service -> the secrets that its container has, without mutual TLS."""

IGNITE_PORTS = {10700, 10800, 10900}
PUBLISHING = "front"
"""The network of the published ports."""

_TLS_FILES = ("--file", "docker-compose.yml", "--file", "docker-compose.tls.yml")


@dataclass(frozen=True)
class Fog:
    """A running fog of compose: the environment of its project, and the token of a person.

    ``authorities``: the file with the authorities that sign its certificates; None: it has no TLS.
    """

    environment: dict[str, str]
    token: str
    authorities: Path | None = None

    @property
    def project(self) -> str:
        return self.environment["COMPOSE_PROJECT_NAME"]

    @property
    def url(self) -> str:
        scheme = "http" if self.authorities is None else "https"
        return f"{scheme}://127.0.0.1:{self.environment['MISTBOW_ENABLER_PORT']}"

    @property
    def published_ports(self) -> set[int]:
        """The ports on loopback of the host."""
        return {
            int(port)
            for name, port in self.environment.items()
            if name.startswith("MISTBOW_") and name.endswith(("_PORT", "_PORTS"))
        }


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


def deploy(command: str, environment: Mapping[str, str]) -> None:
    """Run a command of ``python -m deploy``."""
    argv = [sys.executable, "-m", "deploy", command]
    subprocess.run(argv, cwd=ROOT, env=environment, check=True)


@contextmanager
def running_fog(*, tls: bool = False) -> Iterator[Fog]:
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
    files = _TLS_FILES if tls else ()
    folder = folder_of(environment["COMPOSE_PROJECT_NAME"])
    try:
        argv = [*find_tool(), *files, "up", "--detach"]
        subprocess.run(argv, cwd=ROOT, env=environment, check=True)
        deploy("identities", environment)
        token = FogTrust(folder).token(CORE, "admin")
        started = Fog(environment, token, folder / "ca" / "bundle.pem" if tls else None)
        _wait_for_workers(started)
        yield started
    finally:
        deploy("down", environment)


def make_up(fog: Fog) -> str:
    """Run ``make up`` on a fog that compose has started; return the output."""
    argv = [sys.executable, "-m", "deploy", "up", *(["--tls"] if fog.authorities else [])]
    done = subprocess.run(
        argv, cwd=ROOT, env=fog.environment, check=False, stdout=subprocess.PIPE, text=True
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def _wait_for_workers(fog: Fog) -> None:
    headers = {"Authorization": f"Bearer {fog.token}"}
    verify = fog.authorities is None or client_context(fog.authorities)
    eventually(
        lambda: status(f"{fog.url}/readyz", headers=headers, verify=verify) == httpx.codes.OK,
        timeout=START_S,
        what="the enabler is ready",
        pause=0.5,
    )
    with closing(EnablerClient(fog.url, token=fog.token, ca=fog.authorities)) as enabler:
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


def healthy_members(fog: Fog) -> dict[str, Container]:
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
            gateways[short] = _gateway(engine, name)
        namespace = Path(f"/proc/{each.attrs['State']['Pid']}/ns/net")
        found[service] = Container(service, namespace, addresses, gateways, each)
    return found


def _gateway(engine: Any, network: str) -> str:
    """Return the address of the host in a network, also if the network is internal."""
    [config] = engine.networks.get(network).attrs["IPAM"]["Config"]
    return str(config.get("Gateway") or next(ip_network(config["Subnet"]).hosts()))


def scan_all(members: Mapping[str, Container]) -> list[Scan]:
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
    """Return service -> its open ports, as docs/containers.md lists them."""
    text = (ROOT / "docs" / "containers.md").read_text()
    _, _, rest = text.partition("| service | open TCP ports |")
    rows = re.findall(r"^\| (`.+) \| (.+) \|$", rest.partition("\n\n")[0], re.MULTILINE)
    return {
        service: {int(port) for port in re.findall(r"\d+", ports)}
        for services, ports in rows
        for service in re.findall(r"`(.+?)`", services)
    }


def check_documented_ports(scans: list[Scan]) -> None:
    """Check that each container has the documented ports open, and no others."""
    documented = documented_ports()
    assert {scan.network for scan in scans} == {"internet", "lan-cloud", "street"}
    assert {scan.target.service for scan in scans} == documented.keys()
    for scan in scans:
        place = f"{scan.target.service} in {scan.network}"
        assert scan.ports == documented[scan.target.service], place


def check_no_udp(members: Mapping[str, Container]) -> None:
    """Check that no container has a UDP port open."""
    for member in members.values():
        with in_namespace(member.namespace):
            assert udp_ports() == set(), member.service


def check_no_port_at_the_host(fog: Fog, members: Mapping[str, Container]) -> None:
    """Check that no container reaches a port of the fog at an address of the host."""
    ports = fog.published_ports | IGNITE_PORTS.union(*documented_ports().values())
    for scanner in members.values():
        endpoints = [(host, port) for host in scanner.gateways.values() for port in ports]
        with in_namespace(scanner.namespace):
            assert open_endpoints(endpoints) == set(), scanner.service
