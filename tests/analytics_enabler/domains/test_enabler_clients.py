"""The HTTP clients of the proxy to other enablers are closed when nobody needs them any more."""

from collections.abc import AsyncIterator, Callable, MutableMapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import ClientDisconnect

from analytics_enabler import main
from analytics_enabler.domains.directory import DomainDirectory, KnownEnabler
from analytics_enabler.domains.enabler_clients import EnablerClients
from analytics_enabler.domains.proxy import DomainProxy
from analytics_enabler.fabric_view import FabricView
from analytics_enabler.settings import EnablerSettings
from mistbow.client.agent import AsyncAgentClient
from mistbow.domains import Selector
from mistbow.fabric import Enabler, Fabric, Site
from mistbow.trust_settings import TokenSettings
from tests.analytics_enabler.domains.test_slow_domains import request_for
from tests.support.conditions import aeventually
from tests.support.trickle import Trickle

CLOSED = "http://127.0.0.1:1"
"""An address at which no service listens."""

SCOPE: dict[str, Any] = {"type": "http", "asgi": {"spec_version": "2.4"}}


def enabler_at(port: int) -> KnownEnabler:
    return KnownEnabler("far", Enabler(domain="north", url=f"http://127.0.0.1:{port}"), True)


class Fog:
    """The clients of a proxy, in a fog in which one other enabler moves from port to port."""

    def __init__(self) -> None:
        self.view = FabricView(AsyncAgentClient(CLOSED), lambda: 0)
        directory = DomainDirectory("own", lambda: Selector(sites=()), self.view)
        self.proxy = DomainProxy(directory, TokenSettings())

    @property
    def clients(self) -> EnablerClients:
        return self.proxy.clients

    def client_at(self, port: int) -> httpx.AsyncClient:
        """Let the enabler move to a port; return the client that is used for it."""
        moved = enabler_at(port)
        site = Site(name="far", node="far", url=CLOSED, enablers=(moved.enabler,), reachable=True)
        self.view.whole = Fabric(site="own", sites=(site,))
        with self.clients.using(moved) as client:
            assert not client.is_closed
        return client


class ClosedStream(httpx.AsyncByteStream):
    """A short body that records that it was closed; ``on_close``: called at its close."""

    def __init__(self, on_close: Callable[[], object] = lambda: None) -> None:
        self.is_closed = False
        self._on_close = on_close

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b": ping\n\n"

    async def aclose(self) -> None:
        """Record the close."""
        self._on_close()
        self.is_closed = True


def answer_with(client: httpx.AsyncClient, answer: httpx.Response) -> None:
    """Let a client answer each request itself, without a signature."""
    client._transport, client._auth = httpx.MockTransport(lambda _: answer), None


async def receive_nothing() -> MutableMapping[str, Any]:
    raise AssertionError("the answer reads no request")


async def are_closed(*clients: httpx.AsyncClient) -> None:
    async def closed() -> bool:
        return all(client.is_closed for client in clients)

    await aeventually(closed, what="the clients are closed")


async def test_clients_of_enablers_that_are_gone_are_closed() -> None:
    fog = Fog()
    *former, last = [fog.client_at(port) for port in range(2, 8)]
    await are_closed(*former)
    assert fog.client_at(7) is last
    await fog.proxy.close()
    assert last.is_closed


async def test_client_in_use_is_closed_after_its_use() -> None:
    fog = Fog()
    used = fog.client_at(2)
    with fog.clients.using(enabler_at(2)) as same:
        assert same is used
        idle, _ = fog.client_at(3), fog.client_at(4)
        await are_closed(idle)
        assert not used.is_closed
    fog.client_at(5)
    await are_closed(used)
    await fog.proxy.close()


async def test_proxied_events_continue_after_their_enabler_has_left_the_fabric() -> None:
    fog = Fog()
    client = fog.client_at(2)
    feed = Trickle(b": ping\n\n", count=3)
    answer_with(client, httpx.Response(200, stream=feed))
    answer = await fog.proxy.send(request_for("/api/events"), enabler_at(2))
    idle, _ = fog.client_at(3), fog.client_at(4)
    await are_closed(idle)
    assert not client.is_closed
    sent: list[bytes] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message.get("body", b""))

    await answer(SCOPE, receive_nothing, send)
    assert b"".join(sent) == 3 * b": ping\n\n"
    fog.client_at(5)
    await are_closed(client)
    await fog.proxy.close()


async def test_client_is_closed_although_the_headers_of_an_answer_cannot_be_passed_on() -> None:
    fog = Fog()
    client = fog.client_at(2)
    feed = ClosedStream()
    headers = {b"content-disposition": "\u20ac".encode()}
    answer_with(client, httpx.Response(200, headers=headers, stream=feed))
    with pytest.raises(UnicodeEncodeError):
        await fog.proxy.send(request_for("/api/events"), enabler_at(2))
    assert feed.is_closed
    fog.client_at(3)
    await are_closed(client)
    await fog.proxy.close()


async def test_answer_is_closed_before_its_client_is_free() -> None:
    fog = Fog()
    client = fog.client_at(2)
    # Before the answer is closed, its enabler moves, and a further client is opened.
    feed = ClosedStream(lambda: fog.client_at(3))
    answer_with(client, httpx.Response(200, stream=feed))
    passed_on = await fog.proxy.send(request_for("/api/events"), enabler_at(2))

    async def disconnect(_: MutableMapping[str, Any]) -> None:
        raise OSError

    with pytest.raises(ClientDisconnect):
        await passed_on(SCOPE, receive_nothing, disconnect)
    assert feed.is_closed
    with fog.clients.using(enabler_at(2)) as same:
        assert same is client
    fog.client_at(4)
    await are_closed(client)
    await fog.proxy.close()


async def test_clients_of_the_proxy_are_closed_with_the_enabler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxies: list[DomainProxy] = []

    class RecordedProxy(DomainProxy):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            proxies.append(self)

    monkeypatch.setattr(main, "DomainProxy", RecordedProxy)
    app = main.create_app(EnablerSettings(home=tmp_path, agent_url=CLOSED))
    [proxy] = proxies
    async with app.router.lifespan_context(app):
        with proxy.clients.using(enabler_at(2)) as client:
            assert not client.is_closed
    assert client.is_closed
