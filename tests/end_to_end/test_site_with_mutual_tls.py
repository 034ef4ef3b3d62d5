"""A site whose services call each other over mutual TLS, also the Python processes of Spark.

Its authority is replaced while insights run. The worker and the enabler reach the agent and the
worker through gates, which end the connections of the former certificates.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from mistbow.auth.authority import CertificateAuthority
from mistbow.client.credentials import ServiceCredentials, UnverifiedServiceError
from mistbow.clock import system_clock, utc_now
from mistbow.tls import TlsFiles, client_context
from tests.oracle.stored_points import stored_points
from tests.support.gate import Gate
from tests.support.oracle_results import await_oracle, await_results
from tests.support.sender import Sender, check_stored
from tests.support.site_certificates import HOST, SiteCertificates
from tests.support.site_processes import ROLES, SiteProcesses, site_processes
from tests.support.traffic import Traffic

pytestmark = [
    pytest.mark.alone,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("processes"),
]

METRIC, MONITORED = "tram.load", "cpu.util"
QUERIES = f"""
average = COMPUTE AVG({METRIC}, 3 SECONDS) BY entityID EVERY 1 SECOND;
number = COMPUTE RUNNING_COUNT({METRIC}) BY entityID EVERY 1 SECOND
"""
SECOND_QUERY = f"greatest = COMPUTE MAX({METRIC}, 2 SECONDS) EVERY 1 SECOND"
TRAFFIC = Traffic(metrics=(METRIC,), entities=("tram-1", "tram-2"), rate=100)

GATES = ("agent", "worker")
PORTS = (*GATES, "enabler", "monitor")


@pytest.fixture
def certificates(tmp_path: Path) -> SiteCertificates:
    return SiteCertificates(tmp_path / "certificates", ROLES)


@pytest.fixture
def site(certificates: SiteCertificates, tmp_path: Path) -> Iterator[SiteProcesses]:
    with site_processes(tmp_path / "site", certificates) as site:
        yield site


@pytest.fixture
def gates(site: SiteProcesses) -> Iterator[list[Gate]]:
    """Start the site with a gate before its agent and its worker."""
    with ExitStack() as stack:
        gates = [stack.enter_context(Gate(site.port(name))) for name in GATES]
        for name, gate in zip(GATES, gates, strict=True):
            site.publish(name, gate.port)
        site.start(*ROLES)
        # Before the gates are shut: without these, services would wait for each other at their end.
        stack.callback(site.stop, *reversed(ROLES))
        yield gates


def test_results_over_mutual_tls_equal_the_oracle_also_after_a_rotation(
    site: SiteProcesses, gates: list[Gate], certificates: SiteCertificates, tmp_path: Path
) -> None:
    with Sender(site.url("agent"), TRAFFIC, site.token, site.ca) as sender:
        deployment = site.enabler.submit(QUERIES, name="tram").deployment_id
        await_results(site.enabler, deployment, system_clock())
        assert stored_points(site.agent, MONITORED).num_rows > 0
        check_ports(site, certificates, others(certificates, tmp_path))

        former = copy_of(certificates.files("worker"), tmp_path / "former")
        certificates.run("rotate")
        certificates.copy_bundle()
        certificates.renew()
        break_connections(gates)
        check_ports(site, certificates, [])
        assert all(status(site, port, former) == httpx.codes.OK for port in PORTS)

        certificates.run("rotate", "--finish")
        certificates.copy_bundle()
        break_connections(gates)
        check_ports(site, certificates, [former])
        # The enabler reaches the worker for it.
        second = site.enabler.submit(SECOND_QUERY, name="second").deployment_id
        since = system_clock()
        for each in (deployment, second):
            await_results(site.enabler, each, since)
        end = system_clock()
    compared = [
        await_oracle(site.enabler, each, [site.agent], METRIC, end) for each in (deployment, second)
    ]
    number = check_stored([sender], [site.agent], METRIC)
    print(f"{number} points and {compared} results: none missing, doubled or wrong")


def others(certificates: SiteCertificates, folder: Path) -> list[TlsFiles]:
    """Return files of the fog's bundle with a foreign, and with an expired certificate."""
    foreign = CertificateAuthority(folder / "foreign")
    foreign.create(utc_now() + timedelta(days=30))
    stranger = foreign.issue("worker", [HOST], utc_now() + timedelta(days=1))
    late = certificates.authority.issue("late", [HOST], utc_now() - timedelta(minutes=1))
    return [TlsFiles(certificates.bundle, *files) for files in (stranger, late)]


def check_ports(
    site: SiteProcesses, certificates: SiteCertificates, refused: list[TlsFiles]
) -> None:
    """Assert which certificates the port of each service accepts, with the identity of a worker.

    ``refused``: files whose handshake the service ends.
    """
    for port in PORTS:
        assert status(site, port, certificates.files("worker")) == httpx.codes.OK, port
        with pytest.raises(UnverifiedServiceError, match="must show a certificate of this fog"):
            status(site, port, TlsFiles(certificates.bundle))
        for files in refused:
            with pytest.raises(httpx.TransportError):
                status(site, port, files)


def status(site: SiteProcesses, service: str, files: TlsFiles) -> int:
    """Return the status of a worker's request to a service, over a new connection."""
    url = site.url(service)
    auth = ServiceCredentials(url, site.identity("worker"))
    with httpx.Client(verify=client_context(files), auth=auth, timeout=20) as client:
        return client.get(f"{url}/metrics").status_code


def copy_of(files: TlsFiles, folder: Path) -> TlsFiles:
    """Copy the certificate and the key of a process to a folder."""
    folder.mkdir()
    assert files.certificate is not None
    assert files.key is not None
    copies = [folder / each.name for each in (files.certificate, files.key)]
    for file, copy in zip((files.certificate, files.key), copies, strict=True):
        copy.write_bytes(file.read_bytes())
    return TlsFiles(files.ca, *copies)


def break_connections(gates: list[Gate]) -> None:
    """End the connections through gates, so that services connect with their present files."""
    for gate in gates:
        gate.shut()
        gate.open()
