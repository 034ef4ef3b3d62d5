"""The fog of compose with mutual TLS, attacked from its own containers as the fog without TLS."""

import ssl
from collections.abc import Iterator
from datetime import timedelta

import httpx
import pytest

from deploy.compose import folder_of
from fog_emulation.host import in_namespace
from mistbow.auth.authority import CertificateAuthority
from mistbow.clock import utc_now
from mistbow.tls import TlsFiles, client_context
from tests.support.composed_fog import (
    OWN_SECRETS,
    Container,
    Fog,
    Scan,
    check_documented_ports,
    check_no_port_at_the_host,
    check_no_udp,
    make_up,
    running_fog,
)
from tests.support.emulated_fogs import NEED_IMAGE, ROOT
from tests.support.printed_commands import run_commands_of_the_operator, run_printed_commands
from tests.support.secret_search import present_beside_files, present_in_container, secrets_in

pytestmark = [*NEED_IMAGE, pytest.mark.soak]

DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def fog(containers: None) -> Iterator[Fog]:
    with running_fog(tls=True) as started:
        yield started


@pytest.fixture(scope="module")
def trusting(fog: Fog) -> ssl.SSLContext:
    """The TLS of a client that trusts the fog, and shows no certificate."""
    return client_context(fog.authorities)


@pytest.fixture(scope="module")
def impostors(fog: Fog, tmp_path_factory: pytest.TempPathFactory) -> dict[str, ssl.SSLContext]:
    """The TLS of clients with a certificate of a foreign authority, and with an expired one."""
    assert fog.authorities is not None
    foreign = CertificateAuthority(tmp_path_factory.mktemp("foreign"))
    foreign.create(utc_now() + 2 * DAY)
    own = CertificateAuthority(fog.authorities.parent)
    issued = {
        "foreign": foreign.issue("agent", ["localhost"], utc_now() + DAY),
        "expired": own.issue("expired", ["localhost"], utc_now() - timedelta(seconds=1)),
    }
    return {
        name: client_context(TlsFiles(fog.authorities, *files)) for name, files in issued.items()
    }


def get(
    url: str, host: str, verify: ssl.SSLContext | bool, authorization: str | None = None
) -> httpx.Response:
    """Return the answer of the service whose certificate has the name ``host``."""
    headers = {} if authorization is None else {"Authorization": authorization}
    with httpx.Client(verify=verify, timeout=10, trust_env=False) as client:
        return client.get(url, headers=headers, extensions={"sni_hostname": host})


def check_port(
    address: str,
    host: str,
    trusting: ssl.SSLContext,
    impostors: dict[str, ssl.SSLContext],
) -> None:
    """Check that a port speaks only TLS, with a certificate for ``host``, and admits nobody."""
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://{address}/healthz", timeout=10, trust_env=False)
    url = f"https://{address}"
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        get(f"{url}/healthz", host, verify=True)
    with pytest.raises(httpx.ConnectError, match="Hostname mismatch"):
        get(f"{url}/healthz", "other.internet", trusting)
    for impostor in impostors.values():
        with pytest.raises(httpx.TransportError):
            get(f"{url}/healthz", host, impostor)
    assert get(f"{url}/healthz", host, trusting).status_code == httpx.codes.OK
    for path in ("/metrics", "/readyz", "/docs"):
        for authorization in (None, "Bearer wrong"):
            answer = get(url + path, host, trusting, authorization)
            assert answer.status_code == httpx.codes.UNAUTHORIZED, (url, path)
    answer = get(f"{url}/readyz", host, trusting, "Mistbow session=a, number=1, body=b, mac=c")
    assert answer.status_code == httpx.codes.UNAUTHORIZED, url
    assert "must show a certificate of this fog" in answer.json()["message"], url


def test_each_container_has_only_the_documented_ports_open(scans: list[Scan]) -> None:
    check_documented_ports(scans)


def test_no_container_has_a_udp_port_open(members: dict[str, Container]) -> None:
    check_no_udp(members)


def test_each_open_port_speaks_only_tls_and_requires_a_certificate_or_a_token(
    scans: list[Scan], trusting: ssl.SSLContext, impostors: dict[str, ssl.SSLContext]
) -> None:
    assert any(scan.ports for scan in scans)
    for scan in scans:
        for port in scan.ports:
            address = f"{scan.target.addresses[scan.network]}:{port}"
            with in_namespace(scan.scanner.namespace):
                check_port(address, scan.target.engine.name, trusting, impostors)


def test_each_published_port_speaks_only_tls_and_requires_a_certificate_or_a_token(
    fog: Fog, trusting: ssl.SSLContext, impostors: dict[str, ssl.SSLContext]
) -> None:
    for port in fog.published_ports:
        check_port(f"127.0.0.1:{port}", "localhost", trusting, impostors)


def test_containers_reach_no_port_of_the_fog_at_the_host(
    fog: Fog, members: dict[str, Container]
) -> None:
    check_no_port_at_the_host(fog, members)


def test_secrets_are_in_their_own_containers_only(fog: Fog, members: dict[str, Container]) -> None:
    secrets = secrets_in(folder_of(fog.project))
    assert {"ca.key", "fog.key"} < secrets.keys()
    for name, member in members.items():
        key = {f"{member.engine.name}.key"} if name != "buses" else set()
        assert present_beside_files(secrets, member.engine) == set(), name
        assert present_in_container(secrets, member.engine) == OWN_SECRETS[name] | key, name


def test_printed_commands_trust_the_authority_of_the_fog(fog: Fog) -> None:
    shown = make_up(fog)
    run_printed_commands(shown, ROOT)
    run_commands_of_the_operator(shown, ROOT)
