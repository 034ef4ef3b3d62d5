"""Plain ``docker compose up`` and ``make identities``, and then ``make up``, as docs/containers.md
describes them.

The ports of the fog are scanned from the network namespaces of its own containers.
"""

import re
import socket
import subprocess
from collections.abc import Iterator

import httpx
import pytest

from deploy.compose import folder_of
from fog_emulation.host import in_namespace
from grammar import ast, parse
from tests.support import city
from tests.support.composed_fog import (
    IGNITE_PORTS,
    OWN_SECRETS,
    PUBLISHING,
    Container,
    Fog,
    Scan,
    check_documented_ports,
    check_no_port_at_the_host,
    check_no_udp,
    documented_ports,
    make_up,
    running_fog,
    status,
)
from tests.support.emulated_fogs import NEED_IMAGE, ROOT
from tests.support.port_scan import listening_ports, open_endpoints
from tests.support.printed_commands import run_commands_of_the_operator, run_printed_commands
from tests.support.secret_search import present_beside_files, present_in_container, secrets_in

pytestmark = NEED_IMAGE

INSIGHTS = {
    each.name
    for each in parse(city.INSIGHTS.read_text()).statements
    if isinstance(each, ast.InsightStatement)
}


@pytest.fixture(scope="module")
def fog(containers: None) -> Iterator[Fog]:
    with running_fog() as started:
        yield started


@pytest.fixture(scope="module")
def shown(fog: Fog) -> str:
    """Return what ``make up`` prints about the fog that compose has started."""
    return make_up(fog)


def test_make_up_shows_results_of_a_fog_that_compose_and_identities_have_started(
    shown: str,
) -> None:
    results = re.findall(r"^ *\d+\.\d s  \d\d:\d\d:\d\d (\w+) ", shown, re.MULTILINE)
    assert {*results} == INSIGHTS
    # `make identities` has delivered all files before.
    assert ".identity" not in shown


def test_printed_commands_send_a_point_and_follow_its_insight(shown: str) -> None:
    run_printed_commands(shown, ROOT)


def test_printed_commands_of_the_operator_show_a_healthy_fog(shown: str) -> None:
    run_commands_of_the_operator(shown, ROOT)


def test_each_container_has_only_the_documented_ports_open(scans: list[Scan]) -> None:
    check_documented_ports(scans)


def test_no_container_has_a_udp_port_open(members: dict[str, Container]) -> None:
    check_no_udp(members)


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
    """Return the commands that docs/containers.md recommends, for this fog."""
    text = (ROOT / "docs" / "containers.md").read_text().partition("## Firewall of the host")[2]
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
    check_no_port_at_the_host(fog, members)


def test_secrets_are_in_their_own_containers_only(fog: Fog, members: dict[str, Container]) -> None:
    secrets = secrets_in(folder_of(fog.project))
    assert {own for each in OWN_SECRETS.values() for own in each} < secrets.keys()
    for name, member in members.items():
        assert present_beside_files(secrets, member.engine) == set(), name
        assert present_in_container(secrets, member.engine) == OWN_SECRETS[name], name
