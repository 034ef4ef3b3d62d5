"""The contents of ``docker-compose.yml``, without starting it."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import compose, image
from deploy.certificates import hosts_of
from deploy.entrypoint import fill
from deploy.replicas import (
    check_edges,
    check_replicas,
    removed_replicas,
    requested_replicas,
)
from fog_emulation import model
from fog_emulation.docker_backend import PIDS_LIMIT
from fog_emulation.fog_trust import FOLDER, FogTrust, NodeTrust, node_trust, trust_folder
from fog_emulation.units import memory_bytes
from mistbow.errors import ConflictError, InvalidRequestError, MistbowError
from mistbow.telemetry import MAX_LOG_BYTES
from storage_agent.settings import AgentSettings
from tests.deployment.monitoring_files import documented, sites_of
from tests.fog_emulation.cities import FILES
from tests.support.programs import lack

FILE = image.ROOT / "docker-compose.yml"
WRITTEN: dict[str, Any] = yaml.safe_load(FILE.read_text())
SERVICES: dict[str, dict[str, Any]] = WRITTEN["services"]
AGENTS = {"storage-cloud": 1, "region": 2, "edge": 3}
"""Service with storage -> the number of its replicas."""

PORTS = {"agent": "8300", "monitor": "8200", "worker": "8100", "enabler": "8000"}

each_service = pytest.mark.parametrize("name", SERVICES)


def _replicas(name: str) -> int:
    """Return the number of replicas of a service, without variables in the environment."""
    written = str(SERVICES[name].get("deploy", {"replicas": 1})["replicas"])
    return int(re.sub(r"\$\{\w+:-(\d+)\}", r"\1", written))


def _networks(name: str) -> set[str]:
    return set(SERVICES[name]["networks"])


def _names(service: str, replica: int, mark: str) -> list[str]:
    """Return the names of a container in its networks, as Docker reports them for a project."""
    container = f"fog{mark}{service}{mark}{replica}"
    return [f"{container}.fog_{network}" for network in _networks(service)]


def test_services_are_a_cloud_a_region_edges_and_buses() -> None:
    assert set(SERVICES) == {*AGENTS, "worker-cloud", "enabler", "buses"}
    assert {name: _replicas(name) for name in AGENTS} == AGENTS


@pytest.mark.parametrize(("tls", "scheme"), [(False, "http"), (True, "https")])
def test_hints_of_make_up_export_the_addresses_that_the_commands_of_the_operator_need(
    tls: bool, scheme: str
) -> None:
    agents = {"edge-1": f"{scheme}://127.0.0.1:8330", "storage-cloud-1": f"{scheme}://127.0.0.1:8"}
    url = f"{scheme}://127.0.0.1:8001"
    lines = compose.where_to_look("a-deployment", url, agents, tls).splitlines()
    [export] = (line.split() for line in lines if line.startswith("  export "))
    values = dict(each.split("=") for each in export[1:])
    assert values["MISTBOW_AGENT_URL"] == agents["storage-cloud-1"]
    assert values["MISTBOW_ENABLER_URL"] == url
    assert values["MISTBOW_TOKEN_FILE"].endswith("tokens/cloud-admin.token")
    assert ("MISTBOW_TLS_CA" in values) is tls
    assert "  .venv/bin/mistbow fabric status" in lines


def test_hints_of_make_up_send_the_point_to_the_first_edge_that_exists() -> None:
    agents = {"edge-10": "http://h:3", "edge-2": "http://h:2", "storage-cloud-1": "http://h:1"}
    hints = compose.where_to_look("a-deployment", "http://h:8", agents, tls=False)
    assert "Send a point to edge-2," in hints
    assert "tokens/edge-2-sender.token" in hints
    assert " http://h:2/put " in hints


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_node_with_services_has_a_monitoring_agent_and_a_name(file: Path) -> None:
    services = yaml.safe_load(file.read_text())["services"]
    nodes = {name: each for name, each in services.items() if each["command"][0] != "city"}
    # Only generators of points have no services.
    assert services.keys() - nodes.keys() <= {"buses", "sensors"}, file.stem
    for name, node in nodes.items():
        assert node["command"][1] == "--services", name
        assert "monitor" in node["command"][2].split(","), name
        assert node["environment"]["MISTBOW_NODE"], name


def test_compose_publishes_enabler_and_agents_on_loopback() -> None:
    published = {name: each["ports"] for name, each in SERVICES.items() if "ports" in each}
    assert set(published) == {"enabler", *AGENTS}
    taken: set[int] = set()
    for name, (port,) in published.items():
        found = re.fullmatch(r"(.+):\$\{MISTBOW_\w+_PORTS?:-(\d+)(?:-(\d+))?\}:(\d+)", port)
        assert found is not None
        first, last = int(found[2]), int(found[3] or found[2])
        assert (found[1], int(found[4])) == ("127.0.0.1", 8000 if name == "enabler" else 8300)
        assert last - first + 1 >= AGENTS.get(name, 1)
        assert not taken & {*range(first, last + 1)}
        taken |= {*range(first, last + 1)}
    assert 8000 in taken


def test_fogify_describes_the_services_of_compose() -> None:
    fog = model.load(FILE)
    for blueprint in fog.topology:
        service = SERVICES[blueprint.service]
        assert blueprint.label == blueprint.service
        assert blueprint.replicas == _replicas(blueprint.service)
        assert {*blueprint.networks, "front"} == {*service["networks"], "front"}
    assert {each.service for each in fog.topology} == set(SERVICES)


@pytest.mark.parametrize("mark", ["-", "_"])
@pytest.mark.parametrize("service", ["region", "edge"])
def test_replicas_are_nodes_of_their_own(service: str, mark: str) -> None:
    environment = SERVICES[service]["environment"]
    filled = [
        {key: fill(text, _names(service, number, mark)) for key, text in environment.items()}
        for number in range(1, AGENTS[service] + 1)
    ]
    settings = [
        AgentSettings(
            node=each["MISTBOW_NODE"],
            region=each["MISTBOW_REGION"],
            agent_url=each["MISTBOW_AGENT_URL"],
            peers=each["MISTBOW_PEERS"],
        )
        for each in filled
    ]
    assert [each.site for each in settings] == [
        f"{service}-{number}" for number in range(1, AGENTS[service] + 1)
    ]
    assert settings[1].agent_url == f"http://fog{mark}{service}{mark}2.fog_internet:8300"
    assert len({each.agent_url for each in settings}) == AGENTS[service]
    # Replicas that share a volume would share the files of Ignite.
    assert SERVICES[service]["volumes"] == ["/var/lib/mistbow", FOLDER]


def test_buses_report_to_the_edges() -> None:
    names = [fill(word, _names("buses", 1, "-")) for word in SERVICES["buses"]["command"]]
    assert names[1:4] == [f"http://fog-edge-{number}.fog_street:8300" for number in (1, 2, 3)]


@each_service
def test_memory_and_processor_are_limited(name: str) -> None:
    assert memory_bytes(SERVICES[name]["mem_limit"].upper()) <= 2.5 * 2**30
    assert 0 < SERVICES[name]["cpus"] <= 1.5
    # A stolen edge, which can run any program, starts no endless number of them.
    assert SERVICES[name]["pids_limit"] == PIDS_LIMIT


def test_total_memory_is_at_most_12_gib() -> None:
    total = sum(
        memory_bytes(each["mem_limit"].upper()) * AGENTS.get(name, 1)
        for name, each in SERVICES.items()
    )
    assert total <= 12 * 2**30


def test_edge_has_1_gib_for_its_worker() -> None:
    edge, storage = (
        memory_bytes(SERVICES[name]["mem_limit"].upper()) for name in ("edge", "region")
    )
    assert edge - storage == 2**30
    limits = {each["name"]: each["capabilities"]["memory"] for each in WRITTEN["x-fogify"]["nodes"]}
    assert memory_bytes(limits["edge-node"]) == edge


@each_service
def test_services_with_routes_have_health_check(name: str) -> None:
    if name == "buses":
        assert "healthcheck" not in SERVICES[name]  # it serves nothing
        return
    services = SERVICES[name]["command"][-1].split(",")
    expected = {PORTS[service] for service in services}
    test = SERVICES[name]["healthcheck"]["test"]
    assert set(test[test.index("/opt/mistbow/health.py") + 1 :]) == expected


@each_service
def test_logs_are_rotated(name: str) -> None:
    options = SERVICES[name]["logging"]["options"]
    assert memory_bytes(options["max-size"].upper()) * int(options["max-file"]) <= 32 * 2**20


@each_service
def test_home_in_memory_has_space_for_all_log_files(name: str) -> None:
    mounts = dict(mount.split(":") for mount in SERVICES[name]["tmpfs"])
    home = mounts.get("/var/lib/mistbow")
    if name == "buses" or home is None:
        return  # the generator writes no log files
    [size] = re.findall(r"size=(\d+[km])", home)
    services = SERVICES[name]["command"][-1].split(",")
    # The enabler has little besides the logs of its services, such as its lock.
    assert memory_bytes(size.upper()) > 1.25 * MAX_LOG_BYTES * len(services)


@each_service
def test_settings_name_files_that_the_labels_ask_for(name: str, tmp_path: Path) -> None:
    service = SERVICES[name]
    named = {
        Path(path.strip())
        for variable, text in service["environment"].items()
        for path in str(text).split(",")
        if variable.endswith(("_FILE", "_FILES"))
    }
    assert {path.parent for path in named} == {Path(FOLDER)}
    assert FOLDER in service["volumes"]
    needed = node_trust(service["labels"], 2)
    assert needed is not None
    assert {path.name for path in named} == FogTrust(tmp_path).files(needed).keys()
    assert "secrets" not in service
    assert not {"MISTBOW_TOKEN", "MISTBOW_TOKEN_FILE"} & service["environment"].keys()
    assert "--token" not in str(service["command"])


def test_only_the_cloud_has_rights_at_other_sites() -> None:
    found = {name: node_trust(each["labels"], 2) for name, each in SERVICES.items()}
    assert {name: each.site for name, each in found.items() if each and each.reach} == {
        "storage-cloud": "cloud", "worker-cloud": "cloud", "enabler": "cloud"
    }  # fmt: skip
    monitored = [each for each in found.values() if each and "monitor" in each.identities]
    assert [each.reach_of("monitor") for each in monitored] == [(), ()]
    assert found["edge"] == NodeTrust("edge-2", ("agent", "worker"))
    assert found["buses"] == NodeTrust("", sends_to=("edge-1", "edge-2", "edge-3"))


@pytest.mark.usefixtures("processes")
def test_identities_are_ignored_by_git_and_by_builds() -> None:
    for file in FILES:
        path = trust_folder(file) / "keys" / "fog.key"
        command = ("git", "check-ignore", "-q", str(path))
        assert subprocess.run(command, cwd=image.ROOT, check=False).returncode == 0
    lines = (image.ROOT / ".dockerignore").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["*", "!.mistbow/image"]


@each_service
def test_container_has_no_privileges(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert not service.keys() & {"privileged", "cap_add", "network_mode", "pid", "user", "devices"}


@dataclass(frozen=True)
class NamedContainer:
    """A container of `make up` with its names, as Docker's API describes it."""

    name: str
    attrs: dict[str, Any]


