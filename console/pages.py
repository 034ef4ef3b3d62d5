"""The files of the console as web applications, which an enabler serves by an entry point."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import cast

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy of the console: no script and no style but those of its files."""

_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    # The browser asks whether a file has changed, so an upgrade needs no new names of files.
    "Cache-Control": "no-cache",
}
_CODES = {404: "not_found", 405: "method_not_allowed"}


def pages() -> Mapping[str, ASGIApp]:
    """Return path -> application: the start page, and the files below ``/console``."""
    folder = static_folder()
    # A separate application answers 404 if there is no such file.
    served = Starlette(
        routes=[Mount("/", StaticFiles(directory=folder))],
        exception_handlers={HTTPException: _answer_error},
    )
    # An absolute location would name the host of the request.
    served.router.redirect_slashes = False

    async def files_or_start(scope: Scope, receive: Receive, send: Send) -> None:
        start = {"": "./", "/": "../"}.get(scope["path"].removeprefix(scope["root_path"]))
        is_read = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        app = RedirectResponse(start) if start and is_read else served
        await app(scope, receive, send)

    return {"/": _Guarded(_start_page), "/console": _Guarded(files_or_start)}


def static_folder() -> Path:
    """Return the folder of the console's files."""
    return Path(str(files("console") / "static"))


async def _start_page(scope: Scope, receive: Receive, send: Send) -> None:
    await FileResponse(static_folder() / "index.html")(scope, receive, send)


async def _answer_error(request: Request, error: Exception) -> Response:
    """Answer an error in the form of all errors of the REST API."""
    refused = cast("HTTPException", error)
    path, status = request.url.path, refused.status_code
    message = f"the console has no file {path}" if status == 404 else f"{path}: {refused.detail}"
    code = _CODES.get(status, "invalid_request")
    body = {"error": {"code": code, "message": message}, "result": "ERROR", "message": message}
    return JSONResponse(body, status, refused.headers)


class _Guarded:
    """An application that adds security headers to its answers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await self._app(scope, receive, send_guarded)
