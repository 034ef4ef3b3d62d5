"""A fog of containers: needs root and a Docker daemon, and no registry."""

import io
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from fog_emulation import model
from fog_emulation.backend import start_fog
from fog_emulation.fog_trust import FOLDER, FogTrust, trust_folder, unpacked
from fog_emulation.host import namespaces
from fog_emulation.measure import lost_share, measure
from fog_emulation.plan import plan
from fog_emulation.services import ComposeService, load_services
from fog_emulation.timetable import LimitNode, ScenarioStep
from fog_emulation.topology import WAYS, Direction, FogPlan, Shape
from mistbow.auth.identity import IdentityContent
from mistbow.errors import InvalidRequestError, NotFoundError, UnavailableError
from tests.fog_emulation.cities import small_city
from tests.fog_emulation.namespaces import (
    DIRECTED_LINK,
    SMALL_LOSS_PACKETS,
    assert_within_a_tenth,
    fog_of,
    new_name,
)
from tests.support.conditions import eventually
from tests.support.programs import required

docker = pytest.importorskip("docker")
docker_backend = pytest.importorskip("fog_emulation.docker_backend")
fogs = pytest.importorskip("fog_emulation.docker_status").fogs
nodes_of = pytest.importorskip("fog_emulation.docker_status").nodes_of
daemon_runs = pytest.importorskip("tests.support.emulated_fogs").daemon_runs

SLEEP = ["/bin/busybox", "sleep", "600"]


pytestmark = required(
    os.geteuid() == 0 and daemon_runs() and shutil.which("busybox") is not None,
    "needs root, a Docker daemon and Debian's busybox-static",
)


@pytest.fixture(scope="module")
def client(containers: None) -> Iterator[Any]:
    """Yield a client of the Docker daemon."""
    with closing(docker.from_env()) as opened:
        yield opened


