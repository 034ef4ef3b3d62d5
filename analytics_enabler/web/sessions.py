"""Sessions of browsers: a cookie stands for a token, which pages neither store nor send.

A session is in memory only. Its token is checked again at each request, so a revoked or expired
token ends its sessions. The end of a session also ends the streams that it reads.
"""

import secrets
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie

from cachetools import TTLCache
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from mistbow.auth.revocation import until_revoked
from mistbow.clock import Clock, system_clock
from mistbow.errors import ForbiddenError
from mistbow.http.web_pages import SAFE_METHODS, foreign_page_refusal, read_head

SESSION_S = 12 * 3600
"""The duration of a session (s)."""

MAX_SESSIONS = 10_000
"""The maximum number of sessions; the oldest session ends when there are more."""

SESSION = "mistbow.session"
"""The key of the session's id in the ASGI scope of a request that a cookie authenticates."""

_COOKIE = "mistbow_session"
_AUTHORIZATION = b"authorization"


class Session:
    """The token of a session, and the time (ms) at which the session ends."""

    __slots__ = ("expires_at", "token")

    def __init__(self, token: str, expires_at: int) -> None:
        self.token = token
        self.expires_at = expires_at


class BrowserSessions:
    """The sessions of browsers at this enabler: random id -> session."""

    def __init__(self, clock: Clock = system_clock) -> None:
        self._clock = clock
        self._sessions: TTLCache[str, Session] = TTLCache(
            MAX_SESSIONS, SESSION_S * 1000, timer=clock
        )

    def begin(self, token: str) -> tuple[str, Session]:
        """Return (id, session) of a new session for a valid token."""
        session = Session(token, self._clock() + SESSION_S * 1000)
        session_id = secrets.token_urlsafe(32)
        self._sessions[session_id] = session
        return session_id, session

    def find(self, session_id: str | None) -> Session | None:
        """Return a session; None: there is no such session, or it has ended."""
        return None if session_id is None else self._sessions.get(session_id)

    def end(self, session_id: str) -> None:
        """End a session; an unknown session is ignored."""
        self._sessions.pop(session_id, None)


def cookie_name(scope: Scope) -> str:
    """Return the name of the cookie, which contains the port of this service.

    Browsers send a cookie to all ports of a host, where other enablers may run.
    """
    _, port = scope.get("server") or (None, None)
    return f"{_COOKIE}_{port or 0}"


class SessionLogin:
    """Middleware that converts the cookie of a session to the bearer token of the session.

    ``app`` checks the token. An ``Authorization`` of the request itself has precedence. Browsers
    send cookies on their own, so a request with a cookie is refused if a page of another origin may
    have sent it.
    """

    def __init__(self, app: ASGIApp, sessions: BrowserSessions) -> None:
        self._app = app
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        session_id = None if scope["type"] != "http" else _session_id(scope)
        session = self._sessions.find(session_id)
        if session is None:
            await self._app(scope, receive, send)
            return
        error = _refusal(scope)
        if error is not None:
            # With close, clients need not send the rest of the body, which nothing reads.
            close = {"Connection": "close"}
            answer = JSONResponse(error.body(), status_code=error.status, headers=close)
            await answer(scope, receive, send)
            return
        token = (_AUTHORIZATION, f"Bearer {session.token}".encode("latin-1"))
        headers = [*scope["headers"], token]
        request = {**scope, "headers": headers, SESSION: session_id}
        await until_revoked(
            self._app, request, receive, send, lambda: self._sessions.find(session_id) is session
        )


def _session_id(scope: Scope) -> str | None:
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    cookies = []
    for name, value in headers:
        if name == _AUTHORIZATION:
            return None
        if name == b"cookie":
            cookies.append(value.decode("latin-1"))
    found = None
    for text in cookies:
        try:
            morsel = SimpleCookie(text).get(cookie_name(scope))
        except CookieError:
            continue
        found = found if morsel is None else morsel.value
    return found


def _refusal(scope: Scope) -> ForbiddenError | None:
    head = read_head(scope)
    refused = foreign_page_refusal(head)
    if refused is not None or head.method in SAFE_METHODS:
        return refused
    if head.origin is None and head.fetch_site is None:
        # Every browser sends one of these headers with such a method.
        return ForbiddenError(
            f"{head.method} with a cookie needs the header Origin or Sec-Fetch-Site",
            hint="Programs send 'Authorization: Bearer TOKEN' instead of a cookie.",
        )
    return None
