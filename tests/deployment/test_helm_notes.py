"""What Helm prints after the installation of the chart."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import image
from tests.support.kubernetes import VERSIONS, helm

CHART = image.ROOT / "deploy" / "helm" / "mistbow"
SITES = {"sites": [{"name": "cloud", "storage": {"size": "1Gi"}}], "enabler": {"site": "cloud"}}
RENDERED = """
kind: ConfigMap
apiVersion: v1
metadata: {name: notes}
data: {notes: {{ include "test.notes" . | toJson }}}
"""
"""`helm template` renders no notes, so the test makes a manifest of them."""

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.timeout(1200)]


def notes(values: dict[str, Any], folder: Path) -> str:
    chart = folder / "mistbow"
    shutil.copytree(CHART, chart)
    text = (chart / "templates" / "NOTES.txt").read_text()
    definition = f'{{{{- define "test.notes" -}}}}{text}{{{{- end -}}}}'
    (chart / "templates" / "_notes.tpl").write_text(definition)
    (chart / "templates" / "notes.yaml").write_text(RENDERED)
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(SITES | values))
    argv = [
        helm(),
        "template",
        "my.fog",
        str(chart),
        "--namespace",
        "mistbow",
        "--values",
        str(file),
    ]
    argv += ["--kube-version", VERSIONS[0], "--show-only", "templates/notes.yaml"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: str = yaml.safe_load(done.stdout)["data"]["notes"]
    return found


@pytest.mark.parametrize(
    ("values", "scheme", "trusted"),
    [
        ({}, "http", ("TOKEN_FILE",)),
        ({"tls": {"enabled": True}}, "https", ("TOKEN_FILE", "TLS_CA")),
        ({"identities": {"enabled": False}}, "http", ("TOKEN",)),
    ],
    ids=["identities", "tls", "token"],
)
def test_notes_export_the_settings_with_which_commands_reach_the_forwarded_ports(
    values: dict[str, Any], scheme: str, trusted: tuple[str, ...], tmp_path: Path
) -> None:
    text = notes(values, tmp_path)
    ports = re.compile(r"^  kubectl .*port-forward service/(\S+) (\d+) &$", re.MULTILINE)
    forwarded = dict(ports.findall(text))
    assert forwarded == {"my-fog-enabler": "8000", "my-fog-storage-cloud": "8300"}
    [lines] = re.findall(r"(?:^  export .+\n)+", text, re.MULTILINE)
    exported = dict(re.findall(r"MISTBOW_(\w+)=(\S+)", lines))
    folder = ".mistbow/kubernetes/mistbow-my.fog"
    expected = {
        "ENABLER_URL": f"{scheme}://127.0.0.1:8000",
        "AGENT_URL": f"{scheme}://127.0.0.1:8300",
        "TOKEN_FILE": f"{folder}/tokens/cloud-admin.token",
        "TLS_CA": f"{folder}/ca/bundle.pem",
        "TOKEN": "$(kubectl",
    }
    assert exported == {name: expected[name] for name in ("ENABLER_URL", "AGENT_URL", *trusted)}
    assert ("deploy secrets" in text) == ("TOKEN" not in trusted)
    # Without --server-side, an annotation would store each private key a second time.
    assert text.count("kubectl apply --server-side --filename -") == text.count("deploy secrets")
