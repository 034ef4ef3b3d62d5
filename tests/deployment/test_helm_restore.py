"""The pod that restores a site on Kubernetes: it stands in for the pod of the site's storage."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import image
from tests.deployment.test_helm import THREE_SITES, of_kind, template
from tests.support.kubernetes import VERSIONS, schema_errors

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.timeout(1200)]

PAGE = (image.ROOT / "docs" / "kubernetes.md").read_text()
IMAGE = {"repository": "registry.example/mistbow", "tag": "0.1.0"}


@pytest.fixture
def restore() -> dict[str, Any]:
    """The manifest of the documentation."""
    [text] = re.findall(r"```yaml\n# restore\.yaml\n(.*?)```", PAGE, re.DOTALL)
    manifest: dict[str, Any] = yaml.safe_load(text)
    return manifest


def test_manifest_satisfies_the_schemas(restore: dict[str, Any]) -> None:
    assert not [errors for version in VERSIONS if (errors := schema_errors(restore, version))]


def test_pod_has_the_volume_the_user_and_the_image_of_storage(
    restore: dict[str, Any], tmp_path: Path
) -> None:
    done = template({**THREE_SITES, "image": IMAGE}, tmp_path)
    assert done.returncode == 0, done.stderr
    found = [each for each in yaml.safe_load_all(done.stdout) if each]
    [storage] = [
        each
        for each in of_kind(found, "StatefulSet")
        if each["metadata"]["name"] == "fog-storage-edge-north"
    ]
    pod = storage["spec"]["template"]["spec"]
    for field in ("securityContext", "nodeSelector", "automountServiceAccountToken"):
        assert restore["spec"][field] == pod[field]
    [own], [container] = restore["spec"]["containers"], pod["containers"]
    for field in ("image", "securityContext", "resources"):
        assert own[field] == container[field]
    assert own["env"] == [each for each in container["env"] if each["name"] == "MISTBOW_HOME"]
    mounts = {each["name"]: each["mountPath"] for each in own["volumeMounts"]}
    assert {"name": "data", "mountPath": mounts["data"]} in container["volumeMounts"]
    [claim] = storage["spec"]["volumeClaimTemplates"]
    claimed = f"{claim['metadata']['name']}-{storage['metadata']['name']}-0"
    [volume] = [each for each in restore["spec"]["volumes"] if each["name"] == "data"]
    assert volume["persistentVolumeClaim"] == {"claimName": claimed}
    # The commands name the same objects.
    for name in (f"statefulset {storage['metadata']['name']}", restore["metadata"]["name"]):
        assert name in PAGE
