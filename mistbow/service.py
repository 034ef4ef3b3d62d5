"""What every HTTP service has: health, metrics, errors as JSON, tokens and body limits."""

import ipaddress
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import prometheus_client
import uvicorn
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException

from mistbow import __version__
from mistbow.auth.guard import Gate
from mistbow.auth.keyring import Keyring
from mistbow.auth.rules import authorize, requires
from mistbow.errors import InvalidRequestError, MistbowError, NotFoundError
from mistbow.http.limits import BodyLimit, RequestLimit, headers_of
from mistbow.http.protocol import BoundedProtocol
from mistbow.http.shortcut import Shortcut, Shortcuts
from mistbow.settings import ServiceSettings
from mistbow.telemetry import get_logger, set_up_logging
from mistbow.trust_settings import TokenSettings

log = get_logger(__name__)

Readiness = Callable[[], Awaitable[list[str]]]
"""Returns what the service still waits for, in words; an empty list when it is ready."""

NotFoundForm = Callable[[NotFoundError], Any]
"""Returns the JSON body of a 404."""

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def create_service(
    title: str,
    settings: ServiceSettings,
    *,
    readiness: Readiness,
    lifespan: Lifespan | None = None,
    description: str = "",
    shortcuts: Mapping[str, Shortcut] | None = None,
    but_with: bytes = b"",
    not_found: Mapping[str, NotFoundForm] | None = None,
) -> FastAPI:
    """Build a FastAPI application with everything that Mistbow's services have in common.

    ``shortcuts`` answer POSTs by path, but those with a header ``but_with``; ``not_found`` gives
    the form of a 404 under a path.
    """
    app = FastAPI(
        title=title,
        version=__version__,
        description=description,
        lifespan=lifespan,
        dependencies=[Depends(authorize)],
        # Whether somebody set it up would be looked for at each request.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    _add_operations(app, readiness)
    _add_error_handlers(app, not_found or {})
    # The last one is asked first: who is not known takes nobody's place.
    if shortcuts:
        app.add_middleware(Shortcuts, by_path=shortcuts, but_with=but_with)
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes, seconds=settings.body_seconds)
    app.add_middleware(
        RequestLimit, max_requests=settings.max_requests, max_followers=settings.max_followers
    )
    if settings.secret is not None:
        app.add_middleware(Gate, keyring=Keyring(settings.secret, settings.tokens_file))
    return app


def serve(app: FastAPI, name: str, port: int, settings: ServiceSettings) -> None:
    """Serve ``app`` until SIGTERM or Ctrl-C; refuses to listen beyond loopback without a token."""
    refuse_to_be_open(name, settings.host, settings)
    secrets = () if settings.secret is None else (settings.secret,)
    set_up_logging(name, settings.home, settings.log_level, secrets)
    uvicorn.run(
        app,
        host=settings.host,
        port=port,
        http=BoundedProtocol,
        ws="none",
        proxy_headers=False,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=3,
        timeout_keep_alive=60,
    )


def refuse_to_be_open(name: str, host: str, settings: TokenSettings) -> None:
    """End this process where it would listen beyond loopback without a token."""
    if settings.token is None and not _is_loopback(host):
        raise SystemExit(
            f"mistbow {name}: MISTBOW_TOKEN or MISTBOW_TOKEN_FILE must be set to listen on {host}, "
            "which is reachable from other machines"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _add_operations(app: FastAPI, readiness: Readiness) -> None:
    @app.get("/healthz", tags=["operations"], summary="Is the process alive?")
    @requires("read")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz", tags=["operations"], summary="Can it serve, and if not, why?")
    @requires("read")
    async def readyz() -> JSONResponse:
        waiting = await readiness()
        body = {"status": "waiting" if waiting else "ready", "waiting_for": waiting}
        return JSONResponse(body, status_code=503 if waiting else 200)

    @app.get("/metrics", tags=["operations"], summary="Prometheus metrics")
    @requires("read")
    async def metrics() -> Response:
        return PlainTextResponse(
            prometheus_client.generate_latest(),
            media_type=prometheus_client.CONTENT_TYPE_LATEST,
        )


def _answer(body: Any, status: int, headers: Mapping[str, str] | None = None) -> Response:
    # All in ASCII: what an error quotes may be no valid text.
    text = json.dumps(body)
    return Response(text, status, headers=dict(headers or {}), media_type="application/json")


def _add_error_handlers(app: FastAPI, not_found: Mapping[str, NotFoundForm]) -> None:
    def on_not_found(request: Request, error: NotFoundError) -> Response:
        for path, form in not_found.items():
            if request.url.path.startswith(path):
                return _answer(form(error), error.status)
        return _answer(error.body(), error.status)

    @app.exception_handler(MistbowError)
    async def on_own(request: Request, error: MistbowError) -> Response:
        if isinstance(error, NotFoundError):
            return on_not_found(request, error)
        return _answer(error.body(), error.status, headers_of(error))

    @app.exception_handler(RequestValidationError)
    async def on_validation(_: Request, error: RequestValidationError) -> Response:
        problems = [
            {"where": ".".join(str(part) for part in item["loc"]), "what": item["msg"]}
            for item in error.errors()
        ]
        first = problems[0] if problems else {"where": "body", "what": "is not valid"}
        invalid = InvalidRequestError(
            f"{first['where']}: {first['what']}",
            hint="The service's /docs shows what this request takes.",
            details=problems,
        )
        return _answer(invalid.body(), invalid.status)

    @app.exception_handler(HTTPException)
    async def on_http(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404:
            return on_not_found(request, NotFoundError(f"nothing is served at {request.url.path}"))
        body = {"error": {"code": "http", "message": str(error.detail)}}
        return _answer(body, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def on_unforeseen(request: Request, error: Exception) -> Response:
        log.error("unforeseen error", path=request.url.path, exc_info=error)
        body = MistbowError("something went wrong inside the service; its log says what").body()
        return _answer(body, 500)
