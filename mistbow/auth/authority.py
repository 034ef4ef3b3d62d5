"""The certificate authority of a fog: a folder with its keys and with certificates of services.

``ca.key`` and ``ca.pem``: the authority's present key and certificate. ``bundle.pem``: the
authorities that services trust; after a rotation also the former one. ``NAME.pem``, ``NAME.key``: a
certificate for a service, as server and as client, and its key.
"""

import ipaddress
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mistbow.clock import utc_now
from mistbow.errors import ConflictError, InvalidRequestError
from mistbow.files import write_file

_KEY, _CERTIFICATE, _BUNDLE = "ca.key", "ca.pem", "bundle.pem"
_MAX_NAME = 64
_NAME = re.compile(r"(?=.*[A-Za-z0-9])[A-Za-z0-9._-]{1,64}")
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_-]+)*")
_CLOCK_SKEW = timedelta(hours=1)
"""A certificate begins earlier than it was issued: the clocks of a fog differ."""

_USAGES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
    *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


@dataclass(frozen=True, slots=True)
class CertificateAuthority:
    """The authority of a fog, in a folder that only its owner can use."""

    folder: Path

    @property
    def bundle(self) -> Path:
        """The file with the authorities that services trust."""
        return self.folder / _BUNDLE

    def create(self, expires: datetime) -> None:
        """Create the authority; raises ``ConflictError`` if the folder contains one."""
        if (self.folder / _KEY).exists():
            raise ConflictError(
                f"{self.folder / _KEY} exists already",
                hint="To replace the authority of a running fog: mistbow ca rotate",
            )
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)
        self._begin(expires, former=b"")

    def rotate(self, expires: datetime) -> None:
        """Begin a new authority; the new bundle contains it and the former ones.

        From now on, the new authority signs the certificates.
        """
        self._read_certificate()
        try:
            former = self.bundle.read_bytes()
        except OSError as error:
            raise InvalidRequestError(
                f"{self.bundle} cannot be read: {error.strerror}",
                hint="Copy it from a service: without it, services would not trust each other "
                "until all have new certificates.",
            ) from None
        self._begin(expires, former)

    def finish(self, *, force: bool = False) -> None:
        """Trust the present authority only.

        ``force``: also if certificates of a former authority in the folder have not expired;
        otherwise, raises ``ConflictError`` with their names.
        """
        self._read()
        if not force and (names := self._former_certificates()):
            raise ConflictError(
                f"a former authority has signed the certificates of {', '.join(names)}, so other "
                "services would refuse them",
                hint="Issue them again, and copy them. If these services no longer exist: mistbow "
                "ca rotate --finish --force",
            )
        write_file(self.bundle, (self.folder / _CERTIFICATE).read_bytes(), 0o644)

    def has_signed(self, certificate: x509.Certificate) -> bool:
        """Return whether the present authority has signed a certificate."""
        try:
            certificate.verify_directly_issued_by(self._read_certificate())
        except (InvalidSignature, TypeError, ValueError):
            return False
        return True

    def is_in(self, bundle: bytes) -> bool:
        """Return whether authorities (PEM) contain the present authority."""
        return self._read_certificate() in x509.load_pem_x509_certificates(bundle)

    def issue(self, name: str, hosts: Collection[str], expires: datetime) -> tuple[Path, Path]:
        """Issue a certificate for a service; return its file, and the file with its key.

        ``hosts``: the names and addresses at which others reach the service. Raises
        ``InvalidRequestError`` if the authority ends before the certificate.
        """
        signer, authority = self._read()
        if not _NAME.fullmatch(name) or name in ("ca", "bundle"):
            raise InvalidRequestError(
                f"{name!r} is not a valid name of a service: write at most {_MAX_NAME} letters, "
                "digits, '.', '_' and '-'"
            )
        if expires > authority.not_valid_after_utc:
            raise InvalidRequestError(
                f"the authority expires on {authority.not_valid_after_utc:%Y-%m-%d}",
                hint="Choose an earlier expiry, or replace the authority: mistbow ca rotate",
            )
        key = generate_private_key(SECP256R1())
        certificate = (
            _builder(name, authority.subject, key.public_key(), expires)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage("digital_signature"), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage(
                    [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
                ),
                critical=False,
            )
            .add_extension(x509.SubjectAlternativeName(list(map(_name, hosts))), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(_public(authority)),
                critical=False,
            )
            .sign(signer, SHA256())
        )
        paths = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        # The key first: while the two do not match, services keep the former ones.
        write_file(paths[1], _pem(key), 0o600)
        write_file(paths[0], certificate.public_bytes(Encoding.PEM), 0o644)
        return paths

    def _former_certificates(self) -> list[str]:
        """Return the names of certificates that the present authority has not signed, unless they
        have expired.
        """
        names = []
        for file in sorted(self.folder.glob("*.pem")):
            if file.name in (_CERTIFICATE, _BUNDLE):
                continue
            try:
                found = x509.load_pem_x509_certificate(file.read_bytes())
            except ValueError:
                continue  # it is not a certificate
            if found.not_valid_after_utc > utc_now() and not self.has_signed(found):
                names.append(file.stem)
        return names

    def _begin(self, expires: datetime, former: bytes) -> None:
        """Replace the key and the certificate of the authority.

        ``former``: the authorities (PEM) that services trust in addition to the new one.
        """
        key = generate_private_key(SECP256R1())
        subject = f"Mistbow fog {utc_now():%Y-%m-%d %H:%M:%S}"
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
        certificate = (
            _builder(subject, name, key.public_key(), expires)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
            .sign(key, SHA256())
        )
        pem = certificate.public_bytes(Encoding.PEM)
        # The bundle first, so that each signing authority is trusted already.
        write_file(self.bundle, pem + former, 0o644)
        write_file(self.folder / _KEY, _pem(key), 0o600)
        write_file(self.folder / _CERTIFICATE, pem, 0o644)

    def _read(self) -> tuple[EllipticCurvePrivateKey, x509.Certificate]:
        certificate = self._read_certificate()
        with self._errors():
            key = load_pem_private_key((self.folder / _KEY).read_bytes(), password=None)
        if not isinstance(key, EllipticCurvePrivateKey):
            raise InvalidRequestError(f"{self.folder / _KEY} is not a key of an elliptic curve")
        if key.public_key() != certificate.public_key():
            raise InvalidRequestError(
                f"{self.folder / _KEY} is not the key of {self.folder / _CERTIFICATE}",
                hint="Restore both from a backup, or begin a new authority: mistbow ca rotate",
            )
        return key, certificate

    def _read_certificate(self) -> x509.Certificate:
        with self._errors():
            return x509.load_pem_x509_certificate((self.folder / _CERTIFICATE).read_bytes())

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InvalidRequestError(
                f"{self.folder} has no authority: {error.strerror}", hint="mistbow ca init"
            ) from None
        except (TypeError, ValueError) as error:
            raise InvalidRequestError(
                f"the authority in {self.folder} is invalid: {error}"
            ) from None


def _builder(
    name: str, issuer: x509.Name, key: EllipticCurvePublicKey, expires: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(utc_now() - _CLOCK_SKEW)
        .not_valid_after(expires.astimezone(UTC))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*names: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{each: each in names for each in _USAGES})


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not _HOST.fullmatch(host):
        raise InvalidRequestError(
            f"{host!r} is neither a host name nor an address: write edge-1, without http:// and a "
            "port"
        )
    return x509.DNSName(host)


def _public(certificate: x509.Certificate) -> EllipticCurvePublicKey:
    key = certificate.public_key()
    assert isinstance(key, EllipticCurvePublicKey)  # noqa: S101 - its key was read
    return key


def _pem(key: EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
