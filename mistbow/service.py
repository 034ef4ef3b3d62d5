"""The common parts of all HTTP services: health, metrics, documentation, errors, tokens, limits."""

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress

import msgspec
import prometheus_client
import uvicorn
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match
from starlette.types import ASGIApp

from mistbow import __version__
from mistbow.auth.audiences import LocalEnd, OwnAddresses
from mistbow.auth.authentication import Authentication
from mistbow.auth.callers import FOG, current_caller
from mistbow.auth.identity_proof import SignedChallenge
from mistbow.auth.keyring import Keyring
from mistbow.auth.rules import authorize, requires
from mistbow.auth.service_key import CHALLENGE_PATH, Challenge, ServiceKey
from mistbow.auth.service_sessions import ServiceSessions
from mistbow.errors import (
    InvalidRequestError,
    MistbowError,
    TooLargeError,
    UnavailableError,
    of_status,
    unavailable_by,
)
from mistbow.home_lock import home_lock
from mistbow.http.documentation import DocumentationLogin, add_documentation
from mistbow.http.error_forms import ErrorForms, ForeignErrors, own_form
from mistbow.http.graceful_shutdown import GracefulServer, Leave
from mistbow.http.limits import BodyLimit, RequestLimit, error_headers
from mistbow.http.parameters import reject_repeated_parameters
from mistbow.http.protocol import BoundedProtocol
from mistbow.http.tls_protocol import serve_tls
from mistbow.http.web_pages import WebPageGuard
from mistbow.loopback import is_loopback
from mistbow.name_resolver import NAMES
from mistbow.open_files import raise_file_limit
from mistbow.openapi import ApiDescription, Service
from mistbow.os_faults import fault_of
from mistbow.ports import check_ports
from mistbow.private_files import make_home
from mistbow.runtime.loop_errors import log_loop_errors
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.setting_names import unknown_settings
from mistbow.settings import ServiceSettings
from mistbow.telemetry import get_logger, set_up_logging
from mistbow.trust_settings import TokenSettings

log = get_logger(__name__)

_MAX_CHALLENGE_BYTES = 4096
_CERTIFICATE_CHECK_S = 60.0
_STARTUP_FAILED = 3
"""The exit status of a failed start, also in uvicorn."""

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_CHALLENGE = msgspec.json.Decoder(Challenge)
_SIGNED_CHALLENGE = msgspec.json.Decoder(SignedChallenge)

ReadMessages = Callable[[], Awaitable[list[str]]]
"""A function that returns messages for operators, which ``/readyz`` shows."""


async def _no_warnings() -> list[str]:
    return []