def _scraped(name: str, replica: int) -> tuple[str, set[str]]:
    """Return the site of a replica, and its endpoints at the name that Prometheus uses.

    The name is resolved in the network ``internet``, and is in the certificate of the container.
    """
    service = SERVICES[name]
    networks = {
        f"mistbow_{network}": {"Aliases": [*(settings or {}).get("aliases", ()), name]}
        for network, settings in service["networks"].items()
    }
    container = NamedContainer(
        f"mistbow-{name}-{replica}", {"NetworkSettings": {"Networks": networks}}
    )
    aliases = networks["mistbow_internet"]["Aliases"]
    host = next((each for each in aliases if each.endswith(".internet")), container.name)
    assert host in hosts_of(container)
    ports = (PORTS[kind] for kind in service["command"][-1].split(","))
    needed = node_trust(service["labels"], replica)
    assert needed is not None
    return needed.site, {f"{host}:{port}" for port in ports}


def test_documented_prometheus_scrapes_all_services_of_a_site_at_names_in_their_certificates() -> (
    None
):
    jobs = sites_of(documented("monitoring.md"))
    nodes = [(name, number) for name in SERVICES for number in range(1, _replicas(name) + 1)]
    expected: dict[str, set[str]] = {}
    for node in nodes:
        if node[0] != "buses":
            site, endpoints = _scraped(*node)
            expected.setdefault(site, set()).update(endpoints)
    found = {site: {*job["static_configs"][0]["targets"]} for site, job in jobs.items()}
    assert found == {site: expected[site] for site in ("cloud", "edge-1")}


