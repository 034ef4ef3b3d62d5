"""The folder with the fog's key, with which an operator issues the identities of services.

``fog.key`` is the fog's private key (PEM). ``NAME.identity`` is the identity of a service.
``issued.json`` contains the ids of all credentials by name, since an earlier one stays valid until
it expires or is revoked; ``revoked.json`` contains the ids of revoked ones. Services receive only
their own identity, because the holder of the fog's key can act as any service.
"""

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from mistbow.auth.credential import Credential, issue, verify
from mistbow.auth.identity import IdentityContent, read_identity_file, write_identity_file
from mistbow.auth.json_files import read_json_file, write_json_file
from mistbow.clock import utc_now
from mistbow.errors import ConflictError, InvalidRequestError, MistbowError, NotFoundError

SUFFIX = ".identity"
_KEY = "fog.key"
_ISSUED = "issued.json"
_REVOKED = "revoked.json"
_ISSUED_FILE = msgspec.json.Decoder(dict[str, list[str]])
_REVOKED_FILE = msgspec.json.Decoder(list[str])
_RESTORE = "Restore it from a backup of the folder."


@dataclass(frozen=True, slots=True)
class FogKeys:
    """The fog's key and the issued identities, in a folder that only its owner can use.

    ``readable``: whether all users of this machine may read the identities themselves, for
    containers whose user has another id; nobody else can enter the folder.
    """

    folder: Path
    readable: bool = False

    def create(self) -> None:
        """Create the folder and the fog's key.

        Raises ``ConflictError`` if the folder contains a key, and ``InvalidRequestError`` if it
        contains identities whose key is missing.
        """
        if not self.exists and (any(self._files()) or (self.folder / _ISSUED).exists()):
            raise InvalidRequestError(
                f"{self.folder} contains identities, but not the key that has signed them",
                hint=f"Restore {_KEY} from a backup of the folder. To begin a new fog, choose "
                "another folder.",
            )
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)
        pem = Ed25519PrivateKey.generate().private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
        try:
            handle = os.open(self.folder / _KEY, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise ConflictError(
                f"{self.folder / _KEY} exists already",
                hint="To begin a new fog, choose another folder.",
            ) from None
        with open(handle, "wb") as file:
            file.write(pem)

    @property
    def exists(self) -> bool:
        """Whether the folder contains the fog's key."""
        return (self.folder / _KEY).exists()

    def public_key(self) -> str:
        """Return the fog's public key (hexadecimal)."""
        return self._read_key().public_key().public_bytes_raw().hex()

    def issue(
        self, name: str, kind: str, site: str, expires: datetime, reach: Collection[str] = ()
    ) -> Path:
        """Issue an identity, in place of an earlier one of the same name; return its file."""
        fog, key = self._read_key(), Ed25519PrivateKey.generate()
        text = issue(
            fog,
            name=name,
            kind=kind,
            site=site.lower(),
            key=key.public_key(),
            expires=expires,
            reach=[each.lower() for each in reach],
        )
        content = IdentityContent(
            text,
            key.private_bytes_raw().hex(),
            (fog.public_key().public_bytes_raw().hex(),),
            self._revoked(),
        )
        path = self.folder / f"{name}{SUFFIX}"
        self._record(name, verify(text, content.fog, datetime.min.replace(tzinfo=UTC)).id)
        self._write(path, content)
        return path

    def all(self) -> dict[str, Credential | MistbowError]:
        """Return name -> the credential of each identity, or why it is not valid."""
        found: dict[str, Credential | MistbowError] = {}
        for path, content in self._files():
            try:
                if isinstance(content, MistbowError):
                    raise content
                found[path.stem] = verify(content.credential, content.fog, utc_now())
            except MistbowError as error:
                found[path.stem] = error
        return found

    def is_revoked(self, name: str) -> bool:
        """Return whether the name was issued, and all its credentials are revoked."""
        ids = self._issued().get(name, ())
        return bool(ids) and set(ids) <= set(self._revoked())

    def revoke(self, name: str) -> list[Path]:
        """Revoke all credentials of a name, and remove its file; return the files of the others.

        The other services refuse the credentials once they have these files.
        """
        ids = self._issued().get(name)
        if ids is None:
            raise NotFoundError(
                f"{self.folder} has no identity {name}", hint="See mistbow identity list."
            )
        revoked = tuple(dict.fromkeys((*self._revoked(), *ids)))
        # Stored first: even if a later step fails, identities issued from now on contain it.
        write_json_file(self.folder / _REVOKED, revoked)
        (self.folder / f"{name}{SUFFIX}").unlink(missing_ok=True)
        others = []
        for other, each in self._files():
            # A damaged file must not prevent a revocation.
            if isinstance(each, IdentityContent):
                self._write(other, msgspec.structs.replace(each, revoked=revoked))
                others.append(other)
        return others

    def _issued(self) -> dict[str, list[str]]:
        path = self.folder / _ISSUED
        if not path.exists():
            return {}
        return read_json_file(path, _ISSUED_FILE, "list of issued identities", _RESTORE)

    def _revoked(self) -> tuple[str, ...]:
        """Return the ids of revoked credentials; those of an earlier version are in the files."""
        path = self.folder / _REVOKED
        kept: list[str] = []
        if path.exists():
            kept = read_json_file(path, _REVOKED_FILE, "list of revoked identities", _RESTORE)
        contents = [content for _, content in self._files()]
        in_files = [each.revoked for each in contents if isinstance(each, IdentityContent)]
        return tuple(dict.fromkeys((*kept, *(each for revoked in in_files for each in revoked))))

    def _record(self, name: str, credential_id: str) -> None:
        issued = self._issued()
        issued.setdefault(name, []).append(credential_id)
        write_json_file(self.folder / _ISSUED, issued)

    def _files(self) -> Iterator[tuple[Path, IdentityContent | MistbowError]]:
        """Yield each identity file with its content, or with the error of a damaged one."""
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            try:
                yield path, read_identity_file(path)
            except MistbowError as error:
                yield path, error

    def _read_key(self) -> Ed25519PrivateKey:
        path = self.folder / _KEY
        try:
            key = load_pem_private_key(path.read_bytes(), password=None)
        except OSError as error:
            raise InvalidRequestError(
                f"{path} cannot be read: {error.strerror}",
                hint="Create the fog's key: mistbow identity init",
            ) from None
        except (TypeError, ValueError):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise InvalidRequestError(f"{path} is not a private key (Ed25519, PEM, no password)")
        return key

    def _write(self, path: Path, content: IdentityContent) -> None:
        write_identity_file(path, content, 0o644 if self.readable else 0o600)
