"""Enablers of other domains that answer byte by byte: lists and requests go on without them."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi import Request
from fastapi.responses import StreamingResponse

from analytics_enabler.domains import proxy as proxy_module
from analytics_enabler.domains.directory import DomainDirectory, KnownEnabler
from analytics_enabler.domains.proxy import DomainProxy
from analytics_enabler.fabric_view import FabricView
from mistbow.client.agent import AsyncAgentClient
from mistbow.domains import Selector
from mistbow.errors import UnavailableError
from mistbow.fabric import Enabler, Fabric, Site
from mistbow.trust_settings import TokenSettings
from tests.support.trickle import Trickle

Answer = Callable[[httpx.Request], httpx.Response]


def trickled(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, stream=Trickle())


def honest(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, json={"deployments": []})


def lacking(_: httpx.Request) -> httpx.Response:
    return httpx.Response(404)


@pytest.fixture(autouse=True)
def time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "_LIST_S", 0.3)
    monkeypatch.setattr(proxy_module, "_ORDER_S", 0.3)


def proxy_to(**answers: Answer) -> DomainProxy:
    """Return the proxy of the enabler of the domain ``own``; ``answers``: by other domain."""
    sites = tuple(
        Site(
            name=name,
            node=name,
            url=f"http://{name}:1",
            enablers=(Enabler(domain=name, url=f"http://{name}:8000"),),
            reachable=True,
        )
        for name in answers
    )
    view = FabricView(AsyncAgentClient("http://127.0.0.1:1"), lambda: 0)
    view.whole = Fabric(site="own", sites=sites)
    proxy = DomainProxy(DomainDirectory("own", lambda: Selector(sites=()), view), TokenSettings())
    for name, answer in answers.items():
        with proxy.clients.using(enabler_of(proxy, name)) as client:
            client._transport, client._auth = httpx.MockTransport(answer), None
    return proxy


def enabler_of(proxy: DomainProxy, domain: str) -> KnownEnabler:
    enabler = proxy.directory.active(domain)
    assert enabler is not None
    return enabler


def request_for(path: str) -> Request:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [],
        "server": ("own", 1),
        "scheme": "http",
        "path_params": {"deployment_id": "d"},
    }
    return Request(scope, receive)


async def test_list_reports_a_domain_that_trickles_as_missing() -> None:
    proxy = proxy_to(a=trickled, b=honest)
    async with asyncio.timeout(3):
        assert await proxy.deployments() == ([], ["a"])


async def test_find_passes_a_domain_that_trickles() -> None:
    proxy = proxy_to(a=trickled, b=honest)
    async with asyncio.timeout(3):
        answer = await proxy.find(request_for("/api/insights/d"))
    assert isinstance(answer, StreamingResponse)
    assert answer.status_code == 200


async def test_find_is_unavailable_if_only_a_domain_that_trickles_may_have_the_deployment() -> None:
    proxy = proxy_to(a=trickled, b=lacking)
    async with asyncio.timeout(3):
        with pytest.raises(UnavailableError, match="do not answer: a"):
            await proxy.find(request_for("/api/insights/d"))


async def test_deletion_at_a_domain_that_trickles_is_unavailable() -> None:
    proxy = proxy_to(a=trickled)
    async with asyncio.timeout(3):
        with pytest.raises(UnavailableError, match="answers too slowly"):
            await proxy.delete(enabler_of(proxy, "a"), "d")


async def test_proxied_answer_that_trickles_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "_TIMEOUT", httpx.Timeout(0.2))
    proxy = proxy_to(a=trickled)
    async with asyncio.timeout(3):
        answer = await proxy.send(request_for("/api/insights/d"), enabler_of(proxy, "a"))
        assert isinstance(answer, StreamingResponse)
        with pytest.raises(UnavailableError, match=r"the domain a at .* answers too slowly"):
            async for _ in answer.body_iterator:
                pass


async def test_proxied_live_events_last_as_long_as_pings_arrive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("_TIMEOUT", "_FOLLOW_TIMEOUT"):
        monkeypatch.setattr(proxy_module, name, httpx.Timeout(0.2))
    proxy = proxy_to(a=lambda _: httpx.Response(200, stream=Trickle(b": ping\n\n", count=12)))
    for path in ("/api/events", "/api/insights/d/results/follow"):
        answer = await proxy.send(request_for(path), enabler_of(proxy, "a"))
        assert isinstance(answer, StreamingResponse)
        assert len([part async for part in answer.body_iterator]) == 12
