"""Sessions of services at a server: a challenge begins a session, whose requests are signed."""

import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from cachetools import TTLCache

from mistbow.auth.answer_key import AnswerKey
from mistbow.auth.audiences import LocalEnd, OwnAddresses
from mistbow.auth.callers import FOG, Caller, service_caller
from mistbow.auth.credential import Credential
from mistbow.auth.identity import IdentityFile
from mistbow.auth.identity_proof import (
    SignedAnswer,
    SignedChallenge,
    answer_challenge,
    check_challenge,
)
from mistbow.auth.service_key import (
    Challenge,
    ChallengeAnswer,
    RawHeaders,
    RequestSignature,
    ServiceKey,
    sign_request,
)
from mistbow.errors import MisdirectedError, UnauthorizedError

LIFETIME_S = 600
"""The lifetime of a session, by the server's own clock: the clocks of a fog differ."""

_MAX_SESSIONS = 4096
_MAX_SESSIONS_OF_SERVICE = 512
"""The maximum number of sessions of one identity; more would end the sessions of others."""

_WINDOW = 16_384
"""The maximum distance of a request's number from the greatest number of its session.

Concurrent requests do not arrive in the order of their numbers.
"""


@dataclass(slots=True)
class _Session:
    """A session: the server's nonce, the key, the end of the session, and the used numbers.

    ``caller``: the service that began the session; ``FOG`` if it proved the service key, which all
    services share. ``used``: bit n is set if the number ``highest - n`` was used.
    """

    nonce: str
    key: bytes
    ends_at: float
    caller: Caller = FOG
    highest: int = 0
    used: int = 0

    def use(self, number: int) -> bool:
        """Mark a number as used; return False if the number was used before, or is too old."""
        if number > self.highest:
            shift = min(number - self.highest, _WINDOW)
            self.used = ((self.used << shift) | 1) & ((1 << _WINDOW) - 1)
            self.highest = number
            return True
        behind = self.highest - number
        if behind >= _WINDOW or self.used >> behind & 1:
            return False
        self.used |= 1 << behind
        return True


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted request: its caller, and the key for the answer."""

    caller: Caller
    answer_key: AnswerKey


class ServiceSessions:
    """The sessions of services with this service.

    Only holders of the service key, and services with an identity of this fog, can begin a session.
    If the server forgets a session, for example at a restart, its requests are refused, and the
    client begins another session. ``key``: None: services need identities. ``identity``: None: this
    service has no identity, and so accepts the service key only.
    """

    def __init__(
        self,
        key: ServiceKey | None,
        own: OwnAddresses,
        timer: Callable[[], float] = time.monotonic,
        identity: IdentityFile | None = None,
    ) -> None:
        self._key = key
        self._identity = identity
        self._own = own
        self._timer = timer
        self._sessions: TTLCache[str, _Session] = TTLCache(_MAX_SESSIONS, LIFETIME_S, timer)

    async def answer(self, challenge: Challenge, local: LocalEnd) -> ChallengeAnswer:
        """Begin a session, and return the proof that this service has the key.

        ``local``: the server's end of the connection. Raises ``UnauthorizedError`` if the client
        lacks the key, and ``MisdirectedError`` if the client has dialled another address than this
        service's own.
        """
        key = self._key
        if key is None:
            raise UnauthorizedError(
                "this service accepts identities only, not the service key",
                hint="Give the calling service an identity: mistbow identity issue",
            )
        if not key.is_valid(challenge):
            raise UnauthorizedError(
                "the challenge was made with another service key",
                hint="All services of a fog need the same MISTBOW_TOKEN.",
            )
        await self._check_own(challenge.audience, local)
        # A repeated challenge continues its session: a new one would accept used numbers again.
        session = self._sessions.get(challenge.nonce)
        if session is None:
            nonce = secrets.token_hex(16)
            session = _Session(nonce, key.session_key(challenge, nonce), self._timer() + LIFETIME_S)
            self._sessions[challenge.nonce] = session
        remaining_s = max(0, int(session.ends_at - self._timer()))
        return key.answer(challenge, session.nonce, remaining_s)

    async def answer_signed(self, challenge: SignedChallenge, local: LocalEnd) -> SignedAnswer:
        """Begin a session with a service that has an identity; see ``answer``."""
        if self._identity is None:
            raise UnauthorizedError(
                "this service has no identity, so it accepts the service key only",
                hint="Set MISTBOW_IDENTITY_FILE of this service.",
            )
        try:
            identity = self._identity.current()
        except UnauthorizedError:
            # Any client can send this request, so the path of the file is only in the log.
            raise UnauthorizedError(
                "this service has no valid identity at present", hint="See the log of the service."
            ) from None
        client = check_challenge(identity, challenge)
        await self._check_own(challenge.audience, local)
        if challenge.nonce in self._sessions:
            raise UnauthorizedError("the challenge was received before")
        nonce = secrets.token_hex(16)
        answer, key = answer_challenge(identity, challenge, nonce, LIFETIME_S)
        caller = service_caller(client, identity.credential.site)
        session = _Session(nonce, key, self._timer() + LIFETIME_S, caller)
        self._make_room(client)
        self._sessions[challenge.nonce] = session
        return answer

    def _make_room(self, client: Credential) -> None:
        """End the oldest sessions of a service that has begun too many."""
        own = [
            nonce
            for nonce, session in self._sessions.items()
            if session.caller.credential is not None and session.caller.credential.id == client.id
        ]
        for nonce in own[: max(0, len(own) - _MAX_SESSIONS_OF_SERVICE + 1)]:
            self._sessions.pop(nonce, None)

    async def _check_own(self, audience: str, local: LocalEnd) -> None:
        if not await self._own.include(audience, local):
            raise MisdirectedError(
                f"{audience} is not an address of this service",
                hint="If other services should use this address, add the address to "
                "MISTBOW_OWN_URLS of this service.",
            )

    def accept(
        self, signature: RequestSignature, method: str, target: bytes, headers: RawHeaders
    ) -> Accepted | None:
        """Return the caller of a request, and the key for the answer; None: it is not accepted.

        It is accepted if it is from a service of the fog, unaltered, and not a repetition. The
        caller of this method compares the body with ``signature.body``.
        """
        session = self._sessions.get(signature.session)
        if session is None or not self.is_valid(session.caller):
            return None
        expected = sign_request(
            session.key, signature.number, method, target, signature.body, headers
        )
        if not hmac.compare_digest(expected, signature.mac) or not session.use(signature.number):
            return None
        return Accepted(session.caller, AnswerKey(session.key, signature.number))

    def is_valid(self, caller: Caller) -> bool:
        """Return whether a credential of a caller is still valid."""
        if caller.credential is None or self._identity is None:
            return True
        try:
            return self._identity.current().accepts(caller.credential)
        except UnauthorizedError:
            return False
