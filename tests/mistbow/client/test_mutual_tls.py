"""Mutual TLS between services, with the certificates of ``mistbow ca``, over real connections."""

import ssl
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from fastapi import FastAPI
from structlog.testing import capture_logs
from typer.testing import CliRunner

from command_line.app import app as command
from mistbow.auth.authority import CertificateAuthority
from mistbow.auth.callers import current_caller
from mistbow.auth.fog_keys import FogKeys
from mistbow.auth.identity import IdentityFile
from mistbow.auth.rules import requires
from mistbow.client.credentials import ServiceCredentials
from mistbow.clock import utc_now
from mistbow.errors import ConflictError, InvalidRequestError
from mistbow.http.protocol import BoundedProtocol
from mistbow.settings import ServiceSettings
from mistbow.tls import TlsFiles, client_context, server_context
from tests.support.http_server import plain_service, served

pytestmark = pytest.mark.integration

DAY = timedelta(days=1)
HOST = "127.0.0.1"


@pytest.fixture
def ca(tmp_path: Path) -> CertificateAuthority:
    authority = CertificateAuthority(tmp_path / "ca")
    authority.create(utc_now() + 30 * DAY)
    authority.issue("agent", [HOST, "agent.example"], utc_now() + DAY)
    authority.issue("worker", [HOST], utc_now() + DAY)
    return authority


def files(ca: CertificateAuthority, name: str) -> TlsFiles:
    return TlsFiles(ca.bundle, ca.folder / f"{name}.pem", ca.folder / f"{name}.key")


def settings(ca: CertificateAuthority, fog: FogKeys, home: Path, **more: Any) -> ServiceSettings:
    given = {
        "home": home,
        "tls_ca": ca.bundle,
        "tls_client_ca": ca.bundle,
        "tls_cert": ca.folder / "agent.pem",
        "tls_key": ca.folder / "agent.key",
        "identity_file": fog.issue("agent", "agent", "edge", utc_now() + DAY),
    }
    return ServiceSettings.model_validate({**given, **more})


def service(made: ServiceSettings) -> FastAPI:
    app = plain_service(made)

    @app.get("/caller")
    @requires("read")
    async def caller() -> str:
        return current_caller().name

    return app


class Fog:
    """A service that asks for certificates, and the identity of a worker that calls it."""

    def __init__(self, ca: CertificateAuthority, fog: FogKeys, home: Path) -> None:
        made = settings(ca, fog, home)
        self.app = service(made)
        self.serving = served(self.app, tls=made.server_tls, http=BoundedProtocol)
        self.worker = IdentityFile(fog.issue("worker", "worker", "edge", utc_now() + DAY))
        self.url = ""

    def __enter__(self) -> "Fog":
        self.url = self.serving.__enter__()
        return self

    def __exit__(self, *ended: Any) -> None:
        self.serving.__exit__(*ended)

    def ask(self, tls: TlsFiles) -> str:
        """Return whom the service takes a worker with these files for."""
        auth = ServiceCredentials(self.url, self.worker)
        with httpx.Client(verify=client_context(tls), auth=auth) as client:
            answer = client.get(f"{self.url}/caller")
            answer.raise_for_status()
            return str(answer.json())


def test_services_show_certificates_to_each_other(
    ca: CertificateAuthority, fog: FogKeys, tmp_path: Path
) -> None:
    with Fog(ca, fog, tmp_path) as here:
        assert here.ask(files(ca, "worker")) == "worker worker"
        with pytest.raises(httpx.RequestError, match="must show a certificate of this fog"):
            here.ask(TlsFiles(ca.bundle))
        # People need a token only.
        probe = {"Authorization": f"Bearer {here.app.state.probe_token}"}
        verify = client_context(ca.bundle)
        assert httpx.get(f"{here.url}/readyz", headers=probe, verify=verify).status_code == 200
        assert httpx.get(f"{here.url}/healthz", verify=verify).status_code == 200


