"""The policy on requests that a browser sends for a web page, for services without a token.

Any web page can make its visitor's browser send requests to loopback. A page of another origin is
recognized by the headers ``Origin`` and ``Sec-Fetch-Site``, which pages cannot change. After DNS
rebinding, the page of an attacker seems to have the origin of the service, but ``Host`` contains a
name of the attacker.
"""

import ipaddress
import re
from functools import lru_cache

import msgspec
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from mistbow.errors import ForbiddenError

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(:[0-9]*)?")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_FORM_TYPES = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data")
"""The types of bodies that a page may send to other origins without a preflight request."""
SAFE_METHODS = ("GET", "HEAD")
_FORM_READS = ("/api/v1/query", "/api/v1/labels", "/api/v1/series")
"""Prefixes of paths that only read, and to which clients of Prometheus send forms."""
_HEADERS = frozenset(
    {b"origin", b"sec-fetch-site", b"content-type", b"content-length", b"transfer-encoding"}
)
_MAX_QUOTED = 100


class RequestHead(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a request that the policy depends on.

    ``hosts``: the values of all headers ``Host``. ``origin``, ``fetch_site``, ``content_type``:
    the values of ``Origin``, ``Sec-Fetch-Site`` and ``Content-Type``; None: the header is missing.
    """

    method: str
    path: str
    hosts: tuple[str, ...] = ()
    origin: str | None = None
    fetch_site: str | None = None
    content_type: str | None = None
    has_body: bool = False


class WebPageGuard:
    """Middleware that refuses requests of foreign web pages (status 403).

    ``own_names``: the host names of the service besides those of loopback, in lower case.
    """

    def __init__(self, app: ASGIApp, own_names: frozenset[str]) -> None:
        self._app = app
        self._own_names = own_names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            error = refusal(read_head(scope), self._own_names)
            if error is not None:
                # With close, clients need not send the rest of the body, which nothing reads.
                headers = {"Connection": "close"}
                answer = JSONResponse(error.body(), status_code=error.status, headers=headers)
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)


def refusal(head: RequestHead, own_names: frozenset[str]) -> ForbiddenError | None:
    """Return the error for a request that a foreign web page may have sent; None: permitted.

    A request without ``Host``, in HTTP/1.0, is permitted: every browser sends this header.
    """
    for host in head.hosts:
        if not _is_own_host(host.lower(), own_names):
            return ForbiddenError(
                f"Host: {host[:_MAX_QUOTED]!r} is not a name of this service, so the request may "
                "come from a web page",
                hint="Use the address 127.0.0.1, or add the name to MISTBOW_HOST_NAMES of the "
                "service.",
            )
    return foreign_page_refusal(head)


def foreign_page_refusal(head: RequestHead) -> ForbiddenError | None:
    """Return the error for a request that a page of another origin may have sent; None: permitted.

    The names in ``Host`` are not checked.
    """
    if head.origin is not None and not any(
        _is_same_origin(head.origin.lower(), host.lower()) for host in head.hosts
    ):
        return _foreign_page(f"Origin: {head.origin[:_MAX_QUOTED]}")
    if head.fetch_site == "cross-site" or (head.fetch_site == "same-site" and head.origin is None):
        return _foreign_page(f"Sec-Fetch-Site: {head.fetch_site}")
    if head.origin is None and head.fetch_site is None:
        return None
    return _form_refusal(head)


def _form_refusal(head: RequestHead) -> ForbiddenError | None:
    """Return the error for a request to change data that a form of any web page could send.

    None: the request reads only, has no body, or has a Content-Type that forms cannot have.
    """
    if head.method in SAFE_METHODS or not head.has_body or head.path.startswith(_FORM_READS):
        return None
    media_type = (head.content_type or "").partition(";")[0].strip().lower()
    if media_type and media_type not in _FORM_TYPES:
        return None
    return ForbiddenError(
        f"Content-Type: a browser may not send {media_type or 'a body without a type'} to "
        f"{head.method} {head.path[:_MAX_QUOTED]}",
        hint="Send the body as application/json, or with a program instead of a browser.",
    )


def _foreign_page(what: str) -> ForbiddenError:
    return ForbiddenError(
        f"{what}: web pages of other origins may not send requests to this service",
        hint="Open the address of the service in the browser itself, send the request with a "
        "program, or serve the page and the service at one address by a reverse proxy.",
    )


@lru_cache(maxsize=256)
def _is_own_host(host: str, own_names: frozenset[str]) -> bool:
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    name = match[1].strip("[]").removesuffix(".")
    if name == "localhost" or name.endswith(".localhost") or name in own_names:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _is_same_origin(origin: str, host: str) -> bool:
    """Return whether an origin has the host and port of ``Host``.

    The schemes are not compared: a reverse proxy may serve https for a service that serves http.
    """
    scheme, _, address = origin.partition("://")
    port = _DEFAULT_PORTS.get(scheme)
    return port is not None and address.removesuffix(port) == host.removesuffix(port)


def read_head(scope: Scope) -> RequestHead:
    """Return the parts of a request that the policy depends on."""
    hosts = []
    found: dict[bytes, str] = {}
    for name, value in scope["headers"]:
        if name == b"host":
            hosts.append(value.decode("latin-1"))
        elif name == b"origin" and name in found:
            # Several origins equal none: one of them may be foreign.
            found[name] += f", {value.decode('latin-1')}"
        elif name in _HEADERS:
            found[name] = value.decode("latin-1")
    return RequestHead(
        method=scope["method"],
        path=scope["path"],
        hosts=tuple(hosts),
        origin=found.get(b"origin"),
        fetch_site=found.get(b"sec-fetch-site"),
        content_type=found.get(b"content-type"),
        has_body=found.get(b"content-length", "0") != "0" or b"transfer-encoding" in found,
    )
