"""Identities that ``make up`` and ``make identities`` put into hardened containers."""

import socket
import ssl
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.certificates import FogCertificates
from deploy.identities import Delivery, deliver
from fog_emulation.fog_trust import FOLDER, FogTrust
from mistbow.auth.authority import CertificateAuthority
from mistbow.auth.fog_keys import FogKeys
from mistbow.clock import utc_now
from tests.support.conditions import eventually
from tests.support.emulated_fogs import IMAGE, NEED_IMAGE, ROOT
from tests.support.secret_search import present_beside_files, present_in_container, secrets_in

docker = pytest.importorskip("docker")

pytestmark = NEED_IMAGE

LABELS = {
    "mistbow.site": "edge-{replica}",
    "mistbow.identities": "agent,worker",
    "com.docker.compose.container-number": "4",
}


@pytest.fixture
def start(containers: None) -> Iterator[Callable[..., Any]]:
    """Return a function that starts a container as compose does: hardened, with its volume."""
    made = []

    def run(
        command: list[str],
        *,
        environment: dict[str, str] | None = None,
        labels: dict[str, str] | None = None,
        **more: Any,
    ) -> Any:
        made.append(
            docker.from_env().containers.run(
                IMAGE,
                command,
                detach=True,
                name=f"test-delivery-{uuid.uuid4().hex[:8]}",
                environment={
                    "MISTBOW_IDENTITY_FILE": f"{FOLDER}/agent.identity",
                    "MISTBOW_TOKENS_FILE": f"{FOLDER}/tokens.json",
                    **(environment or {}),
                },
                labels={**LABELS, **(labels or {})},
                volumes=[FOLDER],
                read_only=True,
                cap_drop=["ALL"],
                security_opt=["no-new-privileges:true"],
                init=True,
                **more,
            )
        )
        return made[-1]

    yield run
    for container in made:
        container.remove(force=True, v=True)


def test_container_waits_for_its_identities(start: Callable[..., Any], tmp_path: Path) -> None:
    trust = FogTrust(tmp_path / "trust")
    edge = start(["token", "list", "--file", f"{FOLDER}/tokens.json"])
    eventually(lambda: b"waiting for" in edge.logs(), what="it waits")
    names = "agent.identity, tokens.json, worker.identity"
    assert deliver([edge], trust) == Delivery({edge.name: names})
    assert edge.wait(timeout=60)["StatusCode"] == 0
    assert b"sender" in edge.logs()
    assert deliver([edge], trust) == Delivery()


def test_running_container_gets_changed_files_and_changes_none(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    trust, keys = FogTrust(tmp_path / "trust"), FogKeys(tmp_path / "trust" / "keys")
    edge = start(["60"], entrypoint=["sleep"])

    def inside(command: str) -> bytes:
        ended = edge.exec_run(["sh", "-c", f"{command} 2>&1"])
        return bytes(ended.output)

    deliver([edge], trust)
    own = f"{FOLDER}/agent.identity"
    assert inside(f"cat {own}") == (keys.folder / "agent-edge-4.identity").read_bytes()
    assert inside(f"stat -c %a:%u {own}").strip() == b"400:10001"
    assert b"denied" in inside(f"rm -f {own}")
    assert b"denied" in inside(f"echo > {own}")
    before = inside(f"cat {own}")
    keys.issue("agent-edge-4", "agent", "edge-4", utc_now() + timedelta(days=3))
    assert deliver([edge], trust) == Delivery({edge.name: "agent.identity"})
    assert inside(f"cat {own}") != before
    assert inside(f"ls -A {FOLDER}").split() == [
        b"agent.identity", b"tokens.json", b"worker.identity"
    ]  # fmt: skip
    keys.revoke("worker-edge-4")
    left_out = deliver([edge], trust).left_out[edge.name]
    assert "worker-edge-4 is revoked" in left_out
    assert "mistbow identity issue worker-edge-4 --kind worker --site edge-4" in left_out


def served_certificate(container: Any, authorities: Path) -> bytes:
    """Return the certificate of the enabler in a container, verified for the container's name."""
    container.reload()
    (network,) = container.attrs["NetworkSettings"]["Networks"].values()
    context = ssl.create_default_context(cafile=authorities)
    with (
        socket.create_connection((network["IPAddress"], 8000), timeout=5) as connection,
        context.wrap_socket(connection, server_hostname=container.name) as secured,
    ):
        secured.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert b" 200 " in secured.recv(1000)
        return secured.getpeercert(binary_form=True) or b""


def test_running_container_serves_new_certificates_without_a_restart(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    trust = FogTrust(tmp_path / "trust")
    certificates = FogCertificates(trust.folder / "ca")
    override = yaml.safe_load((ROOT / "docker-compose.tls.yml").read_text())["services"]["enabler"]
    variables = {**override["environment"], "MISTBOW_HOME": "/tmp/home"}
    variables["MISTBOW_IDENTITY_FILE"] = f"{FOLDER}/enabler.identity"
    labels = {**override["labels"], "mistbow.identities": "enabler", "mistbow.reach": "*"}
    enabler = start(["enabler"], environment=variables, labels=labels, tmpfs={"/tmp": "mode=1777"})
    eventually(lambda: b"waiting for" in enabler.logs(), what="it waits for its certificate")
    delivered = deliver([enabler], trust, certificates).updated[enabler.name]
    assert "service.key, service.pem" in delivered
    first = eventually(
        lambda: served_certificate(enabler, certificates.bundle), what="it serves", timeout=60
    )
    health = ["python3", "-IS", "/opt/mistbow/health.py", "8000"]
    eventually(
        lambda: b"waits for" in enabler.exec_run(health).output, what="the check reads by TLS"
    )
    # Others do not know the authority.
    CertificateAuthority(tmp_path / "foreign").create(utc_now() + timedelta(days=1))
    with pytest.raises(ssl.SSLCertVerificationError):
        served_certificate(enabler, tmp_path / "foreign" / "bundle.pem")
    authority = CertificateAuthority(trust.folder / "ca")
    authority.rotate(utc_now() + timedelta(days=3650))
    deliver([enabler], trust, certificates)
    authority.finish()
    second = eventually(
        lambda: served_certificate(enabler, certificates.bundle), what="it serves the new one"
    )
    assert second != first
    assert deliver([enabler], trust, certificates) == Delivery({enabler.name: "bundle.pem"})
    enabler.reload()
    assert enabler.attrs["RestartCount"] == 0
    # Of all keys and tokens, also of the authority, it has only its own two.
    secrets = secrets_in(trust.folder)
    assert {"ca.key", "fog.key"} < secrets.keys()
    assert present_beside_files(secrets, enabler) == set()
    own = {"enabler-edge-4.identity", f"{enabler.name}.key"}
    assert present_in_container(secrets, enabler) == own
