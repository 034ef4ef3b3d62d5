"""Identities of services: a credential with its private key, and the keys of the fog to trust.

An identity is a file (JSON) that only its service can read. The file is read again when it changes,
so that a new credential, or a revocation, takes effect without a restart.
"""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Meta
from prometheus_client import Gauge

from mistbow.auth.credential import Credential, PublicKey, read_signed, verify
from mistbow.auth.json_files import read_json_file, write_json_file
from mistbow.clock import utc_now
from mistbow.errors import MistbowError, UnauthorizedError
from mistbow.expiry import expiry_text
from mistbow.files import FileStamp, file_stamp
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_EXPIRY = Gauge(
    "mistbow_identity_expiry_timestamp_seconds",
    "The time at which the identity of this service expires, in seconds since 1970.",
    ["name"],
)


class IdentityContent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of an identity file.

    ``key``: the service's private key (Ed25519, hexadecimal). ``fog``: the public keys of the fog;
    more than one while the fog's key is replaced. ``revoked``: the ids of revoked credentials.
    """

    credential: str
    key: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    fog: Annotated[tuple[PublicKey, ...], Meta(min_length=1, max_length=8)]
    revoked: Annotated[tuple[str, ...], Meta(max_length=10_000)] = ()


_FILE = msgspec.json.Decoder(IdentityContent)


class Identity:
    """The identity of a service: its credential, its private key, and whom it trusts.

    Raises ``UnauthorizedError`` if the credential is not valid at present.
    """

    def __init__(self, content: IdentityContent, clock: Callable[[], datetime] = utc_now) -> None:
        self.text = content.credential
        self._clock = clock
        self._fog_keys = content.fog
        self._revoked = frozenset(content.revoked)
        self._key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(content.key))
        self.credential = verify(content.credential, content.fog, clock())
        if self._key.public_key().public_bytes_raw().hex() != self.credential.key:
            raise UnauthorizedError("the private key is not that of the credential")

    def sign(self, message: bytes) -> str:
        """Return the signature of a message (hexadecimal)."""
        return self._key.sign(message).hex()

    def verify(self, credential: str) -> Credential:
        """Return the content of another service's credential.

        Raises ``UnauthorizedError`` if this service does not accept the credential.
        """
        found = verify(credential, self._fog_keys, self._clock())
        if self.is_revoked(found):
            raise UnauthorizedError(
                f"the credential of the {found.kind} {found.name} is revoked",
                hint="Issue another one: mistbow identity issue",
            )
        return found

    def read(self, credential: str) -> Credential:
        """Return the content of another service's credential, also if it has expired or is revoked.

        Raises ``UnauthorizedError`` if the fog's key has not signed the credential.
        """
        return read_signed(credential, self._fog_keys)

    def is_revoked(self, credential: Credential) -> bool:
        """Return whether a credential is revoked."""
        return credential.id in self._revoked

    @property
    def is_expired(self) -> bool:
        """Whether the identity has expired, so that other services refuse it."""
        return self.credential.expires <= self._clock()

    def warnings(self) -> list[str]:
        """Return warnings for an operator: the identity expires soon."""
        own = self.credential
        expiry = expiry_text(own.expires, self._clock())
        if expiry is None:
            return []
        return [
            f"the identity of the {own.kind} {own.name} {expiry}; issue it again: mistbow identity "
            "issue"
        ]

    def accepts(self, credential: Credential) -> bool:
        """Return whether a credential that was verified earlier is still valid."""
        return not self.is_revoked(credential) and credential.expires > self._clock()


class IdentityFile:
    """The identity of a service, read from a file, and read again when the file changes.

    While the file is missing or invalid, the service has no identity. ``token``: the fog's token,
    for services that have no identity yet; empty: they are refused.
    """

    def __init__(
        self, path: Path, token: str = "", clock: Callable[[], datetime] = utc_now
    ) -> None:
        self.token = token
        self._path = path
        self._clock = clock
        self._stamp: FileStamp | None = None
        self._identity: Identity | None = None

    def current(self) -> Identity:
        """Return the identity; raises ``UnauthorizedError`` if the file contains no valid one."""
        stamp = file_stamp(self._path)
        if stamp != self._stamp:
            is_replaced = self._stamp is not None
            self._stamp = stamp
            self._read(is_replaced=is_replaced)
        if self._identity is None:
            raise UnauthorizedError(
                f"the identity file {self._path} contains no valid identity",
                hint="See the log of this service.",
            )
        return self._identity

    def warnings(self) -> list[str]:
        """Return warnings for an operator: the identity is not valid, or expires soon."""
        try:
            return self.current().warnings()
        except UnauthorizedError as error:
            return [error.message]

    def faults(self) -> list[str]:
        """Return why other services refuse this one: its identity is not valid, or has expired."""
        try:
            identity = self.current()
        except UnauthorizedError as error:
            return [error.message]
        return identity.warnings() if identity.is_expired else []

    def _read(self, *, is_replaced: bool) -> None:
        try:
            self._identity = Identity(read_identity_file(self._path), self._clock)
        except MistbowError as error:
            self._identity = None
            log.error("identity_rejected", file=str(self._path), error=error.message)
        else:
            found = self._identity.credential
            _EXPIRY.labels(found.name).set(found.expires.timestamp())
            # Each Python process of a worker reads it once.
            if is_replaced:
                log.info("identity_read", name=found.name, kind=found.kind, site=found.site)
            for text in self._identity.warnings():
                log.warning("identity_expires_soon", problem=text)


Proof = str | IdentityFile | None
"""The proof of a service: the key of the fog's token, or its identity; None: no proof."""


def read_identity_file(path: Path) -> IdentityContent:
    """Return the content of an identity file.

    Raises ``InvalidRequestError`` with a message of one line if the file is missing or invalid.
    """
    return read_json_file(path, _FILE, "identity file", "Create it: mistbow identity issue")


@lru_cache(maxsize=64)
def identity_file(path: Path, token: str = "") -> IdentityFile:
    """Return the identity in a file; all callers of a process share it, and read it once."""
    return IdentityFile(path, token)


def write_identity_file(path: Path, content: IdentityContent, mode: int = 0o600) -> None:
    """Write an identity file atomically; ``mode``: the permissions of the file."""
    write_json_file(path, content, mode)
