"""The Helm chart with mutual TLS: each address in it is one of a certificate."""

import base64
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from deploy.entrypoint import fill
from deploy.kubernetes import secrets as release_secrets
from fog_emulation.fog_trust import FogTrust
from mistbow.auth.authority import CertificateAuthority
from mistbow.clock import utc_now
from mistbow.errors import ConflictError
from tests.deployment.test_helm import (
    AT_CLOUD,
    PORTS,
    THREE_SITES,
    component,
    made_secrets,
    of_kind,
    pods,
    template,
)
from tests.support.kubernetes import VERSIONS, schema_errors

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.timeout(1200)]

TLS = {"tls": {"enabled": True, "existingSecrets": False}}
FOLDER = "/run/secrets/mistbow-tls/"


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    done = template({**THREE_SITES, **TLS}, tmp_path_factory.mktemp("values"))
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


@pytest.fixture
def secrets(tmp_path: Path) -> dict[str, dict[str, bytes]]:
    """Return name of the secret -> its files."""
    made = made_secrets({**THREE_SITES, **AT_CLOUD, **TLS}, FogTrust(tmp_path))
    assert not [each for each in made for version in VERSIONS if schema_errors(each, version)]
    return {
        each["metadata"]["name"]: {
            name: base64.b64decode(content) for name, content in each["data"].items()
        }
        for each in made
    }


def verify(files: dict[str, bytes], host: str) -> None:
    """Verify a certificate for a host as a client does; raises ``VerificationError``."""
    store = Store(x509.load_pem_x509_certificates(files["bundle.pem"]))
    verifier = PolicyBuilder().store(store).build_server_verifier(x509.DNSName(host))
    verifier.verify(x509.load_pem_x509_certificate(files["service.pem"]), [])


def addresses(pod: dict[str, Any]) -> list[str]:
    """Return the addresses in the environment of a pod, as the image fills them."""
    [container] = pod["spec"]["containers"]
    values = [str(each.get("value", "")) for each in container["env"]]
    texts = (value.replace("$(POD_IP)", "10.0.0.7") for value in values if "://" in value)
    return [fill(text, []) for text in texts]


def test_manifests_satisfy_the_schemas(manifests: list[dict[str, Any]]) -> None:
    found = [schema_errors(each, version) for each in manifests for version in VERSIONS]
    assert not [each for each in found if each]


def test_each_address_is_one_of_the_certificate_of_its_component(
    manifests: list[dict[str, Any]], secrets: dict[str, dict[str, bytes]]
) -> None:
    seen = set()
    for pod in pods(manifests).values():
        for url in addresses(pod):
            parts = urlsplit(url)
            assert parts.scheme == "https"
            assert parts.hostname is not None
            name = next(each for each in parts.hostname.split(".") if each.startswith("fog-"))
            kind = name.split("-")[1]
            assert parts.port == PORTS[kind]
            secret = "fog-enabler-cloud" if kind == "enabler" else name
            verify(secrets[secret], parts.hostname)
            seen.add((kind, parts.hostname))
            other = "fog-monitor-cloud"
            with pytest.raises(VerificationError):
                verify(secrets[other], parts.hostname)
    assert ("worker", "10-0-0-7.fog-worker-cloud.mistbow.svc") in seen
    assert {kind for kind, _ in seen} == {"storage", "worker", "enabler"}


def test_each_service_serves_and_calls_by_tls(
    manifests: list[dict[str, Any]], secrets: dict[str, dict[str, bytes]]
) -> None:
    for name, pod in pods(manifests).items():
        [container] = pod["spec"]["containers"]
        env = {each["name"]: each.get("value") for each in container["env"]}
        files = {key: text for key, text in env.items() if key.startswith("MISTBOW_TLS_")}
        assert files == {
            "MISTBOW_TLS_CERT": f"{FOLDER}service.pem",
            "MISTBOW_TLS_KEY": f"{FOLDER}service.key",
            "MISTBOW_TLS_CA": f"{FOLDER}bundle.pem",
            "MISTBOW_TLS_CLIENT_CA": f"{FOLDER}bundle.pem",
        }
        mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
        assert f"{mounts['tls']}/" == FOLDER
        [volume] = [each for each in pod["spec"]["volumes"] if each["name"] == "tls"]
        [trust] = [each for each in pod["spec"]["volumes"] if each["name"] == "trust"]
        assert volume["secret"]["secretName"] == trust["secret"]["secretName"]
        keys = {each["key"] for each in volume["secret"]["items"]}
        assert keys == {Path(file).name for file in files.values()}
        assert keys <= secrets[volume["secret"]["secretName"]].keys(), name
        assert container["livenessProbe"]["httpGet"]["scheme"] == "HTTPS"
        assert pod["metadata"]["annotations"]["prometheus.io/scheme"] == "https"


