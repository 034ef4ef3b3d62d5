"""The middleware that authenticates the requests of every service."""

import asyncio
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from urllib.parse import quote, unquote

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mistbow.asgi import CLIENT_CERTIFICATE, extension
from mistbow.auth.answer_key import AnswerKey, answering_with
from mistbow.auth.callers import FOG, NOBODY, Caller, on_behalf_of
from mistbow.auth.keyring import Keyring
from mistbow.auth.revocation import until_revoked
from mistbow.auth.service_key import CHALLENGE_PATH, SCHEME, parse_signature
from mistbow.auth.service_sessions import Accepted, ServiceSessions
from mistbow.errors import UnauthorizedError

CALLER = "Mistbow-Caller"
"""The header of a forwarded request that contains the name of the caller's token.

A request on behalf of the fog itself lacks this header.
"""

ENTITY_PREFIX = "Mistbow-Entity-Prefix"
"""The header of a forwarded request that contains the entity prefix of the caller's token."""

SIGNATURES = "Mistbow-Signatures"
"""The header of a forwarded request that contains the signatures of the caller's token, separated
by commas.
"""

CALLER_SITE = "Mistbow-Caller-Site"
"""The header of a forwarded request of a peer, which may read only the data of its site."""

OPEN_PATHS = frozenset({"/healthz", CHALLENGE_PATH})

_TOKEN_SCHEMES = (b"bearer", b"token")
_SERVICE_SCHEME = SCHEME.encode()
_DRAIN_S = 5.0
_MAX_DRAINED_BYTES = 16 * 2**20


class Authentication:
    """Middleware that rejects requests without a valid token or signature (status 401).

    The path ``/healthz``, and the path at which services prove their identity, require neither. The
    schemes of tokens are ``Bearer``, and ``Token``, which Influx collectors send. Services of the
    fog sign their requests instead, with the scheme ``Mistbow``. ``is_public``: whether a request
    (method, path) is for a public page; such a request needs no token, and has no rights.
    ``needs_certificate``: whether services must have shown a certificate; people need none.
    """

    def __init__(
        self,
        app: ASGIApp,
        keyring: Keyring,
        sessions: ServiceSessions,
        is_public: Callable[[str, str], bool] = lambda _method, _path: False,
        *,
        needs_certificate: bool = False,
    ) -> None:
        self._app = app
        self._keyring = keyring
        self._sessions = sessions
        self._is_public = is_public
        self._needs_certificate = needs_certificate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._needs_certificate and _is_of_service(scope) and not _has_certificate(scope):
            await _reject_certificate(scope, receive, send)
            return
        if scope["type"] == "lifespan" or scope.get("path") in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        if self._is_public(scope["method"], scope["path"]):
            with on_behalf_of(NOBODY):
                await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        scheme, _, value = headers.get(b"authorization", b"").partition(b" ")
        caller: Caller | None = None
        answer_key: AnswerKey | None = None
        is_valid: Callable[[], bool] | None = None
        if scheme == _SERVICE_SCHEME:
            signed = self._accept(value, scope)
            if signed is None:
                await _reject_signature(scope, receive, send)
                return
            body, accepted = signed
            caller, answer_key = accepted.caller, accepted.answer_key
            service = caller
            is_valid = partial(self._sessions.is_valid, service)
            receive = _checked_body(receive, body)
        elif scheme.lower() in _TOKEN_SCHEMES:
            token = value.strip()
            caller = self._keyring.find(token)
            found = caller
            if found is not FOG:
                is_valid = lambda: self._keyring.find(token) == found  # noqa: E731
        if caller is None:
            await _reject(scope, receive, send)
            return
        if caller is FOG or caller.credential is not None:
            caller = restricted(caller, headers)
        else:
            # These headers are accepted from agents only.
            scope["headers"] = [each for each in scope["headers"] if not _is_own_header(each[0])]
        with on_behalf_of(caller), answering_with(answer_key):
            if is_valid is None:
                await self._app(scope, receive, send)
            else:
                await until_revoked(self._app, scope, receive, send, is_valid)

    def _accept(self, value: bytes, scope: Scope) -> tuple[str, Accepted] | None:
        """Return the SHA-256 of the body that a valid signature covers, and the accepted request.

        None: the signature is not valid.
        """
        signature = parse_signature(value)
        if signature is None:
            return None
        target = scope["raw_path"] + b"?" + scope["query_string"]
        found = self._sessions.accept(signature, scope["method"], target, scope["headers"])
        return None if found is None else (signature.body, found)


