"""The contents of ``docker-compose.yml``, without starting it."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import compose, image
from fog_emulation.units import memory_bytes
from mistbow.errors import MistbowError

FILE = image.ROOT / "docker-compose.yml"
WRITTEN: dict[str, Any] = yaml.safe_load(FILE.read_text())
SERVICES: dict[str, dict[str, Any]] = WRITTEN["services"]
SITES = ("cloud", "edge-north", "edge-south")

each_service = pytest.mark.parametrize("name", SERVICES)


def _networks(name: str) -> set[str]:
    return set(SERVICES[name]["networks"])


def test_each_site_has_a_storage_and_a_worker() -> None:
    assert set(SERVICES) == {
        *(f"storage-{site}" for site in SITES),
        *(f"worker-{site}" for site in SITES),
        "enabler",
        "city",
    }


def test_compose_publishes_enabler_and_one_agent_of_each_site_on_loopback() -> None:
    published = {name: each["ports"] for name, each in SERVICES.items() if "ports" in each}
    assert set(published) == {"enabler", *(f"storage-{site}" for site in SITES)}
    defaults = {"enabler": (compose.PORT, 8000)}
    defaults |= {f"storage-{site}": (port, 8300) for site, port in compose.AGENT_PORTS.items()}
    for name, (port,) in published.items():
        outside, inside = defaults[name]
        address, variable, default, own = re.fullmatch(
            r"(.+):\$\{(MISTBOW_\w+_PORT):-(\d+)\}:(\d+)", port
        ).groups()
        assert (address, int(default), int(own)) == ("127.0.0.1", outside, inside)
        assert variable in Path(compose.__file__).read_text()


@each_service
def test_memory_and_processor_are_limited(name: str) -> None:
    assert memory_bytes(SERVICES[name]["mem_limit"].upper()) <= 2.5 * 2**30
    assert 0 < SERVICES[name]["cpus"] <= 1


def test_total_memory_is_at_most_8_gib() -> None:
    total = sum(memory_bytes(each["mem_limit"].upper()) for each in SERVICES.values())
    assert total <= 8 * 2**30


@each_service
def test_services_with_routes_have_health_check(name: str) -> None:
    if name == "city":
        assert "healthcheck" not in SERVICES[name]  # it serves nothing
        return
    port = {"storage": "8300", "worker": "8100", "enabler": "8000"}[name.split("-")[0]]
    assert SERVICES[name]["healthcheck"]["test"][-2:] == ["/opt/mistbow/health.py", port]


@each_service
def test_token_is_read_from_file_and_is_not_in_settings(name: str) -> None:
    service = SERVICES[name]
    assert service["secrets"] == ["token"]
    assert service["environment"]["MISTBOW_TOKEN_FILE"] == "/run/secrets/token"  # noqa: S105
    assert "MISTBOW_TOKEN" not in service["environment"]
    assert "--token" not in str(service["command"])


@pytest.mark.usefixtures("processes")
def test_token_file_is_ignored_by_git() -> None:
    file = image.ROOT / WRITTEN["secrets"]["token"]["file"]
    assert file == compose.TOKEN
    ignored = subprocess.run(("git", "check-ignore", "-q", str(file)), cwd=image.ROOT, check=False)
    assert ignored.returncode == 0


@each_service
def test_container_has_no_privileges(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert not service.keys() & {"privileged", "cap_add", "network_mode", "pid", "user", "devices"}


def test_the_edges_reach_the_cloud_and_not_each_other() -> None:
    north = _networks("storage-edge-north") | _networks("worker-edge-north")
    south = _networks("storage-edge-south") | _networks("worker-edge-south")
    cloud = _networks("storage-cloud") & _networks("enabler")
    assert not north & south
    assert cloud & north == {"link-north"}
    assert cloud & south == {"link-south"}


@pytest.mark.parametrize("site", SITES)
def test_network_of_site_has_only_its_members(site: str) -> None:
    members = {name for name in SERVICES if f"site-{site}" in _networks(name)}
    own = {f"storage-{site}", f"worker-{site}"}
    assert members == (own | {"enabler"} if site == "cloud" else own)


def test_the_enabler_reaches_every_worker() -> None:
    for site in SITES:
        assert _networks(f"worker-{site}") & _networks("enabler")


def test_only_network_of_published_port_reaches_outside() -> None:
    outside = {name for name, each in WRITTEN["networks"].items() if not each.get("internal")}
    assert outside == {"front", *(f"front-{site}" for site in SITES)}
    # Each has one member only: over them, no service reaches another.
    for front in outside:
        members = [name for name in SERVICES if front in _networks(name)]
        assert members == ["enabler" if front == "front" else front.replace("front", "storage")]
        if front != "front":
            options = WRITTEN["networks"][front]["driver_opts"]
            assert options == {"com.docker.network.bridge.enable_ip_masquerade": "false"}


def test_an_edge_names_the_cloud_only() -> None:
    for name in ("storage-edge-north", "storage-edge-south"):
        assert SERVICES[name]["environment"]["MISTBOW_PEERS"] == "http://storage-cloud:8300"


@pytest.mark.parametrize("site", SITES)
def test_storage_and_kill_records_of_workers_have_volumes(site: str) -> None:
    assert SERVICES[f"storage-{site}"]["volumes"] == [f"data-{site}:/var/lib/mistbow"]
    assert SERVICES[f"worker-{site}"]["volumes"] == [f"worker-{site}:/var/lib/mistbow"]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("tool", [("docker", "compose"), ("docker-compose",)], ids=" ".join)
def test_compose_accepts_file(tool: tuple[str, ...]) -> None:
    try:
        subprocess.run((*tool, "version"), capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"{' '.join(tool)} is not installed")
    command = (*tool, "--file", str(FILE), "config", "--quiet")
    subprocess.run(command, check=True, capture_output=True, timeout=60)


@pytest.mark.usefixtures("processes")
def test_find_tool_reports_missing_compose(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MistbowError, match="neither"):
        compose.find_tool()


def test_make_token_creates_token_once_in_private_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    token = tmp_path / "closed" / "token"
    monkeypatch.setattr(compose, "TOKEN", token)
    compose.make_token()
    first = token.read_text()
    assert len(first.strip()) >= 32
    assert token.parent.stat().st_mode & 0o077 == 0
    compose.make_token()
    assert token.read_text() == first