def test_network_of_the_cloud_has_only_its_members() -> None:
    members = {name for name in SERVICES if "lan-cloud" in _networks(name)}
    assert members == {"storage-cloud", "worker-cloud", "enabler"}


def test_buses_reach_edges_only() -> None:
    assert _networks("buses") == {"street"}
    assert {name for name in SERVICES if "street" in _networks(name)} == {"buses", "edge"}


def test_only_network_of_published_ports_is_not_internal() -> None:
    outside = {name for name, each in WRITTEN["networks"].items() if not each.get("internal")}
    assert outside == {"front"}
    assert {name for name in SERVICES if "front" in _networks(name)} == {"enabler", *AGENTS}
    # Its members do not reach each other, and no answer from outside finds its way back.
    assert WRITTEN["networks"]["front"]["driver_opts"] == {
        "com.docker.network.bridge.enable_icc": "false",
        "com.docker.network.bridge.enable_ip_masquerade": "false",
    }


def test_kill_records_of_cloud_worker_have_a_volume() -> None:
    assert SERVICES["storage-cloud"]["volumes"] == ["data-cloud:/var/lib/mistbow", FOLDER]
    assert SERVICES["worker-cloud"]["volumes"] == ["worker-cloud:/var/lib/mistbow", FOLDER]


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