def caller_headers(caller: Caller) -> dict[str, str]:
    """Return the headers by which a request to another agent carries a caller's name and limits.

    This agent has already checked the caller's scope, so the other agent does not check the scope
    again, but only whether this agent may forward such a request.
    """
    headers = {ENTITY_PREFIX: quote(caller.entity_prefix)} if caller.entity_prefix else {}
    if caller.name != FOG.name:
        headers[CALLER] = quote(caller.name)
    if caller.signatures is not None:
        headers[SIGNATURES] = ",".join(sorted(caller.signatures))
    if caller.is_peer:
        headers[CALLER_SITE] = quote(caller.home or "")
    return headers


def restricted(caller: Caller, headers: Mapping[bytes, bytes]) -> Caller:
    """Return the caller that the headers of a forwarded request name, with the caller's limits.

    ``caller``: the service that sent the request.
    """
    name, prefix, signatures, home = (
        None if (value := headers.get(each.lower().encode())) is None else value.decode("latin-1")
        for each in (CALLER, ENTITY_PREFIX, SIGNATURES, CALLER_SITE)
    )
    if name is None and prefix is None and signatures is None and home is None:
        return caller
    found = caller.as_forwarder().restricted_to(
        caller.name if name is None else unquote(name),
        unquote(prefix or ""),
        None if signatures is None else frozenset(signatures.split(",")),
    )
    if home is None:
        return found
    peer = caller.as_peer(found.name, unquote(home))
    return replace(peer, entity_prefix=found.entity_prefix, signatures=found.signatures)


def _is_own_header(header: bytes) -> bool:
    return header.lower().startswith(b"mistbow-")


def _is_of_service(scope: Scope) -> bool:
    """Return whether a service sends a request: the request begins a session, or is signed."""
    if scope["type"] != "http":
        return False
    authorization: bytes = dict(scope["headers"]).get(b"authorization", b"")
    is_signed = authorization.partition(b" ")[0] == _SERVICE_SCHEME
    return is_signed or bool(scope["path"] == CHALLENGE_PATH)


def _has_certificate(scope: Scope) -> bool:
    return extension(scope, CLIENT_CERTIFICATE) is not None


async def _reject_certificate(scope: Scope, receive: Receive, send: Send) -> None:
    error = UnauthorizedError(
        "services must show a certificate of this fog",
        hint="Set MISTBOW_TLS_CERT and MISTBOW_TLS_KEY of the calling service: mistbow ca issue",
    )
    headers = {"Connection": "close"}
    await JSONResponse(error.body(), status_code=401, headers=headers)(scope, receive, send)


async def _reject(scope: Scope, receive: Receive, send: Send) -> None:
    error = UnauthorizedError(
        "a valid bearer token is required", hint="Send the header 'Authorization: Bearer TOKEN'."
    )
    # With close, clients need not send the rest of the body, which nothing reads.
    headers = {"WWW-Authenticate": "Bearer", "Connection": "close"}
    await JSONResponse(error.body(), status_code=401, headers=headers)(scope, receive, send)


async def _reject_signature(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 401 to a request whose signature is not valid, after reading the request's body.

    After this answer, the client begins another session. If the connection were closed while the
    client still sends the body, the client might not receive the answer.
    """
    error = UnauthorizedError("the signature of the request is not valid, or its session has ended")
    headers = {"WWW-Authenticate": SCHEME, "Connection": "close"}
    unread = _MAX_DRAINED_BYTES
    try:
        async with asyncio.timeout(_DRAIN_S):
            while unread > 0 and (message := await receive()).get("more_body", False):
                unread -= len(message["body"])
    except TimeoutError:
        pass
    await JSONResponse(error.body(), status_code=401, headers=headers)(scope, receive, send)


def _checked_body(receive: Receive, expected: str) -> Receive:
    """Return a function that receives a body, and raises ``UnauthorizedError`` at its end if it is
    not the signed body.

    ``expected``: the SHA-256 of the signed body.
    """
    hashed = hashlib.sha256()

    async def checked_receive() -> Message:
        message = await receive()
        if message["type"] == "http.request":
            hashed.update(message.get("body", b""))
            if not message.get("more_body", False) and not hmac.compare_digest(
                hashed.hexdigest(), expected
            ):
                raise UnauthorizedError("the body of the request is not the signed one")
        return message

    return checked_receive
