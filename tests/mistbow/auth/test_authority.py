"""The folder of a certificate authority, with mistakes of its operator."""

from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from mistbow.auth.authority import CertificateAuthority
from mistbow.clock import utc_now
from mistbow.errors import ConflictError, InvalidRequestError

END = utc_now() + timedelta(days=90)


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    made = CertificateAuthority(tmp_path / "ca")
    made.create(END + timedelta(days=1))
    return made


@pytest.mark.parametrize(
    "host", ["http://edge-1:8300", "edge-1:8300", "", "a b", "-a", "a..b", "*", "a.*.b", "edge/1"]
)
def test_host_that_no_client_would_match_is_refused(
    authority: CertificateAuthority, host: str
) -> None:
    with pytest.raises(InvalidRequestError, match="is neither a host name nor an address"):
        authority.issue("edge", [host], END)
    assert not (authority.folder / "edge.pem").exists()


def test_host_names_of_containers_pods_and_addresses_are_accepted(
    authority: CertificateAuthority,
) -> None:
    hosts = ["fog_edge_2.fog_street", "*.fog-worker-a.mistbow.svc", "10.0.0.7", "fd00::7", "edge"]
    [file, _] = authority.issue("edge", hosts, END)
    found = x509.load_pem_x509_certificate(file.read_bytes()).extensions
    names = found.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(each.value) for each in names] == hosts


@pytest.mark.parametrize("name", ["a" * 65, "", "..", "a/b", "ca", "bundle", "a b"])
def test_name_that_is_no_file_or_too_long_for_a_certificate_is_refused(
    authority: CertificateAuthority, name: str
) -> None:
    with pytest.raises(InvalidRequestError, match="is not a valid name of a service"):
        authority.issue(name, ["edge"], END)
    authority.issue("a" * 64, ["edge"], END)


def test_rotation_without_the_former_bundle_is_refused(authority: CertificateAuthority) -> None:
    before = (authority.folder / "ca.pem").read_bytes()
    authority.bundle.unlink()
    with pytest.raises(InvalidRequestError, match=r"bundle\.pem cannot be read"):
        authority.rotate(END)
    assert (authority.folder / "ca.pem").read_bytes() == before


def test_key_of_another_authority_signs_nothing(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    other = CertificateAuthority(tmp_path / "other")
    other.create(END)
    (authority.folder / "ca.key").write_bytes((other.folder / "ca.key").read_bytes())
    with pytest.raises(InvalidRequestError, match=r"ca\.key is not the key of .*ca\.pem"):
        authority.issue("edge", ["edge"], END)
    with pytest.raises(InvalidRequestError, match="is not the key of"):
        authority.finish()
    # As after an interrupted rotation: the next one repairs the folder.
    authority.rotate(END + timedelta(days=1))
    authority.issue("edge", ["edge"], END)
    assert len(x509.load_pem_x509_certificates(authority.bundle.read_bytes())) == 2


def test_rotation_ends_when_the_present_authority_has_signed_all_certificates(
    authority: CertificateAuthority,
) -> None:
    for name in ("edge-1", "edge-2", "worker"):
        authority.issue(name, [name], END)
    authority.issue("expired", ["expired"], utc_now() - timedelta(seconds=1))
    (authority.folder / "notes.pem").write_text("no certificate")
    authority.rotate(END + timedelta(days=1))
    authority.issue("worker", ["worker"], END)
    both = authority.bundle.read_bytes()
    with pytest.raises(ConflictError, match="certificates of edge-1, edge-2, so"):
        authority.finish()
    assert authority.bundle.read_bytes() == both
    for name in ("edge-1", "edge-2"):
        authority.issue(name, [name], END)
    authority.finish()
    assert authority.bundle.read_bytes() == (authority.folder / "ca.pem").read_bytes()
