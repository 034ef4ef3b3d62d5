"""The credentials with which services send requests to each other.

People and tools send a token, to a service that they have chosen. Services sign their requests
instead, and only for a service that has proven that it has the service key. So a challenge reveals
no token.
"""

import hashlib
import itertools
import os
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import httpx
import msgspec

from mistbow.auth.answer_key import AnswerKey
from mistbow.auth.audiences import audience_of
from mistbow.auth.credential import Credential, Kind
from mistbow.auth.identity import Identity, IdentityFile, Proof, identity_file
from mistbow.auth.identity_proof import ClientProof, SignedAnswer, SignedChallenge, make_challenge
from mistbow.auth.service_key import (
    CHALLENGE_PATH,
    SCHEME,
    Challenge,
    ChallengeAnswer,
    RequestSignature,
    ServiceKey,
    sign_request,
)
from mistbow.client.bounded_answers import bound, refuse_encoding
from mistbow.errors import UnauthorizedError, from_answer
from mistbow.telemetry import get_logger
from mistbow.tls import TlsFiles

log = get_logger(__name__)

_TIMEOUT_S = 3.0
_MAX_ANSWER_BYTES = 4096
_ANSWER_KEY = "mistbow_answer_key"
_RENEWAL = 0.9
"""The part of a session's lifetime after which the client begins another session."""

_ANSWER = msgspec.json.Decoder(ChallengeAnswer)
_SIGNED_ANSWER = msgspec.json.Decoder(SignedAnswer)
_REFUSED_STATUSES = (400, 401)


IDENTITY_FILE = "MISTBOW_IDENTITY_FILE"
TLS_CA, TLS_CERT, TLS_KEY = "MISTBOW_TLS_CA", "MISTBOW_TLS_CERT", "MISTBOW_TLS_KEY"
TOKEN = "MISTBOW_TOKEN"  # noqa: S105 - the name of a variable


class UnverifiedServiceError(httpx.RequestError):
    """The service at an address did not prove that it belongs to the fog; nothing was sent."""


@dataclass(frozen=True, slots=True)
class _Session:
    """A session with a service that has proven its identity.

    ``renew_at``: the time (monotonic) from which another session is begun. ``peer``: the credential
    of the service; None: it has proven the service key.
    """

    id: str
    key: bytes
    renew_at: float
    peer: Credential | None = None
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))