def _is_never_public(_method: str, _path: str) -> bool:
    return False


Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def create_service(
    title: str,
    settings: ServiceSettings,
    *,
    readiness: ReadMessages,
    warnings: ReadMessages = _no_warnings,
    lifespan: Lifespan | None = None,
    description: str = "",
    wrap: Callable[[ASGIApp], ASGIApp] | None = None,
    error_forms: ErrorForms | None = None,
    api: ApiDescription | None = None,
    is_public: Callable[[str, str], bool] | None = None,
    leave: Leave | None = None,
) -> FastAPI:
    """Return a FastAPI application with the common parts of Mistbow's services.

    ``readiness``: returns the conditions for which the service waits; empty: it is ready.
    ``warnings``: returns problems that an operator should solve although the service is ready.
    ``wrap``: adds middleware that may answer requests in place of FastAPI, after authentication and
    limits. ``error_forms``: the forms of errors at paths of other protocols. ``api``: the additions
    of the service to its OpenAPI document. ``is_public``: whether a request (method, path) is for a
    public page, which needs no token. ``leave``: called at SIGTERM; the service stops when it
    returns.
    """
    app = Service(
        title=title,
        version=__version__,
        description=description,
        lifespan=_with_watches(lifespan, settings),
        dependencies=[Depends(authorize), Depends(reject_repeated_parameters)],
        docs_url=None,
        redoc_url=None,
        # Clients that do not follow a redirect would take it for the answer.
        redirect_slashes=False,
        # FastAPI would check at each request whether telemetry is configured.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    forms = error_forms or ErrorForms({})
    app.api_description, app.error_forms = api or ApiDescription(), forms
    own = OwnAddresses(settings.own_addresses)
    sessions = _sessions(settings, own)
    app.state.leave = leave
    app.state.probe_token = "" if settings.identity is None else secrets.token_urlsafe()
    secret, tokens_file = settings.secret or "", settings.tokens_file
    keyring = Keyring(secret, tokens_file, probe=app.state.probe_token)
    _add_operations(app, readiness, _with_common(warnings, settings, keyring))
    add_challenge(app, sessions)
    add_documentation(app)
    _add_error_handlers(app, forms)
    # The last one runs first: an unauthenticated request does not count against the limits.
    if wrap is not None:
        app.add_middleware(wrap)
    app.add_middleware(
        BodyLimit,
        max_bytes=settings.max_body_bytes,
        seconds=settings.body_seconds,
        current_token=_current_token,
    )
    app.add_middleware(
        RequestLimit,
        max_requests=settings.max_requests,
        max_followers=settings.max_followers,
        current_token=_current_token,
    )
    if settings.proof is None:
        # With tokens no guard is needed, because browsers do not add a token on their own.
        app.add_middleware(WebPageGuard, own_names=settings.own_names)
    else:
        app.add_middleware(
            Authentication,
            keyring=keyring,
            sessions=sessions,
            is_public=is_public or _is_never_public,
            needs_certificate=settings.tls_client_ca is not None,
        )
        app.add_middleware(DocumentationLogin)
    # Outside all other middleware, whose errors it converts.
    app.add_middleware(ForeignErrors, forms=forms)
    return app


def _with_common(
    warnings: ReadMessages, settings: ServiceSettings, keyring: Keyring
) -> ReadMessages:
    """Return the warnings of a service, and those about its tokens, certificates and settings."""
    identity = settings.identity
    unknown = unknown_settings(os.environ)

    async def all_warnings() -> list[str]:
        own = [] if identity is None else identity.warnings()
        tokens = keyring.warnings()
        return [*await warnings(), *own, *tokens, *settings.certificates.warnings(), *unknown]

    return all_warnings


def _sessions(settings: ServiceSettings, own: OwnAddresses) -> ServiceSessions:
    """Return the sessions; a service with an identity, but without a token, has no service key."""
    needs_identity = settings.identity is not None and settings.shared_token is None
    key = None if needs_identity else ServiceKey(settings.shared_token or "")
    return ServiceSessions(key, own, identity=settings.identity)


def _with_watches(lifespan: Lifespan | None, settings: ServiceSettings) -> Lifespan:
    """Return a lifespan in which errors of the event loop are logged, and certificates watched."""
    schedule = Schedule("certificate_check", _CERTIFICATE_CHECK_S)

    @asynccontextmanager
    async def with_watches(app: FastAPI) -> AsyncIterator[None]:
        _build_routes(app)
        log_loop_errors(asyncio.get_running_loop())
        certificates = PeriodicTask(settings.certificates.check, schedule)
        certificates.start()
        try:
            async with nullcontext() if lifespan is None else lifespan(app):
                yield
        finally:
            await certificates.close()

    return with_watches


def _build_routes(app: FastAPI) -> None:
    """Build the routes of all routers.

    FastAPI would build them at the first request, and stop the event loop meanwhile: for 140 ms in
    an agent.
    """
    scope = {"type": "http", "method": "GET", "path": "/", "root_path": "", "headers": []}
    for route in app.routes:
        route.matches(scope)


def serve(app: FastAPI, name: str, port: int, settings: ServiceSettings) -> None:
    """Serve ``app`` until SIGTERM or Ctrl-C.

    Exits without a token if other machines could reach the service. Raises ``ConflictError`` if a
    process of the same service runs in the home folder, or if the port is in use.
    """
    require_token_beyond_loopback(name, settings.host, settings)
    problems = make_home(settings.home)
    with home_lock(settings.home, name, f"mistbow {name}"):
        check_ports({f"{name}_port": port}, settings.host)
        hidden = () if settings.secret is None else (settings.secret,)
        set_up_logging(name, settings.home, settings.log_level, hidden)
        if app.state.probe_token:
            (settings.home / f"probe-{port}.token").write_text(app.state.probe_token)
        for problem in problems:
            log.warning("home_not_private", problem=problem)
        for problem in unknown_settings(os.environ):
            log.warning("setting_unknown", problem=problem)
        _run(app, port, settings)


def _run(app: FastAPI, port: int, settings: ServiceSettings) -> None:
    raise_file_limit()
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=port,
        http=BoundedProtocol,
        ws="none",
        proxy_headers=False,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=3,
        timeout_keep_alive=60,
    )
    if settings.server_tls is not None:
        serve_tls(config, settings.server_tls)
    leave: Leave | None = app.state.leave
    server = uvicorn.Server(config) if leave is None else GracefulServer(config, leave)
    server.run()
    if not server.started:
        sys.exit(_STARTUP_FAILED)


def require_token_beyond_loopback(name: str, host: str, settings: TokenSettings) -> None:
    """Exit if no token is set, although other machines can reach the address ``host``."""
    if settings.proof is None and not is_loopback(host):
        raise SystemExit(
            f"mistbow {name}: MISTBOW_IDENTITY_FILE, MISTBOW_TOKEN or MISTBOW_TOKEN_FILE must be "
            f"set to listen on {host}, which is reachable from other machines"
        )


def _current_token() -> str:
    """Return the name of the current request's token; empty: the fog's own token, or no token.

    All callers for whom an agent of another site forwards requests share one name, since that agent
    can name any number of callers.
    """
    caller = current_caller()
    if caller.home is not None and caller.credential is None:
        return f"of the site {caller.home}"
    return "" if caller.name == FOG.name else caller.name


