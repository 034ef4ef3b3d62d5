"""The certificates of a composed fog's containers."""

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from cryptography import x509

from deploy import image
from deploy.certificates import LABEL, FogCertificates
from fog_emulation.fog_trust import FOLDER
from mistbow.auth.authority import CertificateAuthority
from mistbow.clock import utc_now

EDGE = SimpleNamespace(
    name="fog_edge_2",
    labels={LABEL: "service"},
    attrs={
        "NetworkSettings": {
            "Networks": {
                "fog_internet": {"Aliases": ["edge", "edge-2.internet"]},
                "fog_street": {"Aliases": None},
            }
        }
    },
)
"""What Docker reports about a container."""

OVERRIDE = yaml.safe_load((image.ROOT / "docker-compose.tls.yml").read_text())["services"]
PLAIN = yaml.safe_load((image.ROOT / "docker-compose.yml").read_text())["services"]


@pytest.fixture
def certificates(tmp_path: Path) -> FogCertificates:
    return FogCertificates(tmp_path / "ca")


def certificate(files: dict[str, bytes]) -> x509.Certificate:
    return x509.load_pem_x509_certificate(files["service.pem"])


def test_certificate_is_for_the_container_s_own_names(certificates: FogCertificates) -> None:
    files = certificates.files(EDGE)
    names = certificate(files).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    # Not for the name of its service, which its replicas share.
    assert {str(each.value) for each in names.value} == {
        "127.0.0.1", "localhost", "fog_edge_2", "fog_edge_2.fog_internet", "fog_edge_2.fog_street",
        "edge-2.internet",
    }  # fmt: skip
    assert files.keys() == {"bundle.pem", "service.pem", "service.key"}
    client = SimpleNamespace(name="buses", labels={LABEL: "client"})
    assert certificates.files(client).keys() == {"bundle.pem"}
    assert certificates.files(SimpleNamespace(name="other", labels={})) == {}


def test_certificate_stays_until_its_names_its_authority_or_its_end_require_another(
    certificates: FogCertificates, tmp_path: Path
) -> None:
    first = certificates.files(EDGE)
    assert certificates.files(EDGE) == first
    moved = SimpleNamespace(**{**vars(EDGE), "attrs": {"NetworkSettings": {"Networks": {}}}})
    second = certificates.files(moved)
    assert second["service.pem"] != first["service.pem"]
    authority = CertificateAuthority(tmp_path / "ca")
    authority.rotate(utc_now() + timedelta(days=3650))
    third = certificates.files(moved)
    assert third["service.pem"] != second["service.pem"]
    assert second["bundle.pem"] in third["bundle.pem"]
    authority.issue("fog_edge_2", ["127.0.0.1", "localhost"], utc_now() + timedelta(days=9))
    assert certificate(certificates.files(moved)).not_valid_after_utc > (
        utc_now() + timedelta(days=300)
    )


def test_override_changes_each_service_to_mutual_tls() -> None:
    assert OVERRIDE.keys() == PLAIN.keys()
    for name, service in OVERRIDE.items():
        variables = {**PLAIN[name]["environment"], **service["environment"]}
        command = service.get("command", PLAIN[name]["command"])
        assert "http://" not in str([*variables.values(), *command])
        files = {key: each for key, each in variables.items() if key.startswith("MISTBOW_TLS_")}
        assert {str(Path(each).parent) for each in files.values()} == {FOLDER}
        is_sender = name == "buses"
        assert service["labels"] == {LABEL: "client" if is_sender else "service"}
        assert len(files) == (1 if is_sender else 4)
        # Apart from the schemes, the addresses are those of docker-compose.yml.
        for key, text in service["environment"].items():
            if not key.startswith("MISTBOW_TLS_"):
                assert text.replace("https://", "http://") == PLAIN[name]["environment"][key]
        if "command" in service:
            words = [each.replace("https://", "http://") for each in command]
            assert words == PLAIN[name]["command"]