class ServiceCredentials(httpx.Auth):
    """Signs the requests to the service at ``url``, after this service has proven its identity.

    ``proof``: the fog's token, which is not sent (empty: the fog has no token), or the identity of
    this service. A request raises ``UnverifiedServiceError`` if the service does not prove that it
    has the key of this token, or an identity of this fog. ``kind``, ``site``: the kind and the site
    of that service; None: any. A service that has no identity yet is accepted if this service has
    the fog's token too, unless it has proven an identity before.
    """

    def __init__(
        self,
        url: str,
        proof: str | IdentityFile,
        timer: Callable[[], float] = time.monotonic,
        kind: Kind | None = None,
        site: str | None = None,
    ) -> None:
        self._url = url.rstrip("/")
        self._identity = proof if isinstance(proof, IdentityFile) else None
        self._key = ServiceKey(proof.token if isinstance(proof, IdentityFile) else proof)
        self._kind = kind
        self._site = site
        self.peer: Credential | None = None
        self._has_fallen_back = False
        self._audience = audience_of(url)
        self._path = urlsplit(self._url).path.encode()
        self._timer = timer
        self._session: _Session | None = None

    def sync_auth_flow(
        self, request: httpx.Request
    ) -> Generator[httpx.Request, httpx.Response, None]:
        """Yield the requests to send: challenges if necessary, and the signed request."""
        request.read()
        flow = self.auth_flow(request)
        step = next(flow)
        while True:
            response = yield step
            bound(response, request)
            if step is not request:
                _check_size(response)
                response.read()
            try:
                step = flow.send(response)
            except StopIteration:
                return

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Yield the requests to send; see ``sync_auth_flow``."""
        await request.aread()
        flow = self.auth_flow(request)
        step = next(flow)
        while True:
            response = yield step
            bound(response, request)
            if step is not request:
                _check_size(response)
                await response.aread()
            try:
                step = flow.send(response)
            except StopIteration:
                return

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Yield the requests to send; the bodies of answers to challenges must be read."""
        refuse_encoding(request)
        session = self._valid_session()
        is_new = session is None
        if session is None:
            session = yield from self._begin(request)
        self._sign(request, session)
        response = yield request
        if is_new or not _is_refused(response):
            return
        # The service has forgotten the session, for example at a restart.
        if self._session is session:
            self._session = None
        session = self._valid_session() or (yield from self._begin(request))
        self._sign(request, session)
        yield request

    def _valid_session(self) -> _Session | None:
        session = self._session
        if session is None or self._timer() >= session.renew_at or not self._accepts(session.peer):
            return None
        return session

    def _accepts(self, peer: Credential | None) -> bool:
        """Return whether the credential of the service is still valid."""
        if peer is None or self._identity is None:
            return True
        try:
            return self._identity.current().accepts(peer)
        except UnauthorizedError:
            return False

    def _begin(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, _Session]:
        if self._identity is not None:
            begun = yield from self._begin_signed(self._identity, request)
            if begun is not None:
                return begun
        challenge = self._key.challenge(secrets.token_hex(16), self._audience)
        sent_at = self._timer()
        response = yield self._challenge_request(challenge, request)
        answer = self._checked(challenge, response)
        session = self._session = _Session(
            challenge.nonce,
            self._key.session_key(challenge, answer.nonce),
            sent_at + _RENEWAL * answer.lifetime_s,
        )
        return session

    def _begin_signed(
        self, file: IdentityFile, request: httpx.Request
    ) -> Generator[httpx.Request, httpx.Response, _Session | None]:
        """Begin a session by the identity; None: the service has none, and the token is tried."""
        try:
            identity = file.current()
        except UnauthorizedError as error:
            raise UnverifiedServiceError(error.message, request=request) from None
        proof = make_challenge(identity, secrets.token_hex(16), self._audience)
        sent_at = self._timer()
        response = yield self._challenge_request(proof.challenge, request)
        if response.status_code in _REFUSED_STATUSES and file.token:
            self._check_fallback(response)
            return None
        answer, key, self.peer = self._verified(identity, proof, response)
        session = self._session = _Session(
            proof.challenge.nonce, key, sent_at + _RENEWAL * answer.lifetime_s, self.peer
        )
        return session

    def _check_fallback(self, response: httpx.Response) -> None:
        """Log that the service has no identity; raise an error if it has proven one before.

        Otherwise, a man in the middle could refuse the identity in order to get a proof of the
        service key.
        """
        if self.peer is not None:
            raise _unverified(
                response,
                f"it was the {self.peer.kind} {self.peer.name}, and proves no identity now",
            )
        if not self._has_fallen_back:
            self._has_fallen_back = True
            log.warning("identity_fallback", url=self._url, reason=_reason(response))

    def _verified(
        self, identity: Identity, proof: ClientProof, response: httpx.Response
    ) -> tuple[SignedAnswer, bytes, Credential]:
        if not response.is_success:
            raise _unverified(response, _reason(response))
        try:
            answer = _SIGNED_ANSWER.decode(response.content)
            key, peer = proof.finish(identity, answer)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise _unverified(response, "the answer is not that of a service") from None
        except UnauthorizedError as error:
            raise _unverified(response, error.message) from None
        if self._kind is not None and peer.kind != self._kind:
            raise _unverified(
                response, f"it is the {peer.kind} {peer.name}, not of the kind {self._kind}"
            )
        if self._site not in (None, peer.site):
            raise _unverified(response, f"it is of the site {peer.site}, not of {self._site}")
        if self.peer is not None and self.peer.site != peer.site:
            raise _unverified(
                response, f"it is of the site {peer.site}, no longer of {self.peer.site}"
            )
        return answer, key, peer

    def _challenge_request(
        self, challenge: Challenge | SignedChallenge, request: httpx.Request
    ) -> httpx.Request:
        given = cast("dict[str, float | None]", request.extensions.get("timeout", {}))
        timeout = {
            name: min(given.get(name) or _TIMEOUT_S, _TIMEOUT_S)
            for name in ("connect", "read", "write", "pool")
        }
        return httpx.Request(
            "POST",
            self._url + CHALLENGE_PATH,
            content=msgspec.json.encode(challenge),
            headers={"Content-Type": "application/json"},
            extensions={"timeout": timeout},
        )

    def _checked(self, challenge: Challenge, response: httpx.Response) -> ChallengeAnswer:
        if not response.is_success:
            raise _unverified(response, _reason(response))
        try:
            answer = _ANSWER.decode(response.content)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise _unverified(response, "the answer is not that of a service") from None
        if not self._key.is_valid_answer(challenge, answer):
            raise _unverified(response, "it has another service key")
        return answer

    def _sign(self, request: httpx.Request, session: _Session) -> None:
        number = next(session.numbers)
        body = hashlib.sha256(request.content).hexdigest()
        target = request.url.raw_path.removeprefix(self._path)
        mac = sign_request(session.key, number, request.method, target, body, request.headers.raw)
        signature = RequestSignature(session.id, number, body, mac)
        request.headers["Authorization"] = signature.header()
        request.extensions[_ANSWER_KEY] = AnswerKey(session.key, number)


def service_credentials(
    url: str, proof: Proof, kind: Kind | None = None
) -> ServiceCredentials | None:
    """Return the credentials for the service at a configured address.

    ``proof``: None: the fog has no token, and requests need no credentials. ``kind``: the kind of
    the service.
    """
    return None if proof is None else ServiceCredentials(url, proof, kind=kind)


def proof_of_environment() -> Proof:
    """Return the proof of a process that a service has started, from its environment."""
    file, token = (os.environ.get(name) for name in (IDENTITY_FILE, TOKEN))
    return token if file is None else identity_file(Path(file), token or "")


def tls_of_environment() -> TlsFiles | None:
    """Return the TLS files of a process that a service has started, from its environment."""
    named = (os.environ.get(name) for name in (TLS_CA, TLS_CERT, TLS_KEY))
    files = TlsFiles(*(None if name is None else Path(name) for name in named))
    return files if files.all else None


def check_answer(response: httpx.Response) -> None:
    """Raise ``UnverifiedServiceError`` if a service did not sign its answer to a signed request.

    ``response``: a response whose body is read. A service signs only the answers of routes that
    require signed answers.
    """
    key: AnswerKey | None = response.request.extensions.get(_ANSWER_KEY)
    if key is not None and not key.is_valid(response.content, response.headers):
        raise UnverifiedServiceError("the answer is not signed", request=response.request)


def _check_size(response: httpx.Response) -> None:
    size = response.headers.get("Content-Length", "")
    if not size.isdecimal() or int(size) > _MAX_ANSWER_BYTES:
        raise _unverified(response, "the answer is not that of a service")


def _is_refused(response: httpx.Response) -> bool:
    return response.status_code == 401 and response.headers.get("WWW-Authenticate") == SCHEME


def _reason(response: httpx.Response) -> str:
    return from_answer(response.status_code, response.content).message


def _unverified(response: httpx.Response, reason: str) -> UnverifiedServiceError:
    return UnverifiedServiceError(
        f"the service did not prove that it belongs to this fog: {reason}",
        request=response.request,
    )
