"""The Helm chart, rendered by Helm, and checked against the schemas of Kubernetes' API."""

import base64
import re
import subprocess
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from analytics_enabler.settings import EnablerSettings
from analytics_worker.settings import WorkerSettings
from deploy import image
from deploy.kubernetes import read_values, secrets
from fog_emulation.fog_trust import FogTrust
from mistbow import __version__
from mistbow.auth.fog_keys import FogKeys
from mistbow.auth.identity import Identity, IdentityContent
from mistbow.setting_values import CheckedSettings
from monitoring_agent.settings import MonitorSettings
from storage_agent.membership.fact_proofs import has_name
from storage_agent.settings import AgentSettings
from tests.support.kubernetes import VERSIONS, helm, schema_errors

CHART = image.ROOT / "deploy" / "helm" / "mistbow"
THREE_SITES = {
    "sites": [
        {
            "name": "cloud",
            "region": "centre",
            "nodeSelector": {"site": "cloud"},
            "storage": {"size": "20Gi"},
            "worker": {"replicas": 2},
        },
        {
            "name": "edge-north",
            "region": "north",
            "labels": "battery=true",
            "nodeSelector": {"site": "edge-north"},
            "tolerations": [{"key": "edge", "operator": "Exists"}],
            "storage": {"size": "2Gi", "storageClassName": "local"},
            "worker": {"replicas": 1, "resources": {"limits": {"memory": "1Gi"}}},
        },
        {"name": "edge-south", "nodeSelector": {"site": "edge-south"}, "storage": {"size": "2Gi"}},
    ],
    "settings": {"MISTBOW_LATENESS_MS": 2000},
    "networkPolicy": {"clients": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
}
AT_CLOUD: dict[str, Any] = {
    "enabler": {"site": "cloud"},
    "tls": {"enabled": False, "existingSecrets": False},
    "monitor": {"enabled": True},
}
SETTINGS: dict[str, type[CheckedSettings]] = {
    "storage": AgentSettings,
    "worker": WorkerSettings,
    "enabler": EnablerSettings,
    "monitor": MonitorSettings,
}
PORTS = {"storage": 8300, "worker": 8100, "enabler": 8000, "monitor": 8200}

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.timeout(1200)]