def _add_operations(app: FastAPI, readiness: ReadMessages, warnings: ReadMessages) -> None:
    @app.get("/healthz", tags=["operations"], summary="Is the process alive?")
    @requires("read")
    async def healthz() -> dict[str, str]:
        """Answer as long as the process runs; needs no token."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["operations"], summary="Is the service ready, and if not, why?")
    @requires("read")
    async def readyz() -> JSONResponse:
        """Return whether the service can serve; the status is 503 while it waits for something."""
        waiting, warned = await readiness(), [*await warnings(), *NAMES.problems()]
        body = {"status": "waiting" if waiting else "ready", "waiting_for": waiting}
        if warned:
            body["warnings"] = warned
        if waiting:
            body |= UnavailableError(f"the service waits for {'; '.join(waiting)}").body()
        return JSONResponse(body, status_code=503 if waiting else 200)

    @app.get("/metrics", tags=["operations"], summary="Prometheus metrics")
    @requires("read")
    async def metrics() -> Response:
        """Return the service's own metrics in the text format of Prometheus."""
        return PlainTextResponse(
            prometheus_client.generate_latest(),
            media_type=prometheus_client.CONTENT_TYPE_LATEST,
        )


def add_challenge(app: FastAPI, sessions: ServiceSessions) -> None:
    """Add the route at which a service proves its identity to another service."""

    @app.post(CHALLENGE_PATH, include_in_schema=False)
    @requires("read")
    async def challenge(request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _MAX_CHALLENGE_BYTES:
                raise TooLargeError(f"a challenge has at most {_MAX_CHALLENGE_BYTES} bytes")
        host, port = request.scope["server"] or (None, None)
        local = LocalEnd(request.scope["scheme"], host, port)
        received = _read_challenge(body)
        answer = (
            await sessions.answer(received, local)
            if isinstance(received, Challenge)
            else await sessions.answer_signed(received, local)
        )
        return Response(msgspec.json.encode(answer), media_type="application/json")


def _read_challenge(body: bytes) -> Challenge | SignedChallenge:
    try:
        return _CHALLENGE.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return _SIGNED_CHALLENGE.decode(body)
        raise InvalidRequestError(f"the body is not a challenge: {error}") from None


def _answer(
    error: MistbowError, status: int | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    body, kind = own_form(error, error.status)
    return Response(body, status or error.status, dict(headers or {}), kind)


def _add_error_handlers(app: FastAPI, forms: ErrorForms) -> None:
    @app.exception_handler(MistbowError)
    async def on_mistbow_error(_: Request, error: MistbowError) -> Response:
        return _answer(error, headers=error_headers(error))

    @app.exception_handler(RequestValidationError)
    async def on_validation_error(_: Request, error: RequestValidationError) -> Response:
        problems = [
            {"where": ".".join(str(part) for part in item["loc"]), "what": item["msg"]}
            for item in error.errors()
        ]
        first = problems[0] if problems else {"where": "body", "what": "is not valid"}
        return _answer(
            InvalidRequestError(
                f"{first['where']}: {first['what']}",
                hint="The parameters of this request are described at the service's /docs.",
                details=problems,
            )
        )

    @app.exception_handler(HTTPException)
    async def on_http_error(request: Request, error: HTTPException) -> Response:
        headers = error.headers
        if error.status_code == 405:
            headers = {"Allow": ", ".join(_methods_of(request))}
        return _answer(_routing_error(request, error), error.status_code, headers)

    @app.exception_handler(ClientDisconnect)
    async def on_disconnect(_: Request, __: ClientDisconnect) -> Response:
        # Nobody reads the answer, and the log needs no traceback of it.
        return _answer(InvalidRequestError("the client disconnected"))

    @app.exception_handler(OSError)
    async def on_os_error(request: Request, error: OSError) -> Response:
        if (fault := fault_of(error)) is None:
            raise error
        log.error("request_failed", path=request.scope["path"], error=str(fault))
        return _answer(unavailable_by(fault))

    @app.exception_handler(Exception)
    async def on_unexpected_error(request: Request, error: Exception) -> Response:
        path = request.scope["path"]
        log.error("request_failed", path=path, exc_info=error)
        # This handler runs outside all middleware, which therefore cannot convert the error.
        form = forms.find(path) or own_form
        internal = MistbowError("internal error; the service's log has the details")
        body, kind = form(internal, internal.status)
        return Response(body, internal.status, media_type=kind)


def _routing_error(request: Request, error: HTTPException) -> MistbowError:
    """Return the error of a request that has no route, in place of Starlette's own."""
    path, status = request.scope["path"], error.status_code
    if status == 404:
        without_slash = "Omit the / at the end. " if path.endswith("/") and path != "/" else ""
        return of_status(
            status,
            f"the service has no route {path}",
            hint=f"{without_slash}The service's /docs lists its routes.",
        )
    if status == 405:
        return of_status(
            status,
            f"{path} does not take the method {request.method}",
            hint=f"The path has the methods {', '.join(_methods_of(request))}.",
        )
    return of_status(status, str(error.detail))


def _methods_of(request: Request) -> list[str]:
    """Return the methods of all routes of the path; Starlette names those of the first route."""
    return [
        method
        for method in _METHODS
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL
            for route in request.app.routes
        )
    ]
