"""An HTTP server for an application, in a thread of the test, and a service without parts."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from mistbow.http.tls_protocol import serve_tls
from mistbow.service import create_service
from mistbow.settings import ServiceSettings
from mistbow.tls import TlsFiles
from tests.support.conditions import eventually


async def _ready() -> list[str]:
    return []


def plain_service(settings: ServiceSettings, title: str = "test") -> FastAPI:
    """Return a service that is ready, and has only the common parts of services."""
    return create_service(title, settings, readiness=_ready)


@contextmanager
def served(
    app: ASGIApp, port: int = 0, tls: TlsFiles | None = None, **options: Any
) -> Iterator[str]:
    """Serve an application on loopback; yield its URL (always http, unless ``tls``).

    ``port``: 0 means a free port; ``tls``: the files of a service with TLS; ``options``: further
    options of uvicorn.
    """
    config = uvicorn.Config(
        app, host="127.0.0.1", port=port, log_config=None, timeout_graceful_shutdown=1, **options
    )
    if tls is not None:
        serve_tls(config, tls)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        eventually(lambda: server.started, what="the service listens")
        scheme = "http" if tls is None else "https"
        yield f"{scheme}://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
