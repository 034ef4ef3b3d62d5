"""The pages at ``/docs``: Swagger UI from an installed package, and a login for browsers.

The pages load nothing from other servers. The login is HTTP Basic with the token as the password.
It is valid for these pages only: a browser repeats such a login in each request, even in a request
of a foreign page, so the login must not permit access to data.
"""

import base64
import binascii
import html
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SCRIPT = "swagger-ui-bundle.js"
_STYLE = "swagger-ui.css"
_START = "start.js"
DOCUMENTATION_PATHS = frozenset(
    {"/docs", "/redoc", "/openapi.json", *(f"/docs/{file}" for file in (_SCRIPT, _STYLE, _START))}
)
"""The paths that a browser may read with a login."""

# In a file of its own, because the policy of the page permits no inline scripts.
_START_SCRIPT = """SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
});
"""
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/{style}">
</head>
<body>
<div id="swagger-ui"></div>
<script src="docs/{script}"></script>
<script src="docs/{start}"></script>
</body>
</html>
"""
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_CHALLENGE = (b"www-authenticate", b'Basic realm="the token as the password", charset="UTF-8"')


def add_documentation(app: FastAPI) -> None:
    """Add the documentation pages; the application must be made with FastAPI's own pages off."""
    page = _PAGE.format(title=html.escape(app.title), style=_STYLE, script=_SCRIPT, start=_START)

    async def docs(_: Request) -> Response:
        return HTMLResponse(page, headers=_PAGE_HEADERS)

    async def script(_: Request) -> Response:
        return FileResponse(_asset(_SCRIPT), media_type="text/javascript")

    async def style(_: Request) -> Response:
        return FileResponse(_asset(_STYLE), media_type="text/css")

    async def start(_: Request) -> Response:
        return Response(_START_SCRIPT, media_type="text/javascript")

    async def redoc(_: Request) -> Response:
        return RedirectResponse("docs")

    endpoints = {f"docs/{_SCRIPT}": script, f"docs/{_STYLE}": style, f"docs/{_START}": start}
    for path, endpoint in {"docs": docs, "redoc": redoc, **endpoints}.items():
        app.add_route(f"/{path}", endpoint, include_in_schema=False)


def _asset(name: str) -> Path:
    """Return the path of a file of Swagger UI."""
    return Path(str(files("fastapi_offline") / "static" / name))


class DocumentationLogin:
    """Middleware that lets browsers log in to the documentation pages by HTTP Basic.

    The password of such a login becomes a bearer token. ``app`` checks the token.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] not in DOCUMENTATION_PATHS:
            await self._app(scope, receive, send)
            return

        async def send_challenge(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 401:
                message["headers"] = [*message["headers"], _CHALLENGE]
            await send(message)

        headers = [(name, _to_bearer(name, value)) for name, value in scope["headers"]]
        await self._app({**scope, "headers": headers}, receive, send_challenge)


def _to_bearer(name: bytes, value: bytes) -> bytes:
    """Convert a login by HTTP Basic to a bearer token: return the new value of the header.

    The token is the password of the login. Other values of the header are returned unchanged.
    """
    scheme, _, encoded = value.partition(b" ")
    if name != b"authorization" or scheme.lower() != b"basic":
        return value
    try:
        login = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return value
    return b"Bearer " + login.partition(b":")[2]
