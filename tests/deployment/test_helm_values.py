"""The Helm chart with unusual values and names: Kubernetes accepts it, or Helm refuses it."""

import json
import subprocess
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from pydantic import TypeAdapter

from deploy.kubernetes import release_prefix
from mistbow.errors import InvalidRequestError
from monitoring_agent.settings import MonitorSettings
from tests.deployment.test_helm import CHART, THREE_SITES, component, of_kind, pods
from tests.support.kubernetes import VERSIONS, helm, schema_errors

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.timeout(1200)]

LONG_SITE = "a" * 30


def render(
    values: dict[str, Any], folder: Path, release: str, *options: str
) -> subprocess.CompletedProcess[str]:
    file = folder / "values.yaml"
    # JSON, because PyYAML and Helm read texts such as 1e3 differently.
    file.write_text(json.dumps(values))
    argv = [helm(), "template", release, str(CHART), "--namespace", "mistbow"]
    argv += ["--values", str(file), "--kube-version", VERSIONS[0], *options]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def rendered(values: dict[str, Any], folder: Path, release: str = "fog") -> list[dict[str, Any]]:
    done = render(values, folder, release)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def one_site(name: str = "cloud", **parts: Any) -> dict[str, Any]:
    site = {"name": name, "storage": {"size": "1Gi"}, "worker": {"replicas": 1}, **parts}
    return {"sites": [site], "enabler": {"site": name}}


def containers(manifests: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found = {}
    for pod in pods(manifests).values():
        [found[component(pod)]] = pod["spec"]["containers"]
    return found


@pytest.mark.parametrize("release", ["my.fog.v2", "f" * 53, "fog-" + "a" * 19 + "-b", "x1e3"])
def test_release_of_any_name_has_valid_names(release: str, tmp_path: Path) -> None:
    found = rendered(THREE_SITES, tmp_path, release)
    assert not [errors for each in found if (errors := schema_errors(each, VERSIONS[1]))]
    for each in of_kind(found, "Service"):
        name = each["metadata"]["name"]
        assert len(name) <= 63
        assert name.replace("-", "").isalnum()
    prefix = release_prefix(release)
    assert all(each["metadata"]["name"].startswith(f"{prefix}-") for each in found)
    assert {each["metadata"]["labels"]["app.kubernetes.io/instance"] for each in found} == {release}


@pytest.mark.parametrize("release", ["1fog", "7"])
def test_release_whose_name_begins_with_a_digit_is_refused(release: str, tmp_path: Path) -> None:
    done = render(THREE_SITES, tmp_path, release)
    assert f"the name of the release, {release}, must begin with a letter" in done.stderr
    with pytest.raises(InvalidRequestError, match="must begin with a letter"):
        release_prefix(release)


@pytest.mark.parametrize("name", ["10", "1e3", "true", "null", "0x10"])
def test_name_of_a_site_that_yaml_reads_otherwise_stays_a_text(name: str, tmp_path: Path) -> None:
    found = rendered(one_site(name), tmp_path)
    assert not [errors for each in found if (errors := schema_errors(each, VERSIONS[1]))]
    storage = containers(found)["storage"]
    assert {"name": "MISTBOW_SITE", "value": name} in storage["env"]


def test_name_of_a_workload_leaves_room_for_the_hashes_of_kubernetes(tmp_path: Path) -> None:
    """A StatefulSet of more than 52 characters is accepted, but its pods cannot be created."""
    found = rendered(one_site(LONG_SITE), tmp_path, "fog-of-8")
    assert max(len(each["metadata"]["name"]) for each in of_kind(found, "StatefulSet")) <= 52
    done = render(one_site(LONG_SITE, worker=None), tmp_path, "a-fog-of-16-char")
    assert "-storage-" in done.stderr
    assert "at most 52 are possible" in done.stderr
    done = render(one_site("a" * 29), tmp_path, "fog-of-10c")
    assert "at most 46 are possible" in done.stderr


def test_two_sites_with_one_name_are_refused(tmp_path: Path) -> None:
    values = one_site()
    done = render({**values, "sites": values["sites"] * 2}, tmp_path, "fog")
    assert "there are two sites cloud" in done.stderr


@pytest.mark.parametrize(
    "selectors",
    [
        ({"site": "cloud"}, {}),
        ({}, {"site": "north"}),
        ({"site": "cloud"}, {"zone": "north"}),
        ({"site": "cloud"}, {"site": "cloud", "zone": "north"}),
    ],
    ids=["second", "first", "labels", "subset"],
)
def test_two_sites_that_a_node_can_belong_to_are_refused(
    selectors: tuple[dict[str, str], dict[str, str]], tmp_path: Path
) -> None:
    cloud, north = (
        {"name": name, "storage": {"size": "1Gi"}, "nodeSelector": selector}
        for name, selector in zip(("cloud", "north"), selectors, strict=True)
    )
    done = render({"sites": [cloud, north]}, tmp_path, "fog")
    assert "sites: a node can belong to both cloud and north" in done.stderr


def test_upgrade_is_rendered_without_a_cluster(tmp_path: Path) -> None:
    done = render(one_site(), tmp_path, "fog", "--is-upgrade")
    assert done.returncode == 0, done.stderr


def test_image_that_is_not_pulled_again_needs_a_tag_of_its_own(tmp_path: Path) -> None:
    latest = {"repository": "mistbow", "tag": "latest"}
    done = render({**one_site(), "image": latest}, tmp_path, "fog")
    assert "choose a tag for each version instead of latest" in done.stderr
    assert rendered({**one_site(), "image": {**latest, "pullPolicy": "Always"}}, tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"networkPolicies": {"enabled": False}},
        {"image": {"repository": "a", "tag": "b", "pullPolicy": "Allways"}},
        {"settings": {"LATENESS_MS": 1}},
        {"sites": [{"name": "cloud", "storage": {"size": "1Gi", "storageClass": "fast"}}]},
        {"sites": [{"name": "cloud", "storage": {"size": "1Gi"}, "worker": {"replica": 2}}]},
    ],
    ids=["top", "choice", "setting", "storage", "worker"],
)
def test_misspelled_value_is_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    done = render({**one_site(), **wrong}, tmp_path, "fog")
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr


