"""TLS contexts from files of certificates, and checks of these files."""

import contextlib
import ssl
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import httpx


class BadTlsFileError(ValueError):
    """A file cannot be used for TLS; the message contains the file's path and the reason."""


@lru_cache(maxsize=8)
def client_context(ca: Path | None) -> ssl.SSLContext:
    """Return a client's TLS context, which verifies certificates and host names.

    ``ca``: a file with the certificates of trusted authorities; None: the authorities of the
    system. Contexts are cached: creating a context takes longer than a request.
    """
    if ca is None:
        return httpx.create_ssl_context(trust_env=False)
    return ssl.create_default_context(cafile=ca)


@lru_cache(maxsize=8)
def supervisor_context(ca: Path | None) -> ssl.SSLContext:
    """Return a TLS context for requests to services of this machine.

    Certificates are verified, but not the host names in certificates. ``ca``: as for
    ``client_context``.
    """
    context = (
        ssl.create_default_context(cafile=ca)
        if ca is not None
        else httpx.create_ssl_context(trust_env=False)
    )
    context.check_hostname = False
    return context


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
    check_readable(certificate)
    check_readable(key)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Without this, OpenSSL would prompt for a password on the terminal.
        server.load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise _unusable(certificate, key, error) from None
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


def _unusable(certificate: Path, key: Path, error: Exception) -> BadTlsFileError:
    return BadTlsFileError(f"{certificate} and {key} cannot serve TLS: {_reason(error)}")


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
