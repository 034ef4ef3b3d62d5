"""The file of tokens: read strictly, changed as a whole; of a token only its hash is kept."""

import hashlib
import os
import re
import secrets
import tempfile
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from mistbow.auth.callers import Caller, Scope
from mistbow.errors import ConflictError, InvalidRequestError, NotFoundError
from mistbow.streams.signatures import SIGNATURE, SIGNATURE_FORM

PREFIX = "mistbow_"
"""All tokens of files begin so: whoever finds one in a log or a repository knows what it is."""

_SECRET_BYTES = 32
_NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,99}"

Name = Annotated[str, Meta(pattern=f"^{_NAME}$")]
Signature = Annotated[str, Meta(pattern=f"^{SIGNATURE}$")]
Hex = Annotated[str, Meta(pattern="^[0-9a-f]{32,64}$")]


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A token but for itself: ``hash`` is that of the salt and the token."""

    name: Name
    scopes: Annotated[frozenset[Scope], Meta(min_length=1)]
    hash: Hex
    entity_prefix: Annotated[str, Meta(max_length=512)] = ""
    expires: Annotated[datetime, Meta(tz=True)] | None = None
    signatures: Annotated[frozenset[Signature], Meta(max_length=100)] = frozenset()

    @property
    def caller(self) -> Caller:
        """What the token opens."""
        return Caller(self.name, self.scopes, self.entity_prefix, self.signatures)

    def is_over(self, now: datetime) -> bool:
        """Tell whether the token has expired."""
        return self.expires is not None and self.expires <= now


class TokenFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All tokens; one salt for the file, so that one hash finds a token."""

    salt: Hex
    tokens: tuple[Token, ...] = ()

    def hashed(self, token: str) -> str:
        """Return the hash by which a token is kept.

        Plain SHA-256 is right here: it is slow hashes that guard passwords, which can be guessed.
        A token is 256 random bits, which cannot, and it is checked at each request.
        """
        return hashlib.sha256(bytes.fromhex(self.salt) + token.encode()).hexdigest()

    def added(
        self,
        name: str,
        scopes: frozenset[Scope],
        entity_prefix: str,
        expires: datetime | None,
        signatures: Collection[str] = (),
    ) -> tuple["TokenFile", str]:
        """Return the file with one more token, and the token, which is kept nowhere."""
        if any(each.name == name for each in self.tokens):
            raise ConflictError(
                f"there is a token {name} already", hint="Revoke it first, or choose another name."
            )
        token = PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
        new = {
            "name": name,
            "scopes": sorted(scopes),
            "hash": self.hashed(token),
            "entity_prefix": entity_prefix,
            "expires": expires,
            "signatures": sorted(set(signatures)),
        }
        try:
            made = msgspec.convert(new, Token)
        except msgspec.ValidationError as error:
            raise InvalidRequestError(
                f"the token {name!r}: {error}",
                hint="A name has letters, digits, '.', '_' and '-', 100 at most; "
                f"{SIGNATURE_FORM}.",
            ) from None
        return msgspec.structs.replace(self, tokens=(*self.tokens, made)), token

    def without(self, name: str) -> "TokenFile":
        """Return the file without a token; raises ``NotFoundError``."""
        kept = tuple(each for each in self.tokens if each.name != name)
        if len(kept) == len(self.tokens):
            names = ", ".join(each.name for each in self.tokens) or "none"
            raise NotFoundError(f"there is no token {name}", hint=f"There are: {names}.")
        return msgspec.structs.replace(self, tokens=kept)


_FILE = msgspec.json.Decoder(TokenFile)


def new_token_file() -> TokenFile:
    """Return a file without tokens."""
    return TokenFile(secrets.token_hex(16))


def read_token_file(path: Path) -> TokenFile:
    """Read a file; raises ``InvalidRequestError`` that says what is wrong with it, in one line."""
    try:
        return _FILE.decode(path.read_bytes())
    except OSError as error:
        raise InvalidRequestError(
            f"the tokens' file cannot be read: {path}: {error.strerror}",
            hint="mistbow token add makes one.",
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        # Without the value itself: that may be a token put there by mistake.
        what = re.sub(r" value '.*'", " value", str(error))
        raise InvalidRequestError(f"the tokens' file is not valid: {path}: {what}") from None


def write_token_file(path: Path, content: TokenFile) -> None:
    """Put a file in place of the one before at once; a new one is readable by its owner only."""
    data = msgspec.json.format(msgspec.json.encode(content), indent=2)
    before = path.stat() if path.exists() else None
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data + b"\n")
            if before is not None:
                # Services may run as another user than whoever makes tokens.
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
                os.fchmod(file.fileno(), before.st_mode & 0o777)
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def now() -> datetime:
    """Return the time by which tokens expire."""
    return datetime.now(UTC)
