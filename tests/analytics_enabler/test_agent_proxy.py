"""The proxy of queries to the storage agent: its answers may take a bounded time."""

import asyncio

import httpx
import pytest

from analytics_enabler import agent_proxy
from analytics_enabler.agent_proxy import AgentProxy
from mistbow.errors import UnavailableError
from mistbow.trust_settings import TokenSettings
from tests.support.trickle import Trickle


def proxy_to(body: httpx.AsyncByteStream) -> AgentProxy:
    """Return a proxy to an agent that answers with a body."""
    proxy = AgentProxy("http://agent:1", TokenSettings())

    async def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=body)

    proxy._client._transport, proxy._client._auth = httpx.MockTransport(answer), None
    return proxy


async def test_answer_of_the_agent_that_trickles_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_proxy, "_TOTAL_S", 0.2)
    monkeypatch.setattr(agent_proxy, "_ANSWER_S", 0.2)
    proxy = proxy_to(Trickle())
    async with asyncio.timeout(3):
        with pytest.raises(UnavailableError, match="http://agent:1 answers too slowly"):
            await proxy.get("/api/v1/labels", site=None, params={})
    await proxy.close()


async def test_answer_of_the_agent_is_returned() -> None:
    proxy = proxy_to(Trickle(b"[1]", 0.0, 1))
    answer = await proxy.get("/api/v1/labels", site="b", params={})
    assert (answer.status_code, answer.body) == (200, b"[1]")
    await proxy.close()
