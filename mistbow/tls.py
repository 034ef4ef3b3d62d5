"""TLS contexts from files of certificates, and checks of these files."""

import contextlib
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import httpx
from cryptography import x509

from mistbow.files import FileStamp, file_stamp
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_MISMATCHES = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
"""OpenSSL's reasons for a key that is not that of the certificate."""


class BadTlsFileError(ValueError):
    """A file cannot be used for TLS; the message contains the file's path and the reason."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of one side of TLS connections (PEM).

    ``ca``: the trusted authorities; None: a client trusts the authorities of the system, and a
    server requests no certificates of clients. ``certificate``, ``key``: the own certificate with
    its chain, and its key; None: a client without a certificate.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    @property
    def all(self) -> tuple[Path, ...]:
        """The files that are set."""
        return tuple(each for each in (self.ca, self.certificate, self.key) if each is not None)


class ReloadedContext(ssl.SSLContext):
    """A TLS context that reads its files again once they have changed, at the next connection.

    While the new files are invalid, the former ones remain in use. ``build``: returns a context of
    the files, or raises ``OSError``, which all errors of TLS are.
    """

    _build: Callable[[], ssl.SSLContext]
    _files: TlsFiles
    _stamps: tuple[tuple[int, int, int], ...]
    _current: ssl.SSLContext
    _protocols: list[str] | None = None

    @classmethod
    def of(
        cls, protocol: int, build: Callable[[], ssl.SSLContext], files: TlsFiles
    ) -> "ReloadedContext":
        """Return a context of files; raises ``OSError`` if they are invalid now."""
        context = cls(protocol)
        context._build, context._files = build, files
        context._stamps = _stamps(files.all)
        context._current = build()
        return context

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """Begin a connection in memory; see ``ssl.SSLContext.wrap_bio``."""
        return self.fresh().wrap_bio(*args, **options)

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        """Begin a connection of a socket; see ``ssl.SSLContext.wrap_socket``."""
        return self.fresh().wrap_socket(*args, **options)

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        """Set the protocols that connections offer; see ``ssl.SSLContext.set_alpn_protocols``."""
        self._protocols = list(alpn_protocols)

    def fresh(self) -> ssl.SSLContext:
        """Return a context of the library, with the present files."""
        stamps = _stamps(self._files.all)
        if stamps != self._stamps:
            self._stamps = stamps
            files = [str(each) for each in self._files.all]
            try:
                self._current = self._build()
            except (OSError, ValueError) as error:
                log.error("tls_files_rejected", files=files, error=_fault(self._files, error))
            else:
                log.info("tls_files_read", files=files)
        if self._protocols is not None:
            self._current.set_alpn_protocols(self._protocols)
        return self._current


@lru_cache(maxsize=8)
def client_context(files: Path | TlsFiles | None) -> ssl.SSLContext:
    """Return a client's TLS context, which verifies certificates and host names.

    ``files``: also the file of trusted authorities alone; None: the authorities of the system.
    Contexts are cached: creating a context takes longer than a request.
    """
    return _client_context(files, check_hostname=True)


@lru_cache(maxsize=8)
def supervisor_context(files: Path | TlsFiles | None) -> ssl.SSLContext:
    """Return a TLS context for requests to services of this machine.

    Certificates are verified, but not the host names in certificates. ``files``: as for
    ``client_context``.
    """
    return _client_context(files, check_hostname=False)


def _client_context(files: Path | TlsFiles | None, *, check_hostname: bool) -> ssl.SSLContext:
    given = files if isinstance(files, TlsFiles) else TlsFiles(files)

    def build() -> ssl.SSLContext:
        context = (
            ssl.create_default_context(cafile=given.ca)
            if given.ca is not None
            else httpx.create_ssl_context(trust_env=False)
        )
        context.check_hostname = check_hostname
        if given.certificate is not None:
            context.load_cert_chain(given.certificate, given.key, password=_no_password)
        return context

    if not given.all:
        return build()
    return ReloadedContext.of(ssl.PROTOCOL_TLS_CLIENT, build, given)


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """Return the TLS context of a service.

    With ``files.ca``, a certificate of a client must be signed by these authorities. People send
    none, so whether a request needs one is decided later.
    """

    def build() -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files.ca)
        if files.ca is not None:
            context.verify_mode = ssl.CERT_OPTIONAL
        assert files.certificate is not None  # noqa: S101 - a service has one
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
        return context

    return ReloadedContext.of(ssl.PROTOCOL_TLS_SERVER, build, files)


def _stamps(files: Iterable[Path]) -> tuple[FileStamp, ...]:
    return tuple(map(file_stamp, files))


def check_ca(ca: Path) -> None:
    """Raise ``BadTlsFileError`` unless a file contains certificates of authorities that are not
    expired.
    """
    check_readable(ca)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cafile=ca)
    except ssl.SSLError as error:
        raise BadTlsFileError(f"{ca} contains no certificate in PEM: {_reason(error)}") from None
    ends = [ssl.cert_time_to_seconds(str(each["notAfter"])) for each in context.get_ca_certs()]
    if ends and max(ends) <= datetime.now(UTC).timestamp():
        raise BadTlsFileError(f"the certificates in {ca} expired on {_day(max(ends))}")


def check_certificate(certificate: Path, key: Path) -> None:
    """Raise ``BadTlsFileError`` if the files cannot serve TLS or the certificate has expired."""
    server = check_pair(certificate, key)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    # The certificate is its own authority here: only its dates are checked.
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(cafile=certificate)
    try:
        _shake_hands(client, server)
    except ssl.SSLCertVerificationError as error:
        raise BadTlsFileError(f"{certificate}: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise _unusable(certificate, key, error) from None


def check_pair(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return the context of a server with a certificate and its key, which may have expired.

    Raises ``BadTlsFileError`` if the files cannot be read, or do not belong together.
    """
    check_readable(certificate)
    check_readable(key)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Without this, OpenSSL would prompt for a password on the terminal.
        server.load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise _unusable(certificate, key, error) from None
    return server


