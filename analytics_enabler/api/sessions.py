"""Routes by which a browser exchanges a token for a session, whose cookie pages cannot read."""

from fastapi import APIRouter, Request, Response

from analytics.session_models import Session
from analytics_enabler.settings import EnablerSettings
from analytics_enabler.web.sessions import SESSION, SESSION_S, BrowserSessions, cookie_name
from mistbow import __version__
from mistbow.auth.callers import SCOPES, current_caller
from mistbow.auth.rules import requires
from mistbow.errors import InvalidRequestError

_SCHEMES = ("bearer", "token")


def sessions_router(
    sessions: BrowserSessions, settings: EnablerSettings, *, token_required: bool
) -> APIRouter:
    """Return the route ``/api/session``; ``token_required``: whether the service has a token."""
    router = APIRouter(prefix="/api/session", tags=["sessions"])

    def describe(expires_at: int | None) -> Session:
        caller = current_caller()
        return Session(
            token_required=token_required,
            name=caller.name,
            scopes=sorted(caller.scopes & SCOPES),
            entity_prefix=caller.entity_prefix,
            signatures=None if caller.signatures is None else sorted(caller.signatures),
            expires_at=expires_at,
            domain=settings.domain,
            grafana_url=settings.grafana_url,
            version=__version__,
        )

    def present(request: Request) -> Session:
        session = sessions.find(request.scope.get(SESSION))
        return describe(None if session is None else session.expires_at)

    @router.post("")
    @requires("read", by_entity=True)
    async def begin(request: Request, response: Response) -> Session:
        """Begin a session for the token of the request, and set its cookie.

        The cookie is accepted in place of the token, at this enabler. Pages cannot read it, and
        browsers do not send it for pages of other sites. A request with the cookie of a session
        does not extend the session. Without a token at the enabler, no cookie is set.
        """
        if not token_required or SESSION in request.scope:
            return present(request)
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() not in _SCHEMES:
            raise InvalidRequestError(
                "to begin a session, a token is required",
                hint="Send 'Authorization: Bearer TOKEN'.",
            )
        session_id, session = sessions.begin(token.strip())
        response.set_cookie(
            cookie_name(request.scope),
            session_id,
            max_age=SESSION_S,
            path="/",
            secure=_is_encrypted(request),
            httponly=True,
            samesite="strict",
        )
        return describe(session.expires_at)

    @router.get("")
    @requires("read", by_entity=True)
    async def show(request: Request) -> Session:
        """Show the rights of the caller, and the end of the caller's session."""
        return present(request)

    @router.delete("", status_code=204)
    @requires("read", by_entity=True)
    async def end(request: Request, response: Response) -> None:
        """End the session of the cookie; without a session, nothing changes."""
        if SESSION in request.scope:
            sessions.end(request.scope[SESSION])
        response.delete_cookie(
            cookie_name(request.scope), path="/", secure=_is_encrypted(request), samesite="strict"
        )

    return router


def _is_encrypted(request: Request) -> bool:
    """Return whether the browser uses TLS, to this service or to a proxy in front of it.

    Browsers send an ``Origin`` with each POST and DELETE; its scheme is that of the page.
    """
    origin = request.headers.get("origin", "")
    return request.url.scheme == "https" or origin.startswith("https://")