def test_each_pod_of_a_worker_has_a_name(manifests: list[dict[str, Any]]) -> None:
    services = {each["metadata"]["name"]: each["spec"] for each in of_kind(manifests, "Service")}
    workers = {name: pod for name, pod in pods(manifests).items() if component(pod) == "worker"}
    assert workers.keys() <= services.keys()
    for name, pod in workers.items():
        assert services[name]["clusterIP"] == "None"
        assert services[name]["publishNotReadyAddresses"] is True
        assert services[name]["selector"].items() <= pod["metadata"]["labels"].items()


def test_secrets_of_a_rotation_verify_before_and_after_each_step(tmp_path: Path) -> None:
    """Nodes get the Secrets of a step at different times."""
    values = {**THREE_SITES, **AT_CLOUD, **TLS}
    authority = CertificateAuthority(tmp_path / "ca")

    def step(*, trust_only: bool = False) -> list[dict[str, bytes]]:
        trust = FogTrust(tmp_path)
        made = release_secrets(values, "fog", "mistbow", trust, pytest.fail, trust_only=trust_only)
        return [
            {name: base64.b64decode(text) for name, text in each["data"].items()} for each in made
        ]

    steps = [step(), step()]
    assert steps[0] == steps[1]
    authority.rotate(utc_now() + timedelta(days=3650))
    for _ in range(2):  # a refused command changes nothing
        with pytest.raises(ConflictError, match="have not received the new one yet") as refused:
            step()
        assert "--trust-only" in (refused.value.hint or "")
    steps += [step(trust_only=True), step()]
    authority.finish()
    steps.append(step())
    for before, after in pairwise(steps):
        mixed = [{**one, "bundle.pem": other["bundle.pem"]} for one in before for other in after]
        mixed += [{**one, "bundle.pem": other["bundle.pem"]} for one in after for other in before]
        for files in mixed:
            verify(files, "localhost")
    trusted = [[each["bundle.pem"] for each in made] for made in steps[2:]]
    issued = [[each["service.pem"] for each in made] for made in steps[1:4]]
    assert issued[0] == issued[1]
    assert not set(issued[1]) & set(issued[2])
    assert trusted[0] == trusted[1]
    assert set(trusted[2]) == {authority.bundle.read_bytes()} != set(trusted[1])
    assert [{**each, "bundle.pem": b""} for each in steps[1]] == [
        {**each, "bundle.pem": b""} for each in steps[2]
    ]


def test_second_rotation_needs_its_own_delivery(tmp_path: Path) -> None:
    values = {**THREE_SITES, **AT_CLOUD, **TLS}
    authority = CertificateAuthority(tmp_path / "ca")

    def step(*, trust_only: bool = False) -> list[dict[str, Any]]:
        trust = FogTrust(tmp_path)
        made = release_secrets(values, "fog", "mistbow", trust, pytest.fail, trust_only=trust_only)
        return list(made)

    step()
    authority.rotate(utc_now() + timedelta(days=3650))
    interrupted = release_secrets(
        values, "fog", "mistbow", FogTrust(tmp_path), pytest.fail, trust_only=True
    )
    next(interrupted)  # the other Secrets are not requested
    with pytest.raises(ConflictError):
        step()
    step(trust_only=True)
    authority.rotate(utc_now() + timedelta(days=3650))
    with pytest.raises(ConflictError):
        step()
    step(trust_only=True)
    assert step()


def test_service_without_a_certificate_gets_one_while_only_the_trust_changes(
    tmp_path: Path,
) -> None:
    values = {**THREE_SITES, **AT_CLOUD, **TLS}
    made = list(
        release_secrets(values, "fog", "mistbow", FogTrust(tmp_path), pytest.fail, trust_only=True)
    )
    assert all("service.key" in each["data"] for each in made)


def test_certificates_of_the_operator_are_mounted(tmp_path: Path) -> None:
    given = {"tls": {"enabled": True, "existingSecrets": True}}
    done = template({**THREE_SITES, **given}, tmp_path)
    assert done.returncode == 0, done.stderr
    found = [each for each in yaml.safe_load_all(done.stdout) if each]
    for name, pod in pods(found).items():
        [volume] = [each for each in pod["spec"]["volumes"] if each["name"] == "tls"]
        site = pod["metadata"]["labels"].get("mistbow.io/site")
        expected = name if site else f"{name}-cloud"
        assert volume["secret"]["secretName"] == f"{expected}-tls"
        assert {each["key"]: each["path"] for each in volume["secret"]["items"]} == {
            "tls.crt": "service.pem", "tls.key": "service.key", "ca.crt": "bundle.pem"
        }  # fmt: skip
    made = made_secrets({**THREE_SITES, **AT_CLOUD, **given}, FogTrust(tmp_path / "trust"))
    assert not [each for each in made if "service.key" in each["data"]]


def test_certificates_need_secrets_of_their_own(tmp_path: Path) -> None:
    done = template({**THREE_SITES, **TLS, "identities": {"enabled": False}}, tmp_path)
    assert done.returncode != 0
    assert "tls.enabled needs identities.enabled or tls.existingSecrets" in done.stderr
