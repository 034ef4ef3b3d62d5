"""Fogs of network namespaces, with real packets and the kernel of the host."""

import socket
import subprocess

import psutil
import pytest

from fog_emulation.backend import start_fog
from fog_emulation.host import namespaces
from fog_emulation.measure import lost_share, measure, pairs, table
from fog_emulation.namespace_backend import NamespaceBackend
from fog_emulation.timetable import LimitNode, ScenarioStep
from fog_emulation.topology import WAYS, Direction, FogPlan, Shape
from mistbow.errors import InvalidRequestError, NotFoundError, UnavailableError
from tests.fog_emulation.conftest import RunFog
from tests.fog_emulation.namespaces import (
    DIRECTED_LINK,
    SMALL_LOSS_PACKETS,
    assert_within_a_tenth,
    fog_of,
    needs_namespaces,
    new_name,
)
from tests.support.conditions import eventually

pytestmark = needs_namespaces

CLEAR = fog_of({})


def lost(backend: NamespaceBackend, source: str, target: str, probes: int = 50) -> float:
    return measure(backend, CLEAR.directions, "net", source, target, probes).found.loss


def test_measured_shape_equals_setting(run_fog: RunFog) -> None:
    fog = fog_of(
        {"bandwidth": "8Mbps", "latency": {"delay": "40ms", "deviation": "4ms"}, "drop": "20%"}
    )
    with run_fog(fog) as backend:
        rows = [measure(backend, fog.directions, *pair, 300) for pair in pairs(fog)]
        losses = [lost_share(backend, fog.directions, *pair, 10_000) for pair in pairs(fog)]
    assert [(row.source, row.target) for row in rows] == [("a-1", "b-1"), ("b-1", "a-1")]
    for row in rows:
        assert (row.expected.rate_bps, row.expected.delay_ms) == (8_000_000, 40)
        assert_within_a_tenth(row)
        assert row.found.deviation_ms > 1
    # A tenth is five standard errors.
    assert losses == pytest.approx([0.2, 0.2], rel=0.1)
    assert "a-1 > b-1 (net)" in table(rows)


def test_single_link_has_its_own_bandwidth_and_latency_in_each_direction(run_fog: RunFog) -> None:
    fog = fog_of({"bandwidth": "16Mbps", "latency": {"delay": "10ms"}}, [DIRECTED_LINK])
    ways = (("a-1", "b-1"), ("b-1", "a-1"), ("b-1", "b-2"))
    with run_fog(fog) as backend:
        rows = [measure(backend, fog.directions, "net", *way, 300) for way in ways]
    # The other end of the link has half of the network's latency.
    expected = [(8_000_000, 35), (12_000_000, 11), (16_000_000, 10)]
    assert [(row.expected.rate_bps, row.expected.delay_ms) for row in rows] == expected
    for row in rows:
        assert_within_a_tenth(row)


def test_loss_below_one_percent_is_within_a_tenth_of_a_point(run_fog: RunFog) -> None:
    fog = fog_of({"latency": {"delay": "10ms"}}, [DIRECTED_LINK])
    with run_fog(fog) as backend:
        loss = lost_share(backend, fog.directions, "net", "a-1", "b-1", SMALL_LOSS_PACKETS)
        # Neither the other direction nor the delay lines lose packets.
        other = lost_share(backend, fog.directions, "net", "b-1", "a-1", 10_000)
    assert loss == pytest.approx(0.002, abs=0.001)
    assert other == 0


def test_link_keeps_its_latency_when_nodes_restart_and_their_network_changes(
    run_fog: RunFog,
) -> None:
    link = {"from_node": "b", "to_node": "a", "properties": {"latency": {"delay": "60ms"}}}
    fog = fog_of({"latency": {"delay": "20ms"}}, [link])

    def delay_ms(source: str, target: str) -> float:
        return measure(backend, fog.directions, "net", source, target, 100).found.delay_ms

    with run_fog(fog) as backend:
        before = backend.address("a-1", "net")
        for node in fog.nodes[:2]:
            backend.stop(node.name)
        eventually(lambda: len(_ports(backend)) == 1)
        # Each of the two nodes gets the other's former address.
        for node in (fog.nodes[1], fog.nodes[0]):
            backend.start(node, fog.directions_of(node.name))
        assert backend.address("b-1", "net") == before
        assert delay_ms("a-1", "b-2") == pytest.approx(40, rel=0.1)
        assert delay_ms("b-1", "b-2") == pytest.approx(20, rel=0.1)
        for way in WAYS:
            backend.connect(Direction("net", "b-1", way, Shape(delay_ms=30)))
        assert delay_ms("a-1", "b-1") == pytest.approx(40, rel=0.1)
        assert delay_ms("b-1", "b-2") == pytest.approx(40, rel=0.1)