def _fault(files: TlsFiles, error: Exception) -> str:
    """Return why files cannot be used; the first invalid file counts."""
    try:
        if files.ca is not None:
            check_ca(files.ca)
        if files.certificate is not None and files.key is not None:
            check_certificate(files.certificate, files.key)
    except BadTlsFileError as found:
        return str(found)
    return _reason(error)


def _unusable(certificate: Path, key: Path, error: Exception) -> BadTlsFileError:
    if isinstance(error, ssl.SSLError):
        if error.reason in _MISMATCHES:
            return BadTlsFileError(
                f"{key} is not the key of the certificate in {certificate}; use two files that "
                "were issued together"
            )
        if not error.reason:
            what, file = (
                ("private key", key) if _has_certificates(certificate)
                else ("certificate", certificate)
            )  # fmt: skip
            return BadTlsFileError(f"{file} contains no {what} in PEM")
    return BadTlsFileError(f"{certificate} and {key} cannot serve TLS: {_reason(error)}")


def _has_certificates(file: Path) -> bool:
    try:
        return bool(x509.load_pem_x509_certificates(file.read_bytes()))
    except (OSError, ValueError):
        return False


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """Run a TLS handshake in memory until the client has verified the certificate."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_side = client.wrap_bio(to_client, to_server)
    server_side = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for side in (client_side, server_side):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()


def check_readable(path: Path) -> None:
    """Raise ``BadTlsFileError`` if a file cannot be read."""
    try:
        path.read_bytes()
    except OSError as error:
        raise BadTlsFileError(f"{path} cannot be read: {error.strerror}") from None


def _no_password() -> str:
    raise ValueError(
        "the key has a password; store the key without a password, readable by its owner only"
    )


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not PEM").replace("_", " ").lower()
    return str(error)


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
