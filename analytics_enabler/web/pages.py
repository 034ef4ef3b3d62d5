"""The pages that other packages add to the enabler, such as the console.

A package adds pages by an entry point of the group ``mistbow.pages``: a function without arguments
that returns path -> ASGI application. Pages are public: a browser loads them without a token. So
they contain no data, and use the same REST API as other clients.
"""

from collections.abc import Mapping
from importlib.metadata import entry_points

from starlette.types import ASGIApp, Receive, Scope, Send

from mistbow.http.web_pages import SAFE_METHODS

GROUP = "mistbow.pages"
HOME = "/"
PREFIX = "/console"


def installed_pages() -> dict[str, ASGIApp]:
    """Return path -> application for the pages of all installed packages.

    Raises ``ValueError`` for a path that is neither ``/`` nor below ``/console``.
    """
    found: dict[str, ASGIApp] = {}
    for entry in entry_points(group=GROUP):
        pages: Mapping[str, ASGIApp] = entry.load()()
        for path, page in pages.items():
            if not is_page(path):
                raise ValueError(f"{entry.value}: {path} is neither {HOME} nor below {PREFIX}")
            found[path.rstrip("/")] = page
    return found


def is_page(path: str) -> bool:
    """Return whether a path belongs to pages.

    >>> [is_page(path) for path in ("/", "/console/main.js", "/console", "/consoles", "/api/fog")]
    [True, True, True, False, False]
    """
    return path in (HOME, PREFIX) or path.startswith(f"{PREFIX}/")


def is_public(method: str, path: str) -> bool:
    """Return whether a request needs no token, because it reads a page."""
    return method in SAFE_METHODS and is_page(path)


class Pages:
    """Middleware that answers the requests for pages; ``pages``: see ``installed_pages``."""

    def __init__(self, app: ASGIApp, pages: Mapping[str, ASGIApp]) -> None:
        self._app = app
        self._pages = dict(sorted(pages.items(), key=lambda item: -len(item[0])))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and is_page(scope["path"]):
            for prefix, page in self._pages.items():
                if _has_page(prefix, scope["path"]):
                    root = scope.get("root_path", "") + prefix
                    await page({**scope, "root_path": root}, receive, send)
                    return
        await self._app(scope, receive, send)


def _has_page(prefix: str, path: str) -> bool:
    """Return whether the page at ``prefix`` (without the last slash) answers for ``path``."""
    if not prefix:
        return path == HOME
    return path == prefix or path.startswith(f"{prefix}/")