def test_port_and_image_are_those_of_compose_which_alone_reads_its_env_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bound = {"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8001"}]}
    enabler = NamedContainer("mistbow-enabler-1", {"HostConfig": {"PortBindings": bound}})
    assert compose.enabler_url(enabler, tls=True) == "https://127.0.0.1:8001"
    monkeypatch.setattr(image, "CHOSEN", "")
    monkeypatch.setattr(image, "NAME", "mistbow")
    configs = [{"services": {"enabler": {"image": name}}} for name in ("mistbow", "other:1")]
    assert list(map(compose.chosen_image, configs)) == [None, "other:1"]
    # An image with the usual name that the operator has chosen is not built either.
    monkeypatch.setattr(image, "CHOSEN", "mistbow")
    assert compose.chosen_image(configs[0]) == "mistbow"


def test_fog_of_another_clone_is_recognized_by_its_folder(tmp_path: Path) -> None:
    own, other, link = (tmp_path / name for name in ("own", "other", "link"))
    own.mkdir()
    other.mkdir()
    link.symlink_to(own)
    assert compose.foreign_folder([], own) is None
    assert compose.foreign_folder([str(own), str(link), None], own) is None
    assert compose.foreign_folder([str(own), str(other)], own) == str(other)
    # A clone that was removed has left its fog behind: it can be removed from any other.
    other.rmdir()
    assert compose.foreign_folder([str(other)], own) is None


