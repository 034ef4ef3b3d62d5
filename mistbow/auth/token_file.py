"""The token file, which contains the hashes of tokens.

The content is validated strictly when the file is read. The file is replaced atomically.
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
from collections.abc import Collection, Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from mistbow.auth.callers import Caller, TokenScope
from mistbow.auth.json_files import read_json_file
from mistbow.errors import ConflictError, InvalidRequestError, NotFoundError
from mistbow.files import write_file
from mistbow.streams.signatures import SIGNATURE, SIGNATURE_FORM

PREFIX = "mistbow_"
"""The prefix of all tokens, by which scanners of logs and repositories recognize tokens."""

_SECRET_BYTES = 32
_NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,99}"

Name = Annotated[str, Meta(pattern=f"^{_NAME}$")]
Signature = Annotated[str, Meta(pattern=f"^{SIGNATURE}$")]
Hex = Annotated[str, Meta(pattern="^[0-9a-f]{32,64}$")]


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An entry of the token file: the name, the rights and the hash of a token.

    ``hash``: the SHA-256 (hexadecimal) of the file's salt and the token. ``expires``: None: the
    token does not expire.
    """

    name: Name
    scopes: Annotated[frozenset[TokenScope], Meta(min_length=1)]
    hash: Hex
    entity_prefix: Annotated[str, Meta(max_length=512)] = ""
    expires: Annotated[datetime, Meta(tz=True)] | None = None
    signatures: Annotated[frozenset[Signature], Meta(max_length=100)] = frozenset()

    @property
    def caller(self) -> Caller:
        """The caller with the name and the rights of the token."""
        return Caller(self.name, self.scopes, self.entity_prefix, self.signatures)

    def is_expired(self, now: datetime) -> bool:
        """Return whether the token has expired at the time ``now``."""
        return self.expires is not None and self.expires <= now


class TokenFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a token file: all tokens, and a salt.

    All hashes have the same salt, so that the look-up of a token computes only one hash.
    """

    salt: Hex
    tokens: tuple[Token, ...] = ()

    def hash_of(self, token: str) -> str:
        """Return the hash by which the file identifies a token.

        A fast hash suffices, since a token has 256 random bits and, unlike a password, cannot be
        guessed. The hash is computed for each request, so a slow hash would delay each request.
        """
        return hashlib.sha256(bytes.fromhex(self.salt) + token.encode()).hexdigest()

    def with_token(
        self,
        name: str,
        scopes: frozenset[TokenScope],
        entity_prefix: str,
        expires: datetime | None,
        signatures: Collection[str] = (),
    ) -> tuple["TokenFile", str]:
        """Return (the content with a new token, the new token as text).

        The content includes only the hash of the token. Raises ``ConflictError`` if the name exists
        already, and ``InvalidRequestError`` if the name or a signature is invalid.
        """
        if any(each.name == name for each in self.tokens):
            raise ConflictError(
                f"a token {name} exists already", hint="Revoke it first, or choose another name."
            )
        token = PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
        new = {
            "name": name,
            "scopes": sorted(scopes),
            "hash": self.hash_of(token),
            "entity_prefix": entity_prefix,
            "expires": expires,
            "signatures": sorted(set(signatures)),
        }
        try:
            made = msgspec.convert(new, Token)
        except msgspec.ValidationError as error:
            raise InvalidRequestError(
                f"the token {name!r} is invalid: {error}",
                hint="A name consists of at most 100 letters, digits, '.', '_' and '-'; "
                f"{SIGNATURE_FORM}.",
            ) from None
        return msgspec.structs.replace(self, tokens=(*self.tokens, made)), token

    def without_token(self, name: str) -> "TokenFile":
        """Return the content without the token ``name``.

        Raises ``NotFoundError`` if the token does not exist.
        """
        remaining = tuple(each for each in self.tokens if each.name != name)
        if len(remaining) == len(self.tokens):
            names = ", ".join(each.name for each in self.tokens) or "none"
            raise NotFoundError(f"no token {name} exists", hint=f"Existing tokens: {names}.")
        return msgspec.structs.replace(self, tokens=remaining)


_FILE = msgspec.json.Decoder(TokenFile)


def new_token_file() -> TokenFile:
    """Return the content of a new file: a random salt, and no tokens."""
    return TokenFile(secrets.token_hex(16))


def read_token_file(path: Path) -> TokenFile:
    """Return the content of a token file.

    Raises ``InvalidRequestError`` with a message of one line if the file is missing or invalid.
    """
    return read_json_file(path, _FILE, "token file", "Create it: mistbow token add")


@contextlib.contextmanager
def token_file_lock(path: Path) -> Iterator[None]:
    """Lock a token file against changes by other processes within the ``with``.

    Without the lock, one of two simultaneous changes would be lost, and a revoked token could
    return.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # The lock of the folder: the file itself is replaced by each change.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def write_token_file(path: Path, content: TokenFile) -> None:
    """Write a token file atomically.

    Only the owner can read a new file. An existing file's owner and permissions do not change.
    """
    data = msgspec.json.format(msgspec.json.encode(content), indent=2)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Services may run as another user than the one who creates tokens.
    write_file(path, data + b"\n", like=path if path.exists() else None)
