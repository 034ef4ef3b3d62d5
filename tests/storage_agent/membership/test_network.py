"""Requests to peers: what is sent, and when links break meanwhile."""

import asyncio
from datetime import timedelta

import httpx
import pytest
from fastapi import FastAPI

from ignite_server.ports import free_ports
from mistbow.auth.credential import Credential
from mistbow.auth.rules import requires
from mistbow.client.credentials import ServiceCredentials
from mistbow.clock import utc_now
from mistbow.errors import UnavailableError
from mistbow.name_resolver import NameResolver
from mistbow.settings import ServiceSettings
from storage_agent.membership import answer_time
from storage_agent.membership.heartbeat import Heartbeat, PeerReport
from storage_agent.membership.network import PeerNetwork, post_request
from storage_agent.membership.peers import Peers
from storage_agent.membership.proxy import Proxy, proxied_router
from tests.support.http_server import plain_service, served


def heartbeat(site: str, url: str, *reached: PeerReport) -> Heartbeat:
    return Heartbeat(site=site, node="n", url=url, instance=site, peers=reached)


async def test_request_is_unavailable_if_the_second_hop_is_lost_during_the_first() -> None:
    to_b, to_c = (f"http://127.0.0.1:{port}" for port in free_ports(2))
    peers = Peers(heartbeat("a", "http://127.0.0.1:1"), [], lambda: 0)
    peers.record_answer(to_b, heartbeat("b", to_b), None)
    report = PeerReport(site="b", node="n", url=to_b, reached=True)
    peers.record_answer(to_c, heartbeat("c", to_c, report), None)
    assert [hop.site for hop in peers.next_hops("b")] == ["b", "c"]
    network = PeerNetwork("a", peers, None)
    # At the first wait: while b is contacted, the link to c is found broken.
    asyncio.get_running_loop().call_soon(peers.record_failure, to_c)
    with pytest.raises(UnavailableError, match="no other site reaches it"):
        await network.send(post_request("b", "/get", b"{}"))
    await network.close()


async def test_unresolved_name_of_a_peer_is_reported() -> None:
    def look_up(host: str) -> tuple[str, ...]:
        raise OSError(-2, "Name or service not known")

    peers = Peers(heartbeat("a", "http://127.0.0.1:1"), [], lambda: 0)
    peers.record_answer("http://b.test:8300", heartbeat("b", "http://b.test:8300"), None)
    network = PeerNetwork("a", peers, None, names=NameResolver(look_up))
    reason = (
        r"and no other site reaches it: the name b\.test has not resolved since .* \(Name or "
        r"service not known\); the next look-up is at "
    )
    with pytest.raises(UnavailableError, match=reason):
        await network.send(post_request("b", "/get", b"{}"))
    await network.close()


METADATA = "/streams/metadata?site=b"


@pytest.mark.parametrize(
    ("reach", "target", "reach_of_b", "is_sent"),
    [
        ((), "/get", None, False),
        (("b",), "/get", None, True),
        # The metadata of a core could remove sites: it has the power of its agent.
        (("b",), METADATA, None, False),
        (("b",), METADATA, ("*",), False),
        (("b",), METADATA, ("d",), False),
        (("b", "d"), METADATA, ("d",), True),
        (("b",), METADATA, (), True),
        (("*",), METADATA, ("*",), True),
        ((), METADATA, (), False),
    ],
)
async def test_request_passes_only_an_agent_that_reaches_enough(
    reach: tuple[str, ...], target: str, reach_of_b: tuple[str, ...] | None, is_sent: bool
) -> None:
    to_b, to_c = "http://127.0.0.1:2", "http://127.0.0.1:3"
    peers = Peers(heartbeat("a", "http://127.0.0.1:1"), [], lambda: 0)
    peers.add("b", "n", to_b)
    report = PeerReport(site="b", node="n", url=to_b, reached=True)
    peers.record_answer(to_c, heartbeat("c", to_c, report), None)
    assert [hop.site for hop in peers.next_hops("b")] == ["c"]
    network = PeerNetwork("a", peers, "a token")
    sent = []

    async def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.url.port)
        return httpx.Response(200)

    client = network.client(to_c)
    client._transport, credentials = httpx.MockTransport(answer), client.auth
    assert isinstance(credentials, ServiceCredentials)
    client._auth = None
    end = utc_now() + timedelta(days=1)
    credentials.peer = Credential("c", "agent", "c", "0" * 32, "0" * 64, end, reach)
    if reach_of_b is not None:
        of_b = network.client(to_b).auth
        assert isinstance(of_b, ServiceCredentials)
        of_b.peer = Credential("b", "agent", "b", "1" * 32, "1" * 64, end, reach_of_b)
        network.check_site(to_b, "b")
        await network.drop(to_b)
    if is_sent:
        await network.send(post_request("b", target, b"{}"))
    else:
        with pytest.raises(UnavailableError, match="no other site reaches it"):
            await network.send(post_request("b", target, b"{}"))
    assert len(sent) == is_sent
    await network.close()


def peer_app() -> FastAPI:
    """Return a service without a token that answers GET, as the agent of another site."""

    app = plain_service(ServiceSettings())

    @app.get("/read")
    @requires("read")
    async def read() -> str:
        return "read"

    @app.post("/streams/{name:path}/repair")
    @requires("admin")
    async def repair(name: str) -> str:
        await asyncio.sleep(1)
        return name

    return app


def proxy_app(peer_url: str) -> FastAPI:
    """Return an application that forwards requests for the site b to ``peer_url``."""
    peers = Peers(heartbeat("a", "http://127.0.0.1:1"), [], lambda: 0)
    peers.record_answer(peer_url, heartbeat("b", peer_url), None)
    routes = proxied_router(Proxy(PeerNetwork("a", peers, None), peers), "test")

    @routes.get("/read")
    @requires("read")
    async def read() -> str:
        return "read here"

    @routes.post("/streams/{name:path}/repair")
    @requires("admin")
    async def repair(name: str) -> str:
        return f"{name} here"

    app = FastAPI()
    app.include_router(routes)
    return app


def test_get_with_a_body_is_forwarded_without_its_body() -> None:
    with served(peer_app()) as peer_url, served(proxy_app(peer_url)) as url:
        for body in (None, b"{}"):
            answer = httpx.request("GET", f"{url}/read?site=b", content=body)
            assert (answer.status_code, answer.text) == (200, '"read"'), body


def test_repair_at_another_site_may_take_longer_than_other_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Any other answer has 0.3 s.
    monkeypatch.setattr(answer_time, "CONNECT_S", 0.1)
    monkeypatch.setattr(answer_time, "ANSWER_S", 0.1)
    with served(peer_app()) as peer_url, served(proxy_app(peer_url)) as url:
        answer = httpx.post(f"{url}/streams/apps/raw/repair?site=b&from=c", timeout=30)
        assert (answer.status_code, answer.text) == (200, '"apps/raw"')