def template(values: dict[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    argv = [helm(), "template", "fog", str(CHART), "--namespace", "mistbow"]
    argv += ["--values", str(file), "--kube-version", VERSIONS[0]]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    done = template(THREE_SITES, tmp_path_factory.mktemp("values"))
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def of_kind(manifests: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [each for each in manifests if each["kind"] in kinds]


def pods(manifests: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the template of the pods of each workload, by the name of the workload."""
    workloads = of_kind(manifests, "StatefulSet", "Deployment", "DaemonSet")
    return {each["metadata"]["name"]: each["spec"]["template"] for each in workloads}


def component(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"]["app.kubernetes.io/component"])


@pytest.mark.parametrize("version", VERSIONS)
def test_manifests_satisfy_the_schemas_without_unknown_fields(
    manifests: list[dict[str, Any]], version: str
) -> None:
    found = {
        f"{each['kind']} {each['metadata']['name']}": errors
        for each in manifests
        if (errors := schema_errors(each, version))
    }
    assert found == {}


def test_schemas_refuse_an_unknown_field(manifests: list[dict[str, Any]]) -> None:
    [first, *_] = of_kind(manifests, "StatefulSet")
    assert schema_errors({**first, "spec": {**first["spec"], "colour": "red"}}, VERSIONS[0])


def test_each_site_has_its_workloads(manifests: list[dict[str, Any]]) -> None:
    assert Counter(each["kind"] for each in manifests) == {
        "Service": 4,
        "StatefulSet": 3,
        "Deployment": 3,
        "DaemonSet": 3,
        "NetworkPolicy": 5,
        "PodDisruptionBudget": 5,
    }
    sites = ("cloud", "edge-north", "edge-south")
    assert set(pods(manifests)) == {
        *(f"fog-{kind}-{site}" for kind in ("storage", "monitor") for site in sites),
        *("fog-worker-cloud", "fog-worker-edge-north", "fog-enabler"),
    }


def test_no_node_belongs_to_two_sites_of_the_documented_example(tmp_path: Path) -> None:
    page = (image.ROOT / "docs" / "kubernetes.md").read_text()
    [example] = re.findall(r"```yaml\n# sites\.yaml\n(.*?)```", page, re.DOTALL)
    done = template(yaml.safe_load(example), tmp_path)
    assert done.returncode == 0, done.stderr
    found = pods([each for each in yaml.safe_load_all(done.stdout) if each])
    selectors = [
        pod["spec"]["nodeSelector"] for pod in found.values() if component(pod) == "monitor"
    ]
    assert len(selectors) == 2
    for one, other in combinations(selectors, 2):
        assert any(one[label] != other[label] for label in one.keys() & other.keys())


def trust_of(pod: dict[str, Any]) -> tuple[str, set[str]]:
    """Return the secret that a pod mounts, and the names of its files."""
    [container] = pod["spec"]["containers"]
    mounted = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert mounted["trust"] == "/run/secrets/mistbow"
    [secret] = [each["secret"] for each in pod["spec"]["volumes"] if "secret" in each]
    return secret["secretName"], {each["path"] for each in secret["items"]}


def files_in(container: dict[str, Any]) -> set[str]:
    """Return the names of the files in the secret's folder that the environment names."""
    folder = "/run/secrets/mistbow/"
    named = [str(each.get("value", "")) for each in container["env"]]
    return {text.removeprefix(folder) for text in named if text.startswith(folder)}


def test_pods_have_no_privileges(manifests: list[dict[str, Any]]) -> None:
    for pod in pods(manifests).values():
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["automountServiceAccountToken"] is False
        assert not spec.keys() & {"hostNetwork", "hostPID", "hostIPC"}
        [container] = spec["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_homes_are_folders_that_services_create_in_their_volumes(
    manifests: list[dict[str, Any]],
) -> None:
    for pod in pods(manifests).values():
        [container] = pod["spec"]["containers"]
        homes = [each["value"] for each in container["env"] if each["name"] == "MISTBOW_HOME"]
        [volume] = [each for each in container["volumeMounts"] if each["name"] in ("home", "data")]
        assert homes == [f"{volume['mountPath']}/home"]
        assert pod["spec"]["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"


def made_secrets(values: dict[str, Any], trust: FogTrust) -> list[dict[str, Any]]:
    """Return the secrets of a release; the test fails if a component is left out."""
    return list(secrets(values, "fog", "mistbow", trust, pytest.fail))


def test_secrets_of_others_learn_that_an_identity_is_revoked(tmp_path: Path) -> None:
    values, trust = {**THREE_SITES, **AT_CLOUD}, FogTrust(tmp_path)
    left_out: list[str] = []
    before = {each["metadata"]["name"] for each in made_secrets(values, trust)}
    stolen = values["sites"][0]["name"]
    FogKeys(tmp_path / "keys").revoke(f"fog-agent-{stolen}")
    after = {
        each["metadata"]["name"]: each
        for each in secrets(values, "fog", "mistbow", FogTrust(tmp_path), left_out.append)
    }
    assert before - set(after) == {f"fog-storage-{stolen}"}
    assert [each.split()[0] for each in left_out] == [f"fog-storage-{stolen}"]
    content = base64.b64decode(after["fog-enabler-cloud"]["data"]["enabler.identity"])
    assert msgspec.json.decode(content, type=IdentityContent).revoked


def test_each_component_mounts_the_secret_with_its_own_identity(
    manifests: list[dict[str, Any]], tmp_path: Path
) -> None:
    made = {
        each["metadata"]["name"]: each
        for each in made_secrets({**THREE_SITES, **AT_CLOUD}, FogTrust(tmp_path))
    }
    for each in made.values():
        assert not any(schema_errors(each, version) for version in VERSIONS)
    kinds = {"storage": "agent"}
    used = {}
    for name, pod in pods(manifests).items():
        secret, files = trust_of(pod)
        used[secret] = files
        kind = kinds.get(component(pod), component(pod))
        assert files == {f"{kind}.identity", "tokens.json"}
        assert files == files_in(pod["spec"]["containers"][0])
        site = pod["metadata"]["labels"].get("mistbow.io/site", "cloud")
        content = base64.b64decode(made[secret]["data"][f"{kind}.identity"])
        found = Identity(msgspec.json.decode(content, type=IdentityContent)).credential
        assert (found.kind, found.site) == (kind, site)
        # A monitoring agent sends points to the agent of its site only.
        assert found.reach == (("*",) if site == "cloud" and kind != "monitor" else ())
        # The names of pods begin with the name of their workload, and workers have their pods'
        # names.
        assert kind != "worker" or has_name(found, f"{name}-5d9f8c7b6d-x2m4q")
    assert {name: set(each["data"]) for name, each in made.items()} == used


def test_without_identities_all_pods_mount_one_token(tmp_path: Path) -> None:
    done = template({**THREE_SITES, "identities": {"enabled": False}}, tmp_path)
    found = [each for each in yaml.safe_load_all(done.stdout) if each]
    [secret] = of_kind(found, "Secret")
    assert not schema_errors(secret, VERSIONS[0])
    for pod in pods(found).values():
        assert trust_of(pod) == (secret["metadata"]["name"], {"token"})
        [container] = pod["spec"]["containers"]
        assert files_in(container) == {"token"}
        assert "MISTBOW_TOKEN" not in {each["name"] for each in container["env"]}


def test_environment_is_accepted_by_the_settings_of_each_service(
    manifests: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trust = FogTrust(tmp_path / "trust")
    made = {
        each["metadata"]["name"]: each for each in made_secrets({**THREE_SITES, **AT_CLOUD}, trust)
    }
    given = {"MISTBOW_NODE": "pod-1", "POD_IP": "10.0.0.7"}
    for pod in pods(manifests).values():
        [container] = pod["spec"]["containers"]
        kind = component(pod)
        folder = tmp_path / trust_of(pod)[0]
        folder.mkdir()
        for name, content in made[folder.name]["data"].items():
            (folder / name).write_bytes(base64.b64decode(content))
        assert container["args"] == [kind]
        with monkeypatch.context() as patch:
            for each in container["env"]:
                value = str(given.get(each["name"], each.get("value")))
                value = value.replace("/run/secrets/mistbow", str(folder))
                patch.setenv(each["name"], value.replace("$(POD_IP)", given["POD_IP"]))
            # A misspelled name would be ignored.
            fields = {name for settings in SETTINGS.values() for name in settings.model_fields}
            for each in container["env"]:
                assert each["name"] == "POD_IP" or (
                    each["name"].removeprefix("MISTBOW_").lower() in fields
                ), each
            settings = SETTINGS[kind]()
        assert settings.agent_url.startswith("http://fog-storage-")  # type: ignore[attr-defined]
        assert container["ports"][0]["containerPort"] == PORTS[kind]
        assert container["readinessProbe"]["exec"]["command"][-1] == str(PORTS[kind])


def test_monitoring_agents_measure_the_machine(manifests: list[dict[str, Any]]) -> None:
    for each in of_kind(manifests, "DaemonSet"):
        [container] = each["spec"]["template"]["spec"]["containers"]
        assert {"name": "MISTBOW_MONITOR_SCOPE", "value": "machine"} in container["env"]


def test_selectors_select_the_pods_that_they_are_made_for(manifests: list[dict[str, Any]]) -> None:
    labels = {name: pod["metadata"]["labels"] for name, pod in pods(manifests).items()}

    def selected(selector: dict[str, str]) -> list[str]:
        return sorted(name for name, has in labels.items() if selector.items() <= has.items())

    for each in of_kind(manifests, "Service"):
        assert selected(each["spec"]["selector"]) == [each["metadata"]["name"]]
    for each in of_kind(manifests, "StatefulSet", "Deployment", "DaemonSet"):
        assert selected(each["spec"]["selector"]["matchLabels"]) == [each["metadata"]["name"]]
    for each in of_kind(manifests, "PodDisruptionBudget"):
        assert selected(each["spec"]["selector"]["matchLabels"]) == [each["metadata"]["name"]]


def test_workers_of_a_site_are_spread_over_its_machines(manifests: list[dict[str, Any]]) -> None:
    workers = [pod for pod in pods(manifests).values() if component(pod) == "worker"]
    assert len(workers) == 2
    for pod in workers:
        [spread] = pod["spec"]["topologySpreadConstraints"]
        assert spread["labelSelector"]["matchLabels"] == pod["metadata"]["labels"]
        # A site with one machine runs all of its workers there.
        assert spread["whenUnsatisfiable"] == "ScheduleAnyway"


def test_network_policies_let_only_services_and_clients_in(manifests: list[dict[str, Any]]) -> None:
    policies = {
        each["metadata"]["name"]: each["spec"] for each in of_kind(manifests, "NetworkPolicy")
    }
    assert policies["fog-deny"]["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in policies["fog-deny"]
    assert "ingress" not in policies["fog-monitor"]
    [worker] = policies["fog-worker"]["ingress"]
    [peer] = worker["from"]
    assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "enabler"
    for name in ("storage", "enabler"):
        [rule] = policies[f"fog-{name}"]["ingress"]
        assert {"ipBlock": {"cidr": "10.0.0.0/8"}} in rule["from"]
        assert rule["ports"] == [{"port": PORTS[name], "protocol": "TCP"}]


def test_secret_is_not_made_beside_an_existing_one(tmp_path: Path) -> None:
    values = {"token": {"existingSecret": "mine"}, "identities": {"enabled": False}}
    done = template({**THREE_SITES, **values}, tmp_path)
    found = list(yaml.safe_load_all(done.stdout))
    assert of_kind([each for each in found if each], "Secret") == []
    assert "secretName: mine" in done.stdout


def test_values_of_a_release_are_completed_by_the_chart_s(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("sites: [{name: a, storage: {size: 1Gi}}]\nenabler: {site: a}\n")
    made = made_secrets(read_values(file), FogTrust(tmp_path / "trust"))
    names = {each["metadata"]["name"] for each in made}
    assert names == {"fog-storage-a", "fog-monitor-a", "fog-enabler-a"}
    made = made_secrets(read_values(None), FogTrust(tmp_path / "trust"))
    assert "fog-worker-cloud" in {each["metadata"]["name"] for each in made}


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"enabler": {"site": "moon"}}, "there is no site moon"),
        ({"sites": [{"name": "A_B", "storage": {"size": "1Gi"}}]}, "does not match pattern"),
        ({"sites": []}, "minItems"),
    ],
)
def test_wrong_values_are_refused(values: dict[str, Any], problem: str, tmp_path: Path) -> None:
    done = template(values, tmp_path)
    assert done.returncode != 0
    assert problem in done.stderr


def test_chart_passes_helm_lint() -> None:
    done = subprocess.run(
        (helm(), "lint", "--strict", "--kube-version", VERSIONS[0], str(CHART)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_image_of_the_chart_is_that_of_its_version(manifests: list[dict[str, Any]]) -> None:
    images = {each["spec"]["containers"][0]["image"] for each in pods(manifests).values()}
    assert images == {f"mistbow:{__version__}"}


def test_roles_have_tags_of_their_own_on_request(tmp_path: Path) -> None:
    tags = {"worker": {"tag": "1"}, "enabler": {"tag": "2"}}
    done = template({**THREE_SITES, "image": {"repository": "r", "tag": "3"}, **tags}, tmp_path)
    assert done.returncode == 0, done.stderr
    found = pods([each for each in yaml.safe_load_all(done.stdout) if each])
    images = {component(pod): pod["spec"]["containers"][0]["image"] for pod in found.values()}
    assert images == {"storage": "r:3", "worker": "r:1", "enabler": "r:2", "monitor": "r:2"}


def test_storage_may_recover_for_minutes_before_it_is_restarted(
    manifests: list[dict[str, Any]],
) -> None:
    for pod in pods(manifests).values():
        [container] = pod["spec"]["containers"]
        probe = container["startupProbe"]
        assert probe["httpGet"] == container["livenessProbe"]["httpGet"]
        allowed = probe["periodSeconds"] * probe["failureThreshold"]
        assert allowed >= (600 if container["name"] == "storage" else 300)


def test_worker_may_leave_before_it_is_killed(manifests: list[dict[str, Any]]) -> None:
    workers = [pod["spec"] for pod in pods(manifests).values() if component(pod) == "worker"]
    for spec in workers:
        env = {each["name"]: each.get("value") for each in spec["containers"][0]["env"]}
        assert 0 < int(str(env["MISTBOW_DRAIN_S"])) <= spec["terminationGracePeriodSeconds"] - 15


def test_components_have_images_of_their_own_on_request(tmp_path: Path) -> None:
    image = {"repository": "registry/mistbow", "tag": "1", "perRole": True}
    done = template({**THREE_SITES, "image": image}, tmp_path)
    assert done.returncode == 0, done.stderr
    found = set()
    for each in filter(None, yaml.safe_load_all(done.stdout)):
        if each["kind"] in ("StatefulSet", "Deployment", "DaemonSet"):
            (container,) = each["spec"]["template"]["spec"]["containers"]
            found.add((container["name"], container["image"]))
    assert found == {
        ("storage", "registry/mistbow-storage:1"),
        ("worker", "registry/mistbow-worker:1"),
        ("enabler", "registry/mistbow-enabler:1"),
        ("monitor", "registry/mistbow-enabler:1"),
    }