def test_fogs_of_two_names_have_folders_of_their_own() -> None:
    assert compose.folder_of("mistbow") == trust_folder(FILE)
    assert compose.folder_of("second") == image.ROOT / ".mistbow" / "compose-second"


@dataclass(frozen=True)
class Container:
    """A container of a fog, as Docker's API describes it."""

    service: str
    number: int

    @property
    def name(self) -> str:
        return f"mistbow_{self.service}_{self.number}"

    @property
    def labels(self) -> dict[str, str]:
        return {"compose.service": self.service, "compose.container-number": str(self.number)}


RUNNING = [Container("edge", n) for n in (5, 1, 3, 2, 4)] + [Container("enabler", 1)]


def _config(edges: int) -> dict[str, Any]:
    return {"services": {"edge": {"deploy": {"replicas": edges}}, "enabler": {}}}


def test_replicas_of_compose_file_are_those_that_config_reports() -> None:
    config = {"services": {name: {"deploy": {"replicas": _replicas(name)}} for name in SERVICES}}
    expected = {**dict.fromkeys(SERVICES, 1), **AGENTS}
    assert requested_replicas(config) == expected
    for name, count in AGENTS.items():
        if count > 1:
            # The error of check_replicas names these variables.
            assert f"${{MISTBOW_{name.upper()}S:-" in SERVICES[name]["deploy"]["replicas"]


@pytest.mark.usefixtures("processes")
def test_config_of_compose_has_the_requested_replicas_and_buses_have_the_number_of_edges(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    try:
        tool = compose.find_tool()
    except MistbowError:
        lack("compose is not installed")
    monkeypatch.setenv("MISTBOW_EDGES", "2")
    found = compose.config(tool)
    assert requested_replicas(found) == {**dict.fromkeys(SERVICES, 1), **AGENTS, "edge": 2}
    assert str(found["services"]["buses"]["environment"]["MISTBOW_CITY_AGENTS"]) == "2"


def test_compose_removes_the_replicas_with_the_greatest_numbers() -> None:
    assert removed_replicas({"edge": [1, 2, 3]}, {"edge": 3, "region": 2}) == {}
    assert removed_replicas({"edge": [1, 2, 3]}, {"edge": 5}) == {}
    assert removed_replicas({"edge": [7, 1, 9]}, {"edge": 1}) == {"edge": [7, 9]}
    # Of a service that the file no longer has, compose removes nothing.
    assert removed_replicas({"former": [1]}, {"edge": 3}) == {}


def test_start_with_fewer_replicas_is_refused_with_their_sites() -> None:
    check_replicas(RUNNING, _config(5), "compose", "make up")
    check_replicas([], _config(3), "compose", "make up TLS=1")
    with pytest.raises(ConflictError, match="the sites edge-4, edge-5,") as refused:
        check_replicas(RUNNING, _config(3), "compose", "make up TLS=1")
    hint = refused.value.hint or ""
    assert "MISTBOW_EDGES=5 make up TLS=1. Or" in hint
    assert hint.endswith("docker rm --force --volumes mistbow_edge_4 mistbow_edge_5")


def test_start_without_an_edge_is_refused_with_the_variable() -> None:
    check_edges(_config(1))
    with pytest.raises(InvalidRequestError, match="MISTBOW_EDGES is 0"):
        check_edges(_config(0))


def test_documented_commands_of_compose_name_the_fog() -> None:
    command = re.compile(
        r"docker[ -]compose\s+((?:-\S+\s+(?:[a-z]+\s+)??)*?)"
        r"(?:config|down|exec|logs|ps|rm|run|start|stop|up)\b"
    )
    pages = [
        *image.ROOT.glob("docker-compose*.yml"),
        image.ROOT / "README.md",
        *image.ROOT.glob("docs/**/*.md"),
    ]
    found = [(page, options) for page in pages for options in command.findall(page.read_text())]
    assert found
    assert [
        page for page, options in found if options.split() != ["--project-name", "mistbow"]
    ] == []
