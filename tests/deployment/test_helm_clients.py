"""The Helm chart with clients outside of the cluster."""

import base64
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import image
from deploy.kubernetes import read_values
from fog_emulation.fog_trust import FogTrust
from tests.deployment.test_helm import made_secrets, of_kind, pods, template
from tests.deployment.test_helm_tls import verify
from tests.support.kubernetes import VERSIONS, schema_errors

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.timeout(1200)]

CLOUD = {"name": "cloud", "nodeSelector": {"site": "cloud"}, "storage": {"size": "1Gi"}}


def documented() -> dict[str, Any]:
    """Return the values of the documentation, with the site of the enabler."""
    page = (image.ROOT / "docs" / "kubernetes.md").read_text()
    [text] = re.findall(r"```yaml\n(sites:.*?expose.*?)```", page, re.DOTALL)
    values: dict[str, Any] = yaml.safe_load(text)
    return {**values, "sites": [CLOUD, *values["sites"]]}


def test_documented_clients_reach_one_pod_each_through_the_policies(tmp_path: Path) -> None:
    values = documented()
    done = template(values, tmp_path)
    assert done.returncode == 0, done.stderr
    found = [each for each in yaml.safe_load_all(done.stdout) if each]
    assert not [
        each for one in found for version in VERSIONS if (each := schema_errors(one, version))
    ]
    exposed = {
        each["metadata"]["name"]: each["spec"]
        for each in of_kind(found, "Service")
        if "type" in each["spec"]
    }
    assert {name: spec["type"] for name, spec in exposed.items()} == {
        "fog-clients-storage-edge-north": "NodePort",
        "fog-clients-enabler": "LoadBalancer",
    }
    policies = {each["metadata"]["name"]: each["spec"] for each in of_kind(found, "NetworkPolicy")}
    for spec in exposed.values():
        assert spec["externalTrafficPolicy"] == "Local"
        [port] = spec["ports"]
        [pod] = [
            pod
            for pod in pods(found).values()
            if spec["selector"].items() <= pod["metadata"]["labels"].items()
        ]
        [container] = pod["spec"]["containers"]
        assert container["ports"] == [{"name": port["targetPort"], "containerPort": port["port"]}]
        component = pod["metadata"]["labels"]["app.kubernetes.io/component"]
        [rule] = policies[f"fog-{component}"]["ingress"]
        assert values["networkPolicy"]["clients"][0] in rule["from"]
        assert rule["ports"] == [{"port": port["port"], "protocol": "TCP"}]
    assert exposed["fog-clients-storage-edge-north"]["ports"][0]["nodePort"] == 30830


def test_certificates_are_for_the_names_that_clients_use(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump({**documented(), "tls": {"enabled": True}}))
    made = {
        each["metadata"]["name"]: {
            name: base64.b64decode(text) for name, text in each["data"].items()
        }
        for each in made_secrets(read_values(file), FogTrust(tmp_path / "trust"))
    }
    verify(made["fog-storage-edge-north"], "gateway.north.example")
    verify(made["fog-enabler-cloud"], "fog.example")
