import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from pydantic import ValidationError

from analytics_enabler.settings import EnablerSettings
from analytics_worker.settings import WorkerSettings
from ignite_server import ports as search
from ignite_server.ports import LOOPBACK, free_ports
from ignite_server.settings import IgniteSettings
from mistbow.errors import ConflictError
from mistbow.ports import check_ports, is_taken
from monitoring_agent.settings import MonitorSettings
from storage_agent.settings import AgentSettings
from suite.preparation import check_all_ports
from suite.settings import NodeSettings, RunSettings, StorageSettings

EPHEMERAL = range(32_768, 61_000)
"""The ports that Linux assigns to outgoing connections by default."""

SETTINGS = (
    AgentSettings,
    EnablerSettings,
    IgniteSettings,
    MonitorSettings,
    NodeSettings,
    RunSettings,
    StorageSettings,
    WorkerSettings,
)


def test_free_ports_are_outside_the_ephemeral_range():
    system = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(system.read_text().split()[0])
    found = free_ports(50)
    assert len(set(found)) == 50
    assert all(1024 < port < first for port in found)


def test_free_port_is_not_found_again_before_a_server_listens(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(search, "_PORTS", range(20_000, 20_060))
    found = [port for _ in range(5) for port in free_ports(4)]
    assert len(set(found)) == 20


def test_port_that_another_process_found_is_not_found(monkeypatch: pytest.MonkeyPatch):
    found, free = free_ports(2)
    for _ in range(2):
        search._reserved.pop().close()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as of_other_process:
        of_other_process.bind((LOOPBACK, found))
        monkeypatch.setattr(search, "_PORTS", (*[found] * 99, free))
        assert free_ports(1) == [free]


def test_ports_differ_also_where_none_can_be_reserved(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(search, "_PORTS", range(20_000, 20_060))
    monkeypatch.setattr(search, "LOOPBACK", "192.0.2.1")  # an address of no machine
    assert len(set(free_ports(20))) == 20


@pytest.mark.parametrize("settings", SETTINGS)
def test_default_ports_are_outside_the_ephemeral_range(settings):
    found = settings().model_dump()
    ports = [value for name, value in found.items() if name.endswith("_port")]
    urls = [found[name] for name in ("agent_url", "worker_url") if name in found]
    ports += [int(url.rpartition(":")[2]) for url in urls]
    assert ports
    assert not [port for port in ports if port in EPHEMERAL]


def test_discovery_port_is_that_of_the_node_in_the_list_of_nodes():
    def port(**settings):
        return IgniteSettings(**settings).ignite_discovery_port

    assert port() == 10900
    nodes = "10.0.0.1:47500,10.0.0.2:47501"
    assert port(ignite_nodes=nodes, ignite_address="10.0.0.2") == 47501
    assert port(ignite_nodes="a:1,a:2", ignite_address="a", ignite_discovery_port=2) == 2
    for wrong in ({"ignite_address": "10.0.0.3"}, {"ignite_discovery_port": 10900}):
        with pytest.raises(ValidationError, match="MISTBOW_IGNITE_NODES lacks this node"):
            port(**{"ignite_nodes": nodes, "ignite_address": "10.0.0.1", **wrong})
    with pytest.raises(ValidationError, match="HOST:PORT"):
        port(ignite_nodes="10.0.0.1")


def reserve(host, port=0):
    """Return a socket that reserves a port, so that no other process uses it.

    The port counts as free, and a further socket of this process can listen on it.
    """
    reserved = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind((host, port))
    return reserved


def reserve_at_both(first, second):
    """Return two sockets that reserve the same port at two addresses."""
    for _ in range(100):
        reserved = reserve(first)
        try:
            return reserved, reserve(second, reserved.getsockname()[1])
        except OSError:
            reserved.close()
    raise AssertionError(f"no port is free at both {first} and {second}")


@pytest.fixture(params=["127.0.0.1", "::1"])
def server(request):
    try:
        reserved = reserve(request.param)
    except OSError:
        pytest.skip("this machine has no IPv6")
    port = reserved.getsockname()[1]
    with reserved, reserve(request.param, port) as server:
        server.listen()
        yield request.param, port, server


def test_reserved_port_is_free_until_a_server_listens():
    with reserve(LOOPBACK) as reserved:
        port = reserved.getsockname()[1]
        assert not is_taken(port, LOOPBACK)
        with reserve(LOOPBACK, port) as server:
            server.listen()
            assert is_taken(port, LOOPBACK)
        assert not is_taken(port, LOOPBACK)
        found = set()
        for _ in range(2000):
            with socket.socket() as other:
                other.bind((LOOPBACK, 0))
                found.add(other.getsockname()[1])
        assert port not in found


def test_port_in_use_is_reported_with_its_setting_and_its_process(server):
    host, port, listening = server
    name = psutil.Process().name()
    expected = rf"port {port} \(MISTBOW_ENABLER_PORT\) by process {os.getpid()} \({name}\)$"
    with reserve(host) as reserved:
        ports = {"agent_port": reserved.getsockname()[1], "enabler_port": port}
        with pytest.raises(ConflictError, match=expected):
            check_ports(ports, host)
        listening.close()
        check_ports(ports, host)


@pytest.mark.parametrize("settings", [RunSettings, StorageSettings])
def test_port_of_ignite_is_checked_at_its_own_address(settings):
    unchecked = dict.fromkeys(settings().ports, 0)
    reserved, server = reserve_at_both(LOOPBACK, "127.0.0.2")
    with reserved, server:
        server.listen()
        port = server.getsockname()[1]
        elsewhere = settings.model_construct(**{**unchecked, "ignite_port": port})
        check_all_ports(elsewhere, LOOPBACK)
        there = elsewhere.model_copy(update={"ignite_address": "127.0.0.2"})
        with pytest.raises(ConflictError, match=rf"port {port} \(MISTBOW_IGNITE_PORT\)"):
            check_all_ports(there, LOOPBACK)


def test_port_of_an_outgoing_connection_is_reported_with_its_process(server):
    host, port, _ = server
    if ":" in host:
        pytest.skip("one family suffices")
    with socket.create_connection((host, port)) as client:
        own = client.getsockname()[1]
        with pytest.raises(ConflictError, match=f"by process {os.getpid()} "):
            check_ports({"agent_port": own}, host)


def test_port_zero_is_never_in_use(server):
    check_ports({"agent_port": 0}, server[0])
    assert not is_taken(0, LOOPBACK)


@pytest.mark.usefixtures("processes")
def test_service_on_a_port_in_use_ends_and_names_the_process(server, tmp_path):
    host, port, _ = server
    ended = subprocess.run(
        [sys.executable, "-m", "command_line.app", "monitor", "--monitor-port", str(port)],
        env={**os.environ, "MISTBOW_HOME": str(tmp_path), "MISTBOW_HOST": host},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    user = f"process {os.getpid()} "
    expected = f"mistbow: these ports are in use: port {port} (MISTBOW_MONITOR_PORT) by {user}"
    assert ended.stderr.startswith(expected)
