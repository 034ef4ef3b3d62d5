"""The service key, which all services of a fog derive from the fog's token, and its proofs.

Services prove to each other that they have the key; the token itself is never sent. The scheme is
that of RFC 8120 (a session with numbered requests), with a shared key in place of a password.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

SCHEME = "Mistbow"
"""The authentication scheme (header ``Authorization``) of requests between services."""

CHALLENGE_PATH = "/challenge"
"""The path at which every service proves that it has the service key."""

_INFO = b"mistbow service authentication 1"
_SIGNED_HEADERS = frozenset(
    {b"content-type", b"content-encoding", b"idempotency-key", b"last-event-id"}
)
_OWN_PREFIX = b"mistbow-"

_Nonce = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
_Mac = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]

RawHeaders = Iterable[tuple[bytes, bytes]]
"""The headers of a request: (name, value)."""


class Challenge(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first message of a session: the client's nonce and proof.

    ``audience``: the address that the client has dialled, as ``audience_of`` returns it.
    """

    nonce: _Nonce
    audience: Annotated[str, Meta(min_length=1, max_length=500)]
    mac: _Mac


class ChallengeAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer to a challenge: the server's nonce and proof.

    ``lifetime_s``: the remaining lifetime of the session, in seconds.
    """

    nonce: _Nonce
    lifetime_s: Annotated[int, Meta(ge=0, le=86_400)]
    mac: _Mac


class ServiceKey:
    """The key that services derive from the fog's token, by HKDF with SHA-256 (RFC 5869).

    ``token``: the fog's token; empty: the fog has no token, and the key is known to everybody. The
    proofs of such a key show only that a service of Mistbow answers.
    """

    def __init__(self, token: str) -> None:
        extracted = hmac.digest(bytes(hashlib.sha256().digest_size), token.encode(), "sha256")
        self._key = hmac.digest(extracted, _INFO + b"\x01", "sha256")

    def challenge(self, nonce: str, audience: str) -> Challenge:
        """Return the challenge of a client."""
        return Challenge(nonce, audience, self._mac("client", nonce, audience).hex())

    def is_valid(self, challenge: Challenge) -> bool:
        """Return whether the sender of a challenge has the key."""
        expected = self.challenge(challenge.nonce, challenge.audience).mac
        return hmac.compare_digest(expected, challenge.mac)

    def answer(self, challenge: Challenge, nonce: str, lifetime_s: int) -> ChallengeAnswer:
        """Return the answer of a server to a challenge."""
        mac = self._mac("server", challenge.nonce, nonce, challenge.audience, str(lifetime_s))
        return ChallengeAnswer(nonce, lifetime_s, mac.hex())

    def is_valid_answer(self, challenge: Challenge, answer: ChallengeAnswer) -> bool:
        """Return whether the sender of an answer has the key, and answers this challenge."""
        expected = self.answer(challenge, answer.nonce, answer.lifetime_s).mac
        return hmac.compare_digest(expected, answer.mac)

    def session_key(self, challenge: Challenge, server_nonce: str) -> bytes:
        """Return the key that signs the requests of the session that a challenge begins."""
        return self._mac("session", challenge.nonce, server_nonce, challenge.audience)

    def _mac(self, *parts: str) -> bytes:
        return hmac.digest(self._key, "\n".join(parts).encode(), "sha256")


_PARAMETERS = re.compile(
    rb"session=([0-9a-f]{32}), number=(\d{1,15}), body=([0-9a-f]{64}), mac=([0-9a-f]{64})"
)


@dataclass(frozen=True, slots=True)
class RequestSignature:
    """The signature of a request.

    ``session``: the client's nonce in the challenge. ``number``: unique in the session.
    ``body``: the SHA-256 of the body (hexadecimal).
    """

    session: str
    number: int
    body: str
    mac: str

    def header(self) -> str:
        """Return the value of the header ``Authorization``."""
        return (
            f"{SCHEME} session={self.session}, number={self.number}, "
            f"body={self.body}, mac={self.mac}"
        )


def parse_signature(parameters: bytes) -> RequestSignature | None:
    """Return the signature in a header ``Authorization``; None: the text is malformed.

    ``parameters``: the value of the header without the scheme.

    >>> signature = RequestSignature("0" * 32, 7, "1" * 64, "2" * 64)
    >>> parse_signature(signature.header().removeprefix("Mistbow ").encode()) == signature
    True
    """
    found = _PARAMETERS.fullmatch(parameters)
    if found is None:
        return None
    session, number, body, mac = (part.decode() for part in found.groups())
    return RequestSignature(session, int(number), body, mac)


def sign_request(
    session_key: bytes, number: int, method: str, target: bytes, body: str, headers: RawHeaders
) -> str:
    """Return the MAC of a request (hexadecimal).

    The MAC covers all arguments, but only those ``headers`` that change the meaning of the request.
    ``target``: the path and the query of the URL. ``body``: the SHA-256 of the body.
    """
    path, _, query = target.partition(b"?")
    signed = sorted(
        (lower, value.strip())
        for name, value in headers
        if (lower := name.lower()) in _SIGNED_HEADERS or lower.startswith(_OWN_PREFIX)
    )
    lines = [b"request", b"%d" % number, method.encode(), path, query, body.encode()]
    lines += [name + b":" + value for name, value in signed]
    return hmac.digest(session_key, b"\n".join(lines), "sha256").hex()
