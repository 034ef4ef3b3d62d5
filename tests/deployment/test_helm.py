"""The Helm chart, rendered by Helm, and checked against the schemas of Kubernetes' API."""

import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from analytics_enabler.settings import EnablerSettings
from analytics_worker.settings import WorkerSettings
from deploy import image
from mistbow.setting_values import CheckedSettings
from monitoring_agent.settings import MonitorSettings
from storage_agent.settings import AgentSettings
from tests.support.kubernetes import VERSIONS, helm, schema_errors

CHART = image.ROOT / "deploy" / "helm" / "mistbow"
THREE_SITES = {
    "sites": [
        {
            "name": "cloud",
            "region": "centre",
            "storage": {"size": "20Gi"},
            "worker": {"replicas": 2},
        },
        {
            "name": "edge-north",
            "region": "north",
            "labels": "battery=true",
            "nodeSelector": {"site": "north"},
            "tolerations": [{"key": "edge", "operator": "Exists"}],
            "storage": {"size": "2Gi", "storageClassName": "local"},
            "worker": {"replicas": 1, "resources": {"limits": {"memory": "1Gi"}}},
        },
        {"name": "edge-south", "storage": {"size": "2Gi"}},
    ],
    "settings": {"MISTBOW_LATENESS_MS": 2000},
    "networkPolicy": {"clients": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
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
        "Secret": 1,
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


def test_pods_have_no_privileges_and_read_the_token_from_a_file(
    manifests: list[dict[str, Any]],
) -> None:
    [secret] = of_kind(manifests, "Secret")
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
        names = {each["name"] for each in container["env"]}
        assert "MISTBOW_TOKEN_FILE" in names
        assert "MISTBOW_TOKEN" not in names
        mounted = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
        assert mounted["token"] == "/run/secrets/mistbow"  # noqa: S105 - a path
        [token] = [each for each in spec["volumes"] if each["name"] == "token"]
        assert token["secret"]["secretName"] == secret["metadata"]["name"]


def test_environment_is_accepted_by_the_settings_of_each_service(
    manifests: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    given = {"MISTBOW_NODE": "pod-1", "POD_IP": "10.0.0.7", "MISTBOW_TOKEN_FILE": str(token)}
    for pod in pods(manifests).values():
        [container] = pod["spec"]["containers"]
        kind = component(pod)
        assert container["args"] == [kind]
        with monkeypatch.context() as patch:
            for each in container["env"]:
                value = given.get(each["name"], each.get("value"))
                patch.setenv(each["name"], str(value).replace("$(POD_IP)", given["POD_IP"]))
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
    done = template({**THREE_SITES, "token": {"existingSecret": "mine"}}, tmp_path)
    found = list(yaml.safe_load_all(done.stdout))
    assert of_kind([each for each in found if each], "Secret") == []
    assert "secretName: mine" in done.stdout


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