@pytest.fixture(scope="module")
def image(client: Any) -> Iterator[str]:
    """Make an image from one local file, without a registry; yield the name of the image."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        busybox = Path(str(shutil.which("busybox"))).resolve()
        for name in ("bin/busybox", "bin/sh"):
            archive.add(busybox, name)
        folder = tarfile.TarInfo(FOLDER.lstrip("/"))
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(folder)
    tag = f"mistbow-test-{uuid.uuid4().hex[:8]}"
    client.api.import_image_from_data(data.getvalue(), repository=tag)
    yield tag
    client.images.remove(tag, force=True)


@pytest.fixture
def make(image: str) -> Iterator[Any]:
    """Yield a function that makes a backend of a fog; the fogs are removed after the test."""
    made: list[Any] = []

    def new(fog: FogPlan, name: str | None = None) -> Any:
        service = ComposeService(image, command=SLEEP)
        made.append(docker_backend.DockerBackend(name or new_name(), fog, {"web": service}))
        return made[-1]

    yield new
    for backend in made:
        backend.down()


def remains(name: str) -> list[str]:
    ours = {"label": f"mistbow.fog={name}"}
    with closing(docker.from_env()) as client:
        found = [*client.containers.list(all=True, filters=ours)]
        return [each.name for each in [*found, *client.networks.list(filters=ours)]]


def test_measured_shape_equals_setting(make: Any) -> None:
    fog = fog_of({"bandwidth": "8Mbps", "drop": "20%"})
    backend = make(fog)
    assert start_fog(backend) == ()
    for way in (("a-1", "b-1"), ("b-1", "a-1")):
        found = measure(backend, fog.directions, "net", *way, 100).found
        assert found.rate_bps == pytest.approx(8_000_000, rel=0.1)
        # A tenth is five standard errors.
        loss = lost_share(backend, fog.directions, "net", *way, 10_000)
        assert loss == pytest.approx(0.2, rel=0.1)


def test_single_link_has_its_own_shape_in_each_direction(make: Any) -> None:
    fog = fog_of({"bandwidth": "16Mbps", "latency": {"delay": "10ms"}}, [DIRECTED_LINK])
    backend = make(fog)
    assert start_fog(backend) == ()
    ways = (("a-1", "b-1"), ("b-1", "a-1"), ("b-1", "b-2"))
    rows = [measure(backend, fog.directions, "net", *way, 300) for way in ways]
    # The other end of the link has half of the network's latency.
    expected = [(8_000_000, 35), (12_000_000, 11), (16_000_000, 10)]
    assert [(row.expected.rate_bps, row.expected.delay_ms) for row in rows] == expected
    for row in rows:
        assert_within_a_tenth(row)
    loss = lost_share(backend, fog.directions, "net", "a-1", "b-1", SMALL_LOSS_PACKETS)
    assert loss == pytest.approx(0.002, abs=0.001)
    assert lost_share(backend, fog.directions, "net", "b-1", "a-1", 10_000) == 0


def test_link_keeps_its_latency_when_nodes_restart(make: Any) -> None:
    link = {"from_node": "b", "to_node": "a", "properties": {"latency": {"delay": "60ms"}}}
    fog = fog_of({}, [link])
    backend = make(fog)
    assert start_fog(backend) == ()
    for node in fog.nodes:
        backend.stop(node.name)
    # The nodes with the link start before their peer.
    for node in reversed(fog.nodes):
        backend.start(node, fog.directions_of(node.name))
    measured = {
        way: measure(backend, fog.directions, "net", *way, 100).found.delay_ms
        for way in (("a-1", "b-1"), ("a-1", "b-2"), ("b-2", "b-1"))
    }
    assert measured["a-1", "b-1"] == pytest.approx(30, rel=0.1)
    assert measured["a-1", "b-2"] == pytest.approx(30, rel=0.1)
    assert measured["b-2", "b-1"] < 3
    backend.down()
    assert remains(backend.name) == []
    assert not [each for each in namespaces() if backend.name in each]


def test_status_shows_nodes_with_limits_and_addresses_until_the_fog_is_removed(make: Any) -> None:
    fog = fog_of({})
    backend = make(fog)
    with pytest.raises(NotFoundError, match="there is no fog called"):
        nodes_of(backend.name, fog)
    start_fog(backend)
    nodes = nodes_of(backend.name, fog)
    assert [(node.name, node.state, tuple(node.addresses)) for node in nodes] == [
        (node.name, "running", node.networks) for node in sorted(fog.nodes, key=lambda n: n.name)
    ]
    assert {node.name: node.addresses["net"] for node in nodes} == {
        node.name: backend.address(node.name, "net") for node in fog.nodes
    }
    assert {node.memory_bytes for node in nodes} == {node.memory_bytes for node in fog.nodes}
    assert {node.cores for node in nodes} == {node.cores for node in fog.nodes}
    backend.stop("a-1")
    assert {node.name: node.state for node in nodes_of(backend.name, fog)}["a-1"] != "running"
    assert backend.name in fogs()
    backend.down()
    assert backend.name not in fogs()


def test_node_is_disconnected_restored_killed_and_restarted(make: Any) -> None:
    fog = fog_of({})
    backend = make(fog)
    start_fog(backend)

    def lost(source: str, target: str) -> float:
        return measure(backend, [], "net", source, target, probes=50).found.loss

    for loss in (1.0, 0.0):
        for way in WAYS:
            backend.connect(Direction("net", "a-1", way, Shape(loss=loss)))
        assert lost("a-1", "b-1") == lost("b-1", "a-1") == loss
    backend.stop("b-1")
    with pytest.raises(NotFoundError, match="no node called b-1"):
        backend.address("b-1", "net")
    backend.start(fog.nodes[1], fog.directions_of("b-1"))
    assert lost("a-1", "b-1") == 0


def test_latency_is_set_and_changed_by_another_backend(make: Any) -> None:
    fog = fog_of({"latency": {"delay": "40ms", "deviation": "2ms"}, "bandwidth": "20Mbps"})
    backend = make(fog)
    assert start_fog(backend) == ()

    def delay_ms(target: str) -> float:
        found = measure(backend, fog.directions, "net", "a-1", target, probes=200).found
        assert found.loss == 0
        assert found.rate_bps == pytest.approx(20_000_000, rel=0.1)
        return found.delay_ms

    assert delay_ms("b-1") == pytest.approx(40, rel=0.1)
    backend.stop("b-1")
    backend.start(fog.nodes[1], fog.directions_of("b-1"))
    for way in WAYS:
        make(fog, backend.name).connect(Direction("net", "a-1", way, Shape(delay_ms=120)))
    assert delay_ms("b-1") == pytest.approx(140, rel=0.1)
    backend.down()
    assert remains(backend.name) == []
    assert not [each for each in namespaces() if backend.name in each]


def test_limits_are_changed_and_apply_to_stress(make: Any, client: Any) -> None:
    fog = fog_of({})
    backend = make(FogPlan(fog.networks, (replace(fog.nodes[0], cores=0.5),), ()))
    start_fog(backend)
    container = client.containers.get(f"mistbow-fog-{backend.name}-a-1")
    assert container.attrs["HostConfig"]["CpuQuota"] == 50_000
    assert container.attrs["HostConfig"]["Memory"] == 512 * 2**20
    backend.limit("a-1", 0.25, 256 * 2**20)
    container.reload()
    assert container.attrs["HostConfig"]["CpuQuota"] == 25_000
    assert container.attrs["HostConfig"]["Memory"] == 256 * 2**20
    assert container.attrs["HostConfig"]["PidsLimit"] == docker_backend.PIDS_LIMIT

    def used() -> tuple[float, float]:
        usage = container.stats(stream=False)["cpu_stats"]["cpu_usage"]["total_usage"]
        return usage / 1e9, time.monotonic()

    backend.stress("a-1", 1.0, 60_000)
    eventually(lambda: used()[0] > 0.3)
    (before, began), (after, ended) = used(), used()
    assert (after - before) / (ended - began) < 0.4, "stress exceeds the limit of 0.25 cores"


def test_start_fog_reports_refusals_and_creates_nothing(make: Any) -> None:
    backend = make(fog_of({}))
    with pytest.raises(InvalidRequestError) as refused:
        start_fog(backend, [ScenarioStep(0, (LimitNode("a-1", 4000.0, 2**60),))])
    assert [each.split(":")[:2] for each in refused.value.details] == [
        ["a-1", " 4000 cores"],
        ["a-1", f" {2**60} bytes"],
    ]
    assert not remains(backend.name)


def test_down_removes_fog_of_another_backend(make: Any) -> None:
    fog = fog_of({})
    backend = make(fog)
    start_fog(backend)
    assert len(remains(backend.name)) == 4
    make(fog, backend.name).down()
    assert not remains(backend.name)


def test_run_executes_command_in_node(make: Any) -> None:
    backend = make(fog_of({}))
    start_fog(backend)
    backend.run("a-1", "busybox test $(busybox hostname) = a-1")
    with pytest.raises(UnavailableError, match="b-1"):
        backend.run("b-1", "busybox test $(busybox hostname) = a-1")


def test_node_has_no_capabilities_and_is_reachable_only_from_host(make: Any, client: Any) -> None:
    backend = make(fog_of({}))
    start_fog(backend)
    backend.run("a-1", "busybox grep -q '^CapBnd:.0*$' /proc/self/status")
    backend.run("a-1", "busybox grep -q '^NoNewPrivs:.1$' /proc/self/status")
    ours = {"label": f"mistbow.fog={backend.name}"}
    assert all(each.attrs["Internal"] for each in client.networks.list(filters=ours))
    backend.run("a-1", "busybox nc -l -p 8080 -e /bin/busybox echo hello >/dev/null 2>&1 &")

    def received() -> bytes:
        try:
            with socket.create_connection(
                (backend.address("a-1", "net"), 8080), 5
            ) as shaped_directions:
                return shaped_directions.recv(100)
        except ConnectionRefusedError:
            return b""

    assert eventually(received) == b"hello\n"


def test_logs_of_nodes_are_rotated(make: Any, client: Any) -> None:
    backend = make(fog_of({}))
    start_fog(backend)
    nodes = client.containers.list(filters={"label": f"mistbow.fog={backend.name}"})
    assert nodes
    for node in nodes:
        logs = node.attrs["HostConfig"]["LogConfig"]
        assert logs == {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "3"}}


def test_start_fog_leaves_nothing_after_missing_image(make: Any) -> None:
    name = new_name()
    service = {"web": ComposeService(f"mistbow-none-{uuid.uuid4().hex}:none")}
    backend = docker_backend.DockerBackend(name, fog_of({}), service)
    with pytest.raises(UnavailableError, match="Docker"):
        start_fog(backend)
    assert not remains(name)


def scenario_file(folder: Path, name: str, image: str, way: str, **service: Any) -> Path:
    """Write a compose file whose scenario ``story`` scales the label b ``up`` or ``down``."""
    compose = small_city()
    compose["services"]["web"] |= {"image": image, "command": SLEEP, **service}
    compose["x-fogify"]["networks"][0]["bidirectional"] = {"drop": "10%"}
    action = {"type": "horizontal_scaling", "parameters": {"type": way}}
    step = {"time": 0, "position": 0, "instance_type": "b", "instances": 1, "action": action}
    compose["x-fogify"]["scenarios"] = [{"name": "story", "actions": [step]}]
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}.yml"
    file.write_text(yaml.safe_dump(compose))
    return file


def fog_command(*arguments: str) -> str:
    argv = [sys.executable, "-m", "command_line.app", "fog", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_fog_command_starts_fog_runs_scenario_and_removes_fog(image: str, tmp_path: Path) -> None:
    name = new_name()
    file = scenario_file(tmp_path, name, image, "down")
    try:
        assert "a-1 > b-1 (net)" in fog_command("up", str(file))
        assert "failed" not in fog_command("run", str(file), "story")
        assert [each for each in remains(name) if each.startswith(f"mistbow-fog-{name}-b-")] == [
            f"mistbow-fog-{name}-b-1"
        ]
    finally:
        fog_command("down", str(file))
    assert remains(name) == []


def keys_of(client: Any, name: str) -> dict[str, tuple[str, ...]]:
    """Return node -> the keys of the fog that the identity of its agent trusts."""
    ours = client.containers.list(filters={"label": f"mistbow.fog={name}"})
    found = {}
    for container in ours:
        files = unpacked(b"".join(container.get_archive(FOLDER)[0]))
        identity = msgspec.json.decode(files["agent.identity"], type=IdentityContent)
        found[container.labels["mistbow.fog.node"]] = identity.fog
    return found


@pytest.mark.parametrize("former", ["compose", "NAME", None])
def test_node_that_joins_an_upgraded_fog_has_an_identity_of_the_fog_s_key(
    image: str, client: Any, tmp_path: Path, former: str | None
) -> None:
    name = new_name()
    labels = {"mistbow.site": "site-{replica}", "mistbow.identities": "agent"}
    file = scenario_file(tmp_path, name, image, "up", labels=labels)
    # Earlier versions had the key in a folder that all files shared, or in one of the name only.
    folder = tmp_path / ".mistbow" / former.replace("NAME", name) if former else trust_folder(file)
    fog, trust = plan(model.load(file)), FogTrust(folder)
    backend = docker_backend.DockerBackend(name, fog, load_services(file), trust)
    start_fog(backend)
    try:
        assert "failed" not in fog_command("run", str(file), "story")
        assert keys_of(client, name) == {
            node: (trust.public_key(),) for node in ("a-1", "b-1", "b-2", "b-3")
        }
        # A file of this name in another folder describes another fog.
        other = scenario_file(tmp_path / "other", name, image, "up", labels=labels)
        with pytest.raises(subprocess.CalledProcessError) as refused:
            fog_command("run", str(other), "story")
        assert f"the key of the running fog {name}" in refused.value.stderr
        assert len(keys_of(client, name)) == 4
    finally:
        backend.down()
