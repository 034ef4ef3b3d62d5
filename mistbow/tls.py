"""TLS from files: what servers show, whom clients trust, and what is wrong with either."""

import contextlib
import ssl
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import httpx


class BadTlsFileError(ValueError):
    """A file that TLS cannot be served or checked with; the message says which, and why."""


@lru_cache(maxsize=8)
def client_context(ca: Path | None) -> ssl.SSLContext:
    """Return what clients check servers by: the authorities of a file, or else the usual ones.

    Certificates and names are always checked. To make one takes longer than many a request.
    """
    if ca is None:
        return httpx.create_ssl_context(trust_env=False)
    return ssl.create_default_context(cafile=ca)


@lru_cache(maxsize=8)
def own_context(ca: Path | None) -> ssl.SSLContext:
    """Return what a supervisor checks its own services by, which are not named after loopback."""
    context = (
        ssl.create_default_context(cafile=ca)
        if ca is not None
        else httpx.create_ssl_context(trust_env=False)
    )
    context.check_hostname = False
    return context


def check_ca(ca: Path) -> None:
    """Refuse a file of authorities that is of no use; raises ``BadTlsFileError``."""
    check_readable(ca)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cafile=ca)
    except ssl.SSLError as error:
        raise BadTlsFileError(f"{ca} holds no certificate as PEM: {_words(error)}") from None
    ends = [ssl.cert_time_to_seconds(str(each["notAfter"])) for each in context.get_ca_certs()]
    if ends and max(ends) <= datetime.now(UTC).timestamp():
        raise BadTlsFileError(f"{ca} has expired, {_day(max(ends))}")


def check_certificate(certificate: Path, key: Path) -> None:
    """Refuse what cannot be served by, or that nobody would trust any more, or not yet.

    Raises ``BadTlsFileError``.
    """
    check_readable(certificate)
    check_readable(key)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # A password would be asked for on the terminal, where nobody is.
        server.load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise BadTlsFileError(f"{certificate} and {key} do not serve: {_words(error)}") from None
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    # It is trusted by itself here: only its own dates are in question.
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(cafile=certificate)
    try:
        _shake_hands(client, server)
    except ssl.SSLCertVerificationError as error:
        raise BadTlsFileError(f"{certificate}: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise BadTlsFileError(f"{certificate} and {key} do not serve: {_words(error)}") from None


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """Let the two agree in memory, as far as the client's look at the certificate."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server)
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for side in (asking, answering):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()


def check_readable(path: Path) -> None:
    """Refuse a file that cannot be read; raises ``BadTlsFileError``."""
    try:
        path.read_bytes()
    except OSError as error:
        raise BadTlsFileError(f"{path} cannot be read: {error.strerror}") from None


def _no_password() -> str:
    raise ValueError("the key has a password; give it without one, readable by its owner only")


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not PEM").replace("_", " ").lower()
    return str(error)


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
