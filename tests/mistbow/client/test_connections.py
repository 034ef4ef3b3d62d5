"""Connections to names: which addresses are contacted, and what TLS and the server see."""

import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import httpx
import pytest
from fastapi import FastAPI, Request

from mistbow.client.connections import async_transport, transport
from mistbow.name_resolver import NameResolver, UnresolvedNameError
from mistbow.tls import client_context
from tests.support.certificates import Authority
from tests.support.conditions import aeventually
from tests.support.http_server import served

LIMITS = httpx.Limits()


def resolver(addresses: Mapping[str, tuple[str, ...]]) -> NameResolver:
    def look_up(host: str) -> tuple[str, ...]:
        if host not in addresses:
            raise OSError(-2, "Name or service not known")
        return addresses[host]

    return NameResolver(look_up)


def sync_client(names: NameResolver, tls: ssl.SSLContext) -> httpx.Client:
    return httpx.Client(transport=transport(tls, LIMITS, names), trust_env=False)


async def fetch_async(names: NameResolver, tls: ssl.SSLContext, url: str) -> str:
    direct = async_transport(tls, LIMITS, names)
    async with httpx.AsyncClient(transport=direct, trust_env=False) as client:
        return (await client.get(url)).text


def fetch(names: NameResolver, tls: ssl.SSLContext, url: str) -> str:
    with sync_client(names, tls) as client:
        return client.get(url).text


@pytest.fixture(scope="module")
def app() -> FastAPI:
    app = FastAPI()

    @app.get("/host")
    async def host(request: Request) -> str:
        return request.headers["Host"]

    return app


@pytest.fixture(scope="module")
def url(app: FastAPI) -> Iterator[str]:
    """The address of the server, by the name ``edge.test``."""
    with served(app) as url:
        yield url.replace("127.0.0.1", "edge.test") + "/host"


async def test_name_is_resolved_by_the_given_resolver(url: str) -> None:
    names, tls = resolver({"edge.test": ("127.0.0.1",)}), client_context(None)
    expected = f'"{httpx.URL(url).netloc.decode()}"'
    assert fetch(names, tls, url) == expected
    assert await fetch_async(names, tls, url) == expected


async def test_next_address_is_used_if_one_refuses_or_is_silent(url: str) -> None:
    tls = client_context(None)
    # The first address of each pair refuses the connection, or never accepts it.
    with silent_server(httpx.URL(url).port or 0) as silent:
        for first in ("127.0.0.2", silent):
            names = resolver({"edge.test": (first, "127.0.0.1")})
            assert "edge.test" in await fetch_async(names, tls, url)
    names = resolver({"edge.test": ("127.0.0.2", "127.0.0.1")})
    assert "edge.test" in fetch(names, tls, url)


@contextmanager
def silent_server(port: int) -> Iterator[str]:
    """Yield the address of a socket whose queue of connections is full."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.3", port))
        server.listen(0)
        for _ in range(3):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(("127.0.0.3", port))
        yield "127.0.0.3"


async def test_failure_of_all_addresses_is_a_connect_error(url: str) -> None:
    names, tls = resolver({"edge.test": ("127.0.0.2", "127.0.0.4")}), client_context(None)
    with pytest.raises(httpx.ConnectError):
        fetch(names, tls, url)
    with pytest.raises(httpx.ConnectError):
        await fetch_async(names, tls, url)


async def test_unresolved_name_is_an_error_of_its_own(url: str) -> None:
    names, tls = resolver({}), client_context(None)
    with pytest.raises(UnresolvedNameError, match=r"the name edge\.test has not resolved since"):
        fetch(names, tls, url)
    with pytest.raises(UnresolvedNameError, match="the next look-up is at"):
        await fetch_async(names, tls, url)


async def test_certificate_must_be_for_the_name(app: FastAPI, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    shown = authority.serve("edge.test")
    names = resolver(dict.fromkeys(("edge.test", "other.test"), ("127.0.0.1",)))
    tls = client_context(authority.file)
    with served(app, ssl_certfile=shown.certificate, ssl_keyfile=shown.key) as url:
        port = httpx.URL(url).port
        https = f"https://edge.test:{port}/host"
        assert fetch(names, tls, https) == await fetch_async(names, tls, https)
        wrong = f"https://other.test:{port}/host"
        for refused in (wrong, f"https://127.0.0.1:{port}/host"):
            with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
                fetch(names, tls, refused)
            with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
                await fetch_async(names, tls, refused)


async def test_tls_begins_while_all_threads_of_anyio_are_in_use(
    app: FastAPI, tmp_path: Path
) -> None:
    """A storage agent has two of these threads, and long answers use them for seconds."""
    authority = Authority(tmp_path)
    shown = authority.serve("edge.test")
    names, tls = resolver({"edge.test": ("127.0.0.1",)}), client_context(authority.file)
    threads, ends = anyio.to_thread.current_default_thread_limiter(), threading.Event()

    async def all_in_use() -> bool:
        return threads.available_tokens == 0

    with served(app, ssl_certfile=shown.certificate, ssl_keyfile=shown.key) as url:
        async with anyio.create_task_group() as tasks:
            for _ in range(int(threads.total_tokens)):
                tasks.start_soon(anyio.to_thread.run_sync, ends.wait, 30)
            try:
                await aeventually(all_in_use)
                https = f"https://edge.test:{httpx.URL(url).port}/host"
                assert "edge.test" in await fetch_async(names, tls, https)
            finally:
                ends.set()