def test_connect_cuts_and_restores_direction(run_fog: RunFog) -> None:
    with run_fog(CLEAR) as backend:
        assert lost(backend, "a-1", "b-1") == 0
        for way in WAYS:
            backend.connect(Direction("net", "a-1", way, Shape(loss=1.0)))
        assert lost(backend, "a-1", "b-1") == 1
        assert lost(backend, "b-1", "a-1") == 1
        assert lost(backend, "b-1", "b-2") == 0
        for way in WAYS:
            backend.connect(Direction("net", "a-1", way, Shape()))
        assert lost(backend, "a-1", "b-1") == 0


def test_link_of_labels_has_its_own_loss(run_fog: RunFog) -> None:
    link = {"from_node": "a", "to_node": "b", "properties": {"drop": "100%"}}
    with run_fog(fog_of({}, [link])) as backend:
        assert lost(backend, "a-1", "b-1") == 1
        assert lost(backend, "b-1", "b-2") == 0
        backend.stop("b-2")
        backend.start(CLEAR.nodes[2], CLEAR.directions_of("b-2"))
        assert lost(backend, "a-1", "b-2") == 1


@pytest.mark.usefixtures("processes")
def test_start_fog_reports_refusals_and_creates_nothing() -> None:
    backend = NamespaceBackend(new_name(), fog_of({}))
    with pytest.raises(InvalidRequestError) as refused:
        start_fog(backend, [ScenarioStep(7, (LimitNode("a-1", 1.0, 2**30),))])
    text = "\n".join(refused.value.details)
    assert "a-1: 0.833 cores, 536870912 bytes: network namespaces do not limit" in text
    assert "after 7 s: new limits for a-1" in text
    assert not _remains(backend)


def _remains(backend: NamespaceBackend) -> list[str]:
    return [each for each in namespaces() if backend.name in each]


def test_down_removes_fog_of_another_backend(run_fog: RunFog) -> None:
    fog = fog_of({"latency": {"delay": "10ms"}})
    with run_fog(fog) as backend:
        sleeper = backend.spawn("a-1", ["sleep", "600"])
        other = NamespaceBackend(backend.name, fog)
        processes = [psutil.Process(pid) for pid in _pids(_switch(backend))]
        assert other.address("a-1", "net") == backend.address("a-1", "net")
        other.down()
        assert sleeper.wait(10) != 0
        assert not _remains(backend)
        eventually(lambda: all(_is_dead(each) for each in processes))


def _pids(namespace: str) -> list[int]:
    listed = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, check=True)
    return [int(pid) for pid in listed.stdout.split()]


def _ports(backend: NamespaceBackend) -> list[str]:
    argv = ["ip", "-n", _switch(backend), "-brief", "link", "show", "master", "br0"]
    return subprocess.run(argv, capture_output=True, check=True).stdout.decode().splitlines()


def _switch(backend: NamespaceBackend) -> str:
    return f"mistbow-fog-{backend.name}"


def _is_dead(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_stop_kills_processes_and_node_restarts(run_fog: RunFog) -> None:
    with run_fog(CLEAR) as backend:
        process = backend.spawn("b-2", ["sleep", "600"])
        eventually(lambda: _pids(f"{_switch(backend)}.b-2"))
        backend.stop("b-2")
        assert process.wait(10) != 0
        with pytest.raises(NotFoundError, match="no node called b-2"):
            backend.stop("b-2")
        backend.start(CLEAR.nodes[2], CLEAR.directions_of("b-2"))
        assert lost(backend, "a-1", "b-2") == 0


def test_run_executes_command_in_node(run_fog: RunFog) -> None:
    with run_fog(CLEAR) as backend:
        address = backend.address("a-1", "net")
        backend.run("a-1", f"ip addr | grep -q {address}")
        with pytest.raises(UnavailableError):
            backend.run("b-1", f"ip addr | grep -q {address}")


def test_stress_runs_in_node_and_ends(run_fog: RunFog) -> None:
    with run_fog(CLEAR) as backend:
        backend.stress("a-1", 0.1, 1500)
        eventually(lambda: _pids(f"{_switch(backend)}.a-1"))
        eventually(lambda: not _pids(f"{_switch(backend)}.a-1"))


def test_nodes_reach_only_nodes_of_their_networks(run_fog: RunFog) -> None:
    fog = FogPlan(
        ("one", "two"),
        tuple(
            type(node)(node.name, node.label, "web", 1.0, 1, (network,))
            for node, network in zip(CLEAR.nodes, ("one", "one", "two"), strict=True)
        ),
        (),
    )
    with run_fog(fog) as backend:
        near, far = backend.address("b-1", "one"), backend.address("b-2", "two")
        with backend.inside("a-1"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            out.connect((near, 9))
            with pytest.raises(OSError, match="unreachable"):
                out.connect((far, 9))


@pytest.mark.parametrize("name", ["", "a.b", "../x", "A"])
def test_backend_rejects_ambiguous_name(name: str) -> None:
    with pytest.raises(InvalidRequestError):
        NamespaceBackend(name, CLEAR)
