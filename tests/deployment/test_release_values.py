"""The values of a Helm release, as ``python -m deploy secrets`` reads them."""

from pathlib import Path

import pytest

from deploy.kubernetes import read_values, release_prefix, secrets
from fog_emulation.fog_trust import FogTrust
from mistbow.errors import InvalidRequestError


def written(folder: Path, text: str) -> Path:
    file = folder / "values.yaml"
    file.write_text(text)
    return file


def test_fields_are_merged_with_those_of_the_chart(tmp_path: Path) -> None:
    text = "enabler: {resources: {limits: {memory: 1Gi}}}\ntls: {enabled: true}\n"
    values = read_values(written(tmp_path, f"{text}monitor: {{enabled: false}}\n"))
    assert values["enabler"]["site"] == "cloud"
    assert values["tls"] == {"enabled": True, "existingSecrets": False}
    made = list(secrets(values, "my.fog", "mistbow", FogTrust(tmp_path / "trust"), pytest.fail))
    names = {each["metadata"]["name"] for each in made}
    assert names == {"my-fog-storage-cloud", "my-fog-worker-cloud", "my-fog-enabler-cloud"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[1]", "contains no values"),
        ("a: [", "is not valid YAML"),
        ("sites: {name: a}", "write a list of sites"),
        ("sites: [{storage: {size: 1Gi}}]", "each with a name"),
        ("sites: [{name: a}]", "enabler.site: there is no site cloud"),
        ("tls: true", "tls: write fields"),
    ],
)
def test_wrong_values_are_refused(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=problem):
        read_values(written(tmp_path, text))


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="cannot be read: No such file"):
        read_values(tmp_path / "none.yaml")


@pytest.mark.parametrize("release", ["1fog", "Fog", "fog_1", "", "f" * 54])
def test_name_of_a_release_that_kubernetes_or_helm_refuses_is_refused(release: str) -> None:
    with pytest.raises(InvalidRequestError, match="must begin with a letter"):
        release_prefix(release)