def test_interval_of_the_chart_has_the_bounds_of_the_monitoring_agent() -> None:
    allowed = TypeAdapter(Annotated[int, MonitorSettings.model_fields["interval_ms"]])
    schema = json.loads((CHART / "values.schema.json").read_text())
    value = schema["properties"]["monitor"]["properties"]["intervalMs"]
    bounds = {name: value.get(name) for name in ("minimum", "maximum")}
    assert bounds == {name: allowed.json_schema().get(name) for name in bounds}


def test_large_number_of_a_setting_has_no_exponent(tmp_path: Path) -> None:
    settings = {"MISTBOW_MAX_BODY_BYTES": 16777216, "MISTBOW_PATIENCE_MS": 2000, "MISTBOW_X": 0.5}
    found = rendered({**one_site(), "settings": {**settings, "MISTBOW_PAGES": True}}, tmp_path)
    env = {each["name"]: each.get("value") for each in containers(found)["enabler"]["env"]}
    assert env["MISTBOW_MAX_BODY_BYTES"] == "16777216"
    assert (env["MISTBOW_PATIENCE_MS"], env["MISTBOW_X"], env["MISTBOW_PAGES"]) == (
        "2000",
        "0.5",
        "true",
    )


def test_sites_without_resources_have_those_of_the_chart(tmp_path: Path) -> None:
    own = {"limits": {"memory": "1Gi"}}
    found = containers(rendered(one_site(), tmp_path))
    assert found["storage"]["resources"]["limits"] == {"memory": "608Mi"}
    assert found["worker"]["resources"]["limits"] == {"memory": "2400Mi"}
    found = containers(
        rendered(
            one_site(
                storage={"size": "1Gi", "resources": own}, worker={"replicas": 1, "resources": own}
            ),
            tmp_path,
        )
    )
    assert found["storage"]["resources"] == found["worker"]["resources"] == own


def test_node_without_room_for_two_workers_replaces_one_after_the_other(tmp_path: Path) -> None:
    update = {"maxSurge": 0, "maxUnavailable": 1}
    found = rendered(one_site(worker={"replicas": 1, "rollingUpdate": update}), tmp_path)
    strategies = {
        each["metadata"]["name"]: each["spec"]["strategy"] for each in of_kind(found, "Deployment")
    }
    assert strategies["fog-worker-cloud"] == {"type": "RollingUpdate", "rollingUpdate": update}


def test_prometheus_and_brokers_pass_the_network_policies_on_request(tmp_path: Path) -> None:
    prometheus = {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}
    broker = {"to": [{"ipBlock": {"cidr": "10.1.2.3/32"}}], "ports": [{"port": 8883}]}
    values = {"networkPolicy": {"scrapers": [prometheus], "egress": [broker]}}
    found = rendered({**one_site(), **values}, tmp_path)
    assert not [errors for each in found if (errors := schema_errors(each, VERSIONS[0]))]
    policies = {each["metadata"]["name"]: each["spec"] for each in of_kind(found, "NetworkPolicy")}
    for name in ("storage", "worker", "enabler", "monitor"):
        [rule] = policies[f"fog-{name}"]["ingress"]
        assert prometheus in rule["from"]
    assert broker in policies["fog-deny"]["egress"]


def test_settings_of_a_secret_reach_storage_only(tmp_path: Path) -> None:
    found = rendered({**one_site(), "storage": {"secretSettings": "mqtt"}}, tmp_path)
    assert not [errors for each in found if (errors := schema_errors(each, VERSIONS[0]))]
    sources = {kind: each.get("envFrom") for kind, each in containers(found).items()}
    assert sources.pop("storage") == [{"secretRef": {"name": "mqtt"}}]
    assert set(sources.values()) == {None}
