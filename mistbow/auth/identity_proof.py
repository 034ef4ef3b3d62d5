"""The messages by which two services prove their identities, and agree on a session's key.

The scheme is SIGMA (Krawczyk 2003): each side signs an ephemeral share (X25519), and the key of the
session derives from both shares. The address that the client dialled is part of what is signed.
"""

import hashlib
from dataclasses import dataclass
from typing import Annotated

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from msgspec import Meta

from mistbow.auth.credential import MAX_TEXT_BYTES, Credential, PublicKey
from mistbow.auth.identity import Identity
from mistbow.errors import UnauthorizedError

_SESSION = b"mistbow session of identities 1"

Nonce = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
_Signature = Annotated[str, Meta(pattern="^[0-9a-f]{128}$")]
_CredentialText = Annotated[str, Meta(max_length=MAX_TEXT_BYTES)]


class SignedChallenge(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first message of a session: the client's nonce, share, credential and signature.

    ``audience``: the address that the client has dialled, as ``audience_of`` returns it.
    """

    nonce: Nonce
    audience: Annotated[str, Meta(min_length=1, max_length=500)]
    share: PublicKey
    credential: _CredentialText
    signature: _Signature

    def message(self) -> bytes:
        """Return the data that the client signs."""
        return _message("client", self.nonce, self.audience, self.share, self.credential)


class SignedAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer to a challenge: the server's nonce, share, credential and signature.

    ``lifetime_s``: the remaining lifetime of the session, in seconds.
    """

    nonce: Nonce
    lifetime_s: Annotated[int, Meta(ge=0, le=86_400)]
    share: PublicKey
    credential: _CredentialText
    signature: _Signature

    def message(self, challenge: SignedChallenge) -> bytes:
        """Return the data that the server signs, which includes all data of the client."""
        asked = hashlib.sha256(challenge.message()).hexdigest()
        mine = (self.nonce, str(self.lifetime_s), self.share, self.credential)
        return _message("server", asked, *mine)


@dataclass(frozen=True, slots=True)
class ClientProof:
    """A challenge of a client, and the secret half of its share."""

    challenge: SignedChallenge
    secret: X25519PrivateKey

    def finish(self, identity: Identity, answer: SignedAnswer) -> tuple[bytes, Credential]:
        """Return the key of the session, and the credential of the server.

        Raises ``UnauthorizedError`` if the server did not prove its identity.
        """
        server = identity.verify(answer.credential)
        _check_signature(server, answer.signature, answer.message(self.challenge))
        return _session_key(self.secret, answer.share, self.challenge, answer.nonce), server


def make_challenge(identity: Identity, nonce: str, audience: str) -> ClientProof:
    """Return the challenge of a client."""
    secret = X25519PrivateKey.generate()
    share = secret.public_key().public_bytes_raw().hex()
    unsigned = SignedChallenge(nonce, audience, share, identity.text, "")
    signature = identity.sign(unsigned.message())
    return ClientProof(msgspec.structs.replace(unsigned, signature=signature), secret)


def check_challenge(identity: Identity, challenge: SignedChallenge) -> Credential:
    """Return the credential of the client that sent a challenge.

    Raises ``UnauthorizedError`` if the client did not prove its identity.
    """
    client = identity.verify(challenge.credential)
    _check_signature(client, challenge.signature, challenge.message())
    return client


def answer_challenge(
    identity: Identity, challenge: SignedChallenge, nonce: str, lifetime_s: int
) -> tuple[SignedAnswer, bytes]:
    """Return the answer of a server to a challenge, and the key of the session that it begins."""
    secret = X25519PrivateKey.generate()
    share = secret.public_key().public_bytes_raw().hex()
    unsigned = SignedAnswer(nonce, lifetime_s, share, identity.text, "")
    signature = identity.sign(unsigned.message(challenge))
    key = _session_key(secret, challenge.share, challenge, nonce)
    return msgspec.structs.replace(unsigned, signature=signature), key


def _message(*parts: str) -> bytes:
    # No part contains a line break: all but the audience are checked, and it is an address.
    return "\n".join(("mistbow identity 1", *(part.replace("\n", " ") for part in parts))).encode()


def _check_signature(credential: Credential, signature: str, message: bytes) -> None:
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(credential.key))
        key.verify(bytes.fromhex(signature), message)
    except InvalidSignature:
        raise UnauthorizedError(
            f"the sender does not have the key of the {credential.kind} {credential.name}"
        ) from None


def _session_key(
    secret: X25519PrivateKey, share: str, challenge: SignedChallenge, nonce: str
) -> bytes:
    try:
        shared = secret.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(share)))
    except ValueError:  # a share of small order
        raise UnauthorizedError("the share of the other side is not valid") from None
    salt = bytes.fromhex(challenge.nonce + nonce)
    info = _SESSION + challenge.audience.encode()
    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=info).derive(shared)
