"""The gate of every service: no request passes it without a token that is known."""

from collections.abc import Mapping
from urllib.parse import quote, unquote

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from mistbow.auth.callers import FOG, Caller, on_behalf_of
from mistbow.auth.keyring import Keyring
from mistbow.errors import UnauthorizedError

CALLER = "Mistbow-Caller"
"""What an agent adds to a request that it passes on for a token but the fog's: the token's name."""

ENTITY_PREFIX = "Mistbow-Entity-Prefix"
"""What it adds for a token with such a prefix."""

SIGNATURES = "Mistbow-Signatures"
"""What it adds for every token but the fog's: those that the token carries, with commas between."""

OPEN_PATHS = frozenset({"/healthz"})

_SCHEMES = (b"bearer", b"token")


class Gate:
    """Answers 401 to requests without a known token; ``/healthz`` stays open for health checks.

    Collectors that speak Influx send ``Authorization: Token …``, which is taken as well.
    """

    def __init__(self, app: ASGIApp, keyring: Keyring) -> None:
        self._app = app
        self._keyring = keyring

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope.get("path") in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        caller = self._caller(headers.get(b"authorization", b""))
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        elif caller is None:
            await _refuse(scope, receive, send)
        else:
            if caller is FOG:
                caller = _narrowed(caller, headers)
            else:
                # What agents tell each other in headers is believed of agents only.
                scope["headers"] = [each for each in scope["headers"] if not _is_ours(each[0])]
            with on_behalf_of(caller):
                await self._app(scope, receive, send)

    def _caller(self, authorization: bytes) -> Caller | None:
        scheme, _, token = authorization.partition(b" ")
        return self._keyring.find(token.strip()) if scheme.lower() in _SCHEMES else None


def passed_on(caller: Caller) -> dict[str, str]:
    """Return the headers by which another agent knows a caller, and keeps to its rights.

    The scope was checked here; the fog's own token, which the other agent sees, has them all.
    """
    headers = {ENTITY_PREFIX: quote(caller.entity_prefix)} if caller.entity_prefix else {}
    if caller.name != FOG.name:
        headers[CALLER] = quote(caller.name)
    if caller.signatures is not None:
        headers[SIGNATURES] = ",".join(sorted(caller.signatures))
    return headers


def _narrowed(caller: Caller, headers: Mapping[bytes, bytes]) -> Caller:
    name, prefix, signatures = (
        None if (value := headers.get(each.lower().encode())) is None else value.decode("latin-1")
        for each in (CALLER, ENTITY_PREFIX, SIGNATURES)
    )
    if name is None and prefix is None and signatures is None:
        return caller
    return caller.narrowed(
        caller.name if name is None else unquote(name),
        unquote(prefix or ""),
        None if signatures is None else frozenset(signatures.split(",")),
    )


def _is_ours(header: bytes) -> bool:
    return header.lower().startswith(b"mistbow-")


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    error = UnauthorizedError(
        "a bearer token is needed", hint="Send the header 'Authorization: Bearer TOKEN'."
    )
    # A body that nobody reads would be waited for.
    headers = {"WWW-Authenticate": "Bearer", "Connection": "close"}
    await JSONResponse(error.body(), status_code=401, headers=headers)(scope, receive, send)
