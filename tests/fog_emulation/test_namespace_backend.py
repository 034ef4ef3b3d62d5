"""Fogs of network namespaces, with real packets and the kernel of the host."""

import socket
import subprocess

import psutil
import pytest

from fog_emulation.backend import start_fog
from fog_emulation.host import namespaces
from fog_emulation.measure import Measurement, measure, pairs, table
from fog_emulation.namespace_backend import NamespaceBackend
from fog_emulation.timetable import LimitNode, ScenarioStep
from fog_emulation.topology import Direction, FogPlan, Shape, Way
from mistbow.errors import InvalidRequestError, NotFoundError, UnavailableError
from tests.fog_emulation.conftest import RunFog
from tests.fog_emulation.namespaces import fog_of, needs_namespaces, new_name
from tests.support.conditions import eventually

pytestmark = needs_namespaces

CLEAR = fog_of({})
WAYS: tuple[Way, ...] = ("up", "down")


def lost(backend: NamespaceBackend, source: str, target: str, probes: int = 50) -> float:
    return measure(backend, CLEAR.directions, "net", source, target, probes).found.loss


def test_measured_shape_equals_setting(run_fog: RunFog) -> None:
    fog = fog_of(
        {"bandwidth": "8Mbps", "latency": {"delay": "40ms", "deviation": "4ms"}, "drop": "20%"}
    )
    with run_fog(fog) as backend:
        rows = [measure(backend, fog.directions, *pair) for pair in pairs(fog)]
    assert [(row.source, row.target) for row in rows] == [("a-1", "b-1"), ("b-1", "a-1")]
    for row in rows:
        _assert_as_expected(row)
    assert "a-1 > b-1 (net)" in table(rows)


def _assert_as_expected(row: Measurement) -> None:
    assert row.expected.rate_bps == 8_000_000
    assert row.found.rate_bps == pytest.approx(8_000_000, rel=0.2)
    # Six standard deviations of 1000 probes.
    assert row.found.loss == pytest.approx(0.2, abs=0.076)
    assert 38 < row.found.delay_ms < 60
    assert row.found.deviation_ms > 1


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
    link = {"from_node": "a", "to_node": "b", "properties": {"bandwidth": "1Mbps"}}
    backend = NamespaceBackend(new_name(), fog_of({}, [link]))
    with pytest.raises(InvalidRequestError) as refused:
        start_fog(backend, [ScenarioStep(7, (LimitNode("a-1", 1.0, 2**30),))])
    text = "\n".join(refused.value.details)
    assert "a-1: 0.833 cores, 536870912 bytes: network namespaces do not limit" in text
    assert "after 7 s: new limits for a-1" in text
    assert (
        "a-1 up net with b-1: 1000000 bit/s: a link to a single peer supports only a loss" in text
    )
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
