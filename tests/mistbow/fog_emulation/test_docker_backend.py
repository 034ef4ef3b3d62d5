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
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from mistbow.errors import InvalidRequestError, NotFoundError, UnavailableError
from mistbow.fog_emulation.backend import raise_fog
from mistbow.fog_emulation.host import namespaces
from mistbow.fog_emulation.measure import measure
from mistbow.fog_emulation.parts import Direction, FogPlan, Shape, Way
from mistbow.fog_emulation.services import Service
from mistbow.fog_emulation.timetable import Limit, Step
from tests.mistbow.fog_emulation.cities import small_city
from tests.mistbow.fog_emulation.namespaces import fog_of, new_name
from tests.support.waiting import eventually

docker = pytest.importorskip("docker")
docker_backend = pytest.importorskip("mistbow.fog_emulation.docker_backend")

WAYS: tuple[Way, ...] = ("up", "down")
SLEEP = ["/bin/busybox", "sleep", "600"]


def _daemon_runs() -> bool:
    try:
        return bool(docker.from_env().ping())
    except docker.errors.DockerException:
        return False


pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not _daemon_runs() or not shutil.which("busybox"),
    reason="needs root, a Docker daemon and Debian's busybox-static",
)


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """An image of one file, made here: nothing is fetched."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        busybox = Path(str(shutil.which("busybox"))).resolve()
        for name in ("bin/busybox", "bin/sh"):
            archive.add(busybox, name)
    client = docker.from_env()
    tag = f"mistbow-test-{uuid.uuid4().hex[:8]}"
    client.api.import_image_from_data(data.getvalue(), repository=tag)
    yield tag
    client.images.remove(tag, force=True)


@pytest.fixture
def make(image: str) -> Iterator[Any]:
    """Make backends, and take all away that they made."""
    made: list[Any] = []

    def new(fog: FogPlan, name: str | None = None) -> Any:
        service = Service(image, command=SLEEP)
        made.append(docker_backend.DockerBackend(name or new_name(), fog, {"web": service}))
        return made[-1]

    yield new
    for backend in made:
        backend.down()


def left(name: str) -> list[str]:
    client, ours = docker.from_env(), {"label": f"mistbow.fog={name}"}
    found = [*client.containers.list(all=True, filters=ours), *client.networks.list(filters=ours)]
    return [each.name for each in found]


def test_what_is_measured_is_what_was_set(make: Any) -> None:
    fog = fog_of({"bandwidth": "8Mbps", "drop": "20%"})
    backend = make(fog)
    assert raise_fog(backend) == ()
    for way in (("a-1", "b-1"), ("b-1", "a-1")):
        found = measure(backend, fog.directions, "net", *way).found
        assert found.rate_bps == pytest.approx(8_000_000, rel=0.2)
        assert found.loss == pytest.approx(0.2, abs=0.076)


def test_a_node_is_cut_healed_killed_and_started_again(make: Any) -> None:
    fog = fog_of({})
    backend = make(fog)
    raise_fog(backend)

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


def test_latency_is_had_by_netem_or_without_and_changed_by_another_process(make: Any) -> None:
    fog = fog_of({"latency": {"delay": "40ms", "deviation": "2ms"}, "bandwidth": "20Mbps"})
    backend = make(fog)
    assert raise_fog(backend) == ()

    def delay_ms(target: str) -> float:
        found = measure(backend, fog.directions, "net", "a-1", target, probes=200).found
        assert found.loss <= 0.02
        assert found.rate_bps == pytest.approx(20_000_000, rel=0.2)
        return found.delay_ms

    assert delay_ms("b-1") == pytest.approx(40, abs=10)
    backend.stop("b-1")
    backend.start(fog.nodes[1], fog.directions_of("b-1"))
    for way in WAYS:
        make(fog, backend.name).connect(Direction("net", "a-1", way, Shape(delay_ms=120)))
    assert delay_ms("b-1") == pytest.approx(140, abs=20)
    backend.down()
    assert left(backend.name) == []
    assert not [each for each in namespaces() if backend.name in each]


def test_limits_are_set_and_changed_and_bind_stress(make: Any) -> None:
    fog = fog_of({})
    backend = make(FogPlan(fog.networks, (replace(fog.nodes[0], cores=0.5),), ()))
    raise_fog(backend)
    container = docker.from_env().containers.get(f"mistbow-fog-{backend.name}-a-1")
    assert container.attrs["HostConfig"]["CpuQuota"] == 50_000
    assert container.attrs["HostConfig"]["Memory"] == 512 * 2**20
    backend.limit("a-1", 0.25, 256 * 2**20)
    container.reload()
    assert container.attrs["HostConfig"]["CpuQuota"] == 25_000
    assert container.attrs["HostConfig"]["Memory"] == 256 * 2**20

    def used() -> tuple[float, float]:
        usage = container.stats(stream=False)["cpu_stats"]["cpu_usage"]["total_usage"]
        return usage / 1e9, time.monotonic()

    backend.stress("a-1", 1.0, 60_000)
    eventually(lambda: used()[0] > 0.3)
    (before, began), (after, ended) = used(), used()
    assert (after - before) / (ended - began) < 0.4, "stress is within the limit of 0.25 cores"


def test_what_cannot_be_done_is_refused_by_name_and_nothing_is_made(make: Any) -> None:
    backend = make(fog_of({}))
    with pytest.raises(InvalidRequestError) as refused:
        raise_fog(backend, [Step(0, (Limit("a-1", 4000.0, 2**60),))])
    assert [each.split(":")[:2] for each in refused.value.details] == [
        ["a-1", " 4000 cores"],
        ["a-1", f" {2**60} bytes"],
    ]
    assert not left(backend.name)


def test_down_leaves_nothing_of_a_fog_that_another_process_made(make: Any) -> None:
    fog = fog_of({})
    backend = make(fog)
    raise_fog(backend)
    assert len(left(backend.name)) == 4
    make(fog, backend.name).down()
    assert not left(backend.name)


def test_a_command_runs_in_its_node(make: Any) -> None:
    backend = make(fog_of({}))
    raise_fog(backend)
    backend.run("a-1", "busybox test $(busybox hostname) = a-1")
    with pytest.raises(UnavailableError, match="b-1"):
        backend.run("b-1", "busybox test $(busybox hostname) = a-1")


def test_a_node_has_no_capabilities_and_no_way_outside_but_the_host_reaches_it(make: Any) -> None:
    backend = make(fog_of({}))
    raise_fog(backend)
    backend.run("a-1", "busybox grep -q '^CapBnd:.0*$' /proc/self/status")
    backend.run("a-1", "busybox grep -q '^NoNewPrivs:.1$' /proc/self/status")
    ours = {"label": f"mistbow.fog={backend.name}"}
    assert all(each.attrs["Internal"] for each in docker.from_env().networks.list(filters=ours))
    backend.run("a-1", "busybox nc -l -p 8080 -e /bin/busybox echo hello >/dev/null 2>&1 &")

    def said() -> bytes:
        try:
            with socket.create_connection((backend.address("a-1", "net"), 8080), 5) as connected:
                return connected.recv(100)
        except ConnectionRefusedError:
            return b""

    assert eventually(said) == b"hello\n"


def test_an_image_that_is_not_there_leaves_nothing(make: Any) -> None:
    name = new_name()
    service = {"web": Service(f"mistbow-none-{uuid.uuid4().hex}:none")}
    backend = docker_backend.DockerBackend(name, fog_of({}), service)
    with pytest.raises(UnavailableError, match="Docker"):
        raise_fog(backend)
    assert not left(name)


def test_the_command_starts_a_fog_runs_a_scenario_and_leaves_nothing(
    image: str, tmp_path: Path
) -> None:
    name = new_name()
    file = tmp_path / f"{name}.yml"
    compose = small_city()
    compose["services"]["web"] |= {"image": image, "command": SLEEP}
    compose["x-fogify"]["networks"][0]["bidirectional"] = {"drop": "10%"}
    action = {"type": "horizontal_scaling", "parameters": {"type": "down"}}
    step = {"time": 0, "position": 0, "instance_type": "b", "instances": 1, "action": action}
    compose["x-fogify"]["scenarios"] = [{"name": "story", "actions": [step]}]
    file.write_text(yaml.safe_dump(compose))

    def fog(*arguments: str) -> str:
        argv = [sys.executable, "-m", "mistbow.cli.app", "fog", *arguments]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout

    try:
        assert "a-1 > b-1 (net)" in fog("up", str(file))
        assert "failed" not in fog("run", str(file), "story")
        assert len([each for each in left(name) if "b-" in each]) == 1
    finally:
        fog("down", str(file))
    assert left(name) == []
