"""The HTTP clients of the proxy to other enablers are closed when nobody needs them any more."""

from pathlib import Path

import httpx
import pytest

from analytics_enabler import main
from analytics_enabler.domains import proxy as proxy_module
from analytics_enabler.domains.directory import DomainDirectory, KnownEnabler
from analytics_enabler.domains.proxy import DomainProxy
from analytics_enabler.fabric_view import FabricView
from analytics_enabler.settings import EnablerSettings
from mistbow.client.agent import AsyncAgentClient
from mistbow.domains import Selector
from mistbow.fabric import Enabler, Fabric, Site
from mistbow.trust_settings import TokenSettings

CLOSED = "http://127.0.0.1:1"
"""An address at which no service listens."""


def enabler_at(port: int) -> KnownEnabler:
    return KnownEnabler("far", Enabler(domain="north", url=f"http://127.0.0.1:{port}"), True)


def fabric_with(*enablers: KnownEnabler) -> Fabric:
    found = tuple(each.enabler for each in enablers)
    site = Site(name="far", node="far", url=CLOSED, enablers=found, reachable=True)
    return Fabric(site="own", sites=(site,))


async def test_clients_of_enablers_that_are_gone_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy_module, "_MAX_IDLE_CLIENTS", 2)
    view = FabricView(AsyncAgentClient(CLOSED), lambda: 0)
    proxy = DomainProxy(DomainDirectory("own", lambda: Selector(sites=()), view), TokenSettings())
    clients: list[httpx.AsyncClient] = []
    # The enabler starts again and again, at another address.
    for port in range(2, 8):
        present = enabler_at(port)
        view.whole = fabric_with(present)
        assert await proxy.has(present, "d") is None
        clients.append(proxy._client(present))
        assert not clients[-1].is_closed
    assert [client.is_closed for client in clients] == [True] * 3 + [False] * 3
    await proxy.close()
    assert all(client.is_closed for client in clients)


async def test_clients_of_the_proxy_are_closed_with_the_enabler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxies: list[DomainProxy] = []

    class RecordedProxy(DomainProxy):
        def __init__(self, directory: DomainDirectory, trust: TokenSettings) -> None:
            super().__init__(directory, trust)
            proxies.append(self)

    monkeypatch.setattr(main, "DomainProxy", RecordedProxy)
    app = main.create_app(EnablerSettings(home=tmp_path, agent_url=CLOSED))
    [proxy] = proxies
    async with app.router.lifespan_context(app):
        client = proxy._client(enabler_at(2))
        assert not client.is_closed
    assert client.is_closed
