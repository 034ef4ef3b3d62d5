"""Sessions of services at a server: a challenge begins a session, whose requests are signed."""

import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from cachetools import TTLCache

from mistbow.auth.answer_key import AnswerKey
from mistbow.auth.audiences import LocalEnd, OwnAddresses
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
_WINDOW = 16_384
"""How far behind the greatest number of a session a request may be.

Concurrent requests do not arrive in the order of their numbers.
"""


@dataclass(slots=True)
class _Session:
    """A session: the server's nonce, the key, the end of the session, and the used numbers.

    ``used``: bit n is set if the number ``highest - n`` was used.
    """

    nonce: str
    key: bytes
    ends_at: float
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


class ServiceSessions:
    """The sessions of services with this service.

    Only holders of the service key can begin a session. If the server forgets a session, for
    example at a restart, its requests are refused, and the client begins another session.
    """

    def __init__(
        self, key: ServiceKey, own: OwnAddresses, timer: Callable[[], float] = time.monotonic
    ) -> None:
        self._key = key
        self._own = own
        self._timer = timer
        self._sessions: TTLCache[str, _Session] = TTLCache(_MAX_SESSIONS, LIFETIME_S, timer)

    async def answer(self, challenge: Challenge, local: LocalEnd) -> ChallengeAnswer:
        """Begin a session, and return the proof that this service has the key.

        ``local``: the server's end of the connection. Raises ``UnauthorizedError`` if the client
        lacks the key, and ``MisdirectedError`` if the client has dialled another address than this
        service's own.
        """
        if not self._key.is_valid(challenge):
            raise UnauthorizedError(
                "the challenge was made with another service key",
                hint="All services of a fog need the same MISTBOW_TOKEN.",
            )
        if not await self._own.include(challenge.audience, local):
            raise MisdirectedError(
                f"{challenge.audience} is not an address of this service",
                hint="If other services are to reach this service there, add the address to "
                "MISTBOW_OWN_URLS of this service.",
            )
        # A repeated challenge continues its session: a new one would accept used numbers again.
        session = self._sessions.get(challenge.nonce)
        if session is None:
            nonce = secrets.token_hex(16)
            key = self._key.session_key(challenge, nonce)
            session = _Session(nonce, key, self._timer() + LIFETIME_S)
            self._sessions[challenge.nonce] = session
        remaining_s = max(0, int(session.ends_at - self._timer()))
        return self._key.answer(challenge, session.nonce, remaining_s)

    def accept(
        self, signature: RequestSignature, method: str, target: bytes, headers: RawHeaders
    ) -> AnswerKey | None:
        """Return the key for the answer to a request; None: the request is not accepted.

        It is accepted if it is from a service of the fog, unaltered, and not a repetition. The
        caller of this method compares the body with ``signature.body``.
        """
        session = self._sessions.get(signature.session)
        if session is None:
            return None
        expected = sign_request(
            session.key, signature.number, method, target, signature.body, headers
        )
        if not hmac.compare_digest(expected, signature.mac) or not session.use(signature.number):
            return None
        return AnswerKey(session.key, signature.number)