def test_foreign_and_expired_certificates_are_refused(
    ca: CertificateAuthority, fog: FogKeys, tmp_path: Path
) -> None:
    foreign = CertificateAuthority(tmp_path / "foreign")
    foreign.create(utc_now() + 30 * DAY)
    foreign.issue("worker", [HOST], utc_now() + DAY)
    ca.issue("late", [HOST], utc_now() - timedelta(minutes=1))
    with Fog(ca, fog, tmp_path) as here:
        stranger = files(foreign, "worker")
        for tls in (TlsFiles(ca.bundle, stranger.certificate, stranger.key), files(ca, "late")):
            with pytest.raises(httpx.RequestError):
                here.ask(tls)
        # A service whose certificate is foreign, or for another host, receives nothing.
        with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
            here.ask(TlsFiles(foreign.bundle))
        assert here.ask(files(ca, "worker")) == "worker worker"
        ca.issue("agent", ["elsewhere.example"], utc_now() + DAY)
        with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
            here.ask(files(ca, "worker"))
        ca.issue("agent", [HOST], utc_now() - timedelta(minutes=1))
        with pytest.raises(httpx.ConnectError, match="expired"):
            here.ask(files(ca, "worker"))


def test_authority_is_rotated_without_a_restart(
    ca: CertificateAuthority, fog: FogKeys, tmp_path: Path
) -> None:
    trusted, other = tmp_path / "trusted.pem", tmp_path / "kept"
    trusted.write_bytes(ca.bundle.read_bytes())
    other.mkdir()
    for name in ("worker.pem", "worker.key"):
        (other / name).write_bytes((ca.folder / name).read_bytes())
    former = TlsFiles(trusted, other / "worker.pem", other / "worker.key")
    with Fog(ca, fog, tmp_path) as here:
        assert here.ask(former) == "worker worker"
        ca.rotate(utc_now() + 30 * DAY)
        # The server has the new bundle, the worker not yet.
        assert here.ask(former) == "worker worker"
        trusted.write_bytes(ca.bundle.read_bytes())
        ca.issue("agent", [HOST], utc_now() + DAY)
        # A certificate of the former authority, and of the new one.
        assert here.ask(former) == "worker worker"
        ca.issue("worker", [HOST], utc_now() + DAY)
        assert here.ask(files(ca, "worker")) == "worker worker"
        ca.finish()
        with pytest.raises(httpx.RequestError):
            here.ask(former)
        assert here.ask(files(ca, "worker")) == "worker worker"


def test_certificate_without_its_key_is_not_read(ca: CertificateAuthority) -> None:
    context = server_context(files(ca, "agent"))
    before = context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True).context
    certificate = (ca.folder / "agent.pem").read_bytes()
    ca.issue("agent", [HOST], utc_now() + DAY)
    (ca.folder / "agent.pem").write_bytes(certificate)
    with capture_logs() as logs:
        kept = context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True).context
        assert kept is before
        ca.issue("agent", [HOST], utc_now() + DAY)
        now = context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True).context
    assert now is not before
    assert [each["event"] for each in logs] == ["tls_files_rejected", "tls_files_read"]


def test_client_certificates_need_tls(
    ca: CertificateAuthority, fog: FogKeys, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="TLS_CLIENT_CA also needs MISTBOW_TLS_CERT"):
        settings(ca, fog, tmp_path, tls_cert=None, tls_key=None)


def test_commands_create_an_authority_and_certificates(tmp_path: Path) -> None:
    folder = tmp_path / "fog-ca"

    def run(*words: str) -> Any:
        return CliRunner().invoke(command, ["ca", *words, "--folder", str(folder)])

    assert run("init").stdout.strip() == str(folder / "bundle.pem")
    assert isinstance(run("init").exception, ConflictError)
    assert run("issue", "agent-edge", "--host", "edge-1", "--host", "::1").exit_code == 0
    certificate = x509.load_pem_x509_certificate((folder / "agent-edge.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["edge-1"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["::1"]
    for key in ("ca.key", "agent-edge.key"):
        assert stat.S_IMODE((folder / key).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert run("rotate").exit_code == 0
    bundle = folder / "bundle.pem"
    assert len(x509.load_pem_x509_certificates(bundle.read_bytes())) == 2
    assert isinstance(run("rotate", "--finish").exception, ConflictError)
    assert run("rotate", "--finish", "--force").exit_code == 0
    assert len(x509.load_pem_x509_certificates(bundle.read_bytes())) == 1
    for words in (("issue", "ca", "--host", "a"), ("issue", "a/b", "--host", "a")):
        assert isinstance(run(*words).exception, InvalidRequestError)
    late = run("issue", "late", "--host", "a", "--expires", "9999d")
    assert isinstance(late.exception, InvalidRequestError)
    assert "the authority expires" in late.exception.message
