"""Addresses that requests name: who is contacted, and what is sent there."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import msgspec
from fastapi import FastAPI, Request, Response

from ignite_server.ports import free_ports
from mistbow.client import AgentClient, Point
from mistbow.clock import system_clock
from storage_agent.main import create_app
from storage_agent.settings import AgentSettings
from tests.storage_agent.membership.test_sites import worker
from tests.storage_agent.security.conftest import Guarded
from tests.support.agents import running_agent
from tests.support.conditions import eventually
from tests.support.http_server import served
from tests.support.recorder import Recorder
from tests.support.sites import TOKEN, AgentSite, site_of, wait_until_reached

CHALLENGE = b"POST /challenge HTTP/1.1"


def heartbeat(url: str, site: str = "evil", **more: object) -> dict[str, object]:
    """Return the body of a heartbeat that names an address."""
    return {"site": site, "node": "n", "url": url, "instance": "i", **more}


def announcement(url: str) -> dict[str, object]:
    """Return the body of an announcement that names an address."""
    capacity = {"cores": 1, "memory_mb": 1, "cores_free": 1, "memory_free_mb": 1}
    return {"name": "w", "url": url, **capacity}


def test_token_of_the_file_cannot_name_addresses(agent: Guarded) -> None:
    with Recorder() as listener, Recorder() as other:
        # The agent has contacted the second one, later than it would have contacted the first one.
        for name, body, expected in (
            ("operator", heartbeat(listener.url), 403),
            ("fog", heartbeat(other.url, "late"), 200),
        ):
            answer = agent.ask(name, "POST", "/fabric/greet", body)
            assert answer.status_code == expected, answer.text
        refused = agent.ask("operator", "PUT", "/workers/w", announcement(listener.url))
        assert refused.status_code == 403
        assert "services of the fog only" in refused.json()["error"]["message"]
        eventually(lambda: len(other.requests()) > 1, what="the other one was contacted twice")
        assert listener.connections == []
        # Also the fog's token does not make an agent send more than challenges.
        assert set(other.requests()) == {CHALLENGE}
        assert b"uthorization" not in other.received
        assert agent.tokens["fog"].encode() not in other.received
        assert agent.status("fog", "DELETE", "/fabric/sites/late") == 204


def test_agent_without_token_contacts_configured_addresses_only(settings: AgentSettings) -> None:
    with Recorder() as listener, Recorder() as peer:
        configured = settings.model_copy(update={"peers": peer.url})
        with running_agent(configured) as url:
            known = {**heartbeat(listener.url, "c"), "reached": True}
            for body in (heartbeat(listener.url), heartbeat(peer.url, "b", knows=[known])):
                # As a page in a browser on this machine sends it.
                headers = {"Content-Type": "text/plain"}
                httpx.post(f"{url}/fabric/greet", json=body, headers=headers)
            seen = len(peer.requests())
            eventually(lambda: len(peer.requests()) > seen + 1, what="the peer is contacted")
            assert set(peer.requests()) == {CHALLENGE}
            assert listener.connections == []
            assert [site["name"] for site in httpx.get(f"{url}/fabric").json()["sites"]] == ["n1"]
            away = httpx.put(f"{url}/workers/w", json=announcement("http://192.0.2.1:80"))
            assert away.status_code == 400
            assert "must listen on loopback" in away.json()["error"]["message"]


def test_sites_without_token_reach_their_configured_peers(places: list[AgentSite]) -> None:
    a, b, c = places
    plain = {"token": None}
    with ExitStack() as stack:
        for site, peers in ((b, [a]), (a, [b])):
            made = AgentSettings.model_validate({**site.settings(*peers), **plain})
            stack.enter_context(served(create_app(made), site.port))
        # Only the peers of c are configured, and c is not configured anywhere.
        made = AgentSettings.model_validate({**c.settings(a), **plain})
        stack.enter_context(served(create_app(made), c.port))

        def reached(site: AgentSite) -> list[str]:
            sites = httpx.get(f"{site.url}/fabric").json()["sites"]
            return [each["name"] for each in sites if each["reachable"]]

        eventually(lambda: reached(c) == ["a", "b", "c"])  # a vouches for b
        eventually(lambda: reached(a) == ["a", "b"])
        eventually(lambda: reached(b) == ["a", "b"])


def is_announced(at_b: AgentClient, at_a: AgentClient) -> bool:
    """Announce a worker at b, as it does each second; return whether a has it."""
    at_b.announce(worker())
    return site_of(at_a, "b").workers == (worker(),)


def test_no_token_crosses_between_sites(places: list[AgentSite]) -> None:
    a, b, _ = places
    with Recorder(a.port) as to_a, Recorder(b.port) as to_b:
        a_settings = {"agent_url": to_a.url, "peers": to_b.url}
        b_settings = {"agent_url": to_b.url, "peers": to_a.url}
        with b.agent(**b_settings) as at_b, a.agent(**a_settings) as at_a:
            wait_until_reached(at_a, "b")
            wait_until_reached(at_b, "a")
            there = at_a.at("b")
            there.put([Point("cpu", "x", system_clock(), 7.0)])
            assert [each.node for each in at_a.get(nodes=[], metric="cpu")] == ["node-a", "node-b"]
            assert there.sql("SELECT entity FROM historical").num_rows == 1
            eventually(lambda: is_announced(at_b, at_a), what="a has the worker of b")
            at_b.operations.request_copy("a")
            replicas = at_a.operations.replication
            eventually(
                lambda: any(each.rows for each in replicas().replicas), what="the stream is copied"
            )
        for recorder in (to_a, to_b):
            received = bytes(recorder.received)
            assert b"POST /fabric/greet HTTP/1.1" in recorder.requests()
            assert b"Authorization: Mistbow session=" in received
            assert b"bearer" not in received.lower()
            assert TOKEN.encode() not in received
        assert b"POST /put?site=b HTTP/1.1" in to_b.requests()


def test_relay_between_sites_is_not_a_peer(places: list[AgentSite]) -> None:
    a, b, _ = places
    # The relay is configured as a peer, and passes everything on to b, but is not b.
    with Recorder(b.port) as relay, b.agent(), a.agent(peers=relay.url) as at_a:
        eventually(lambda: len(relay.requests()) > 1, what="the relay is contacted twice")
        assert set(relay.requests()) == {CHALLENGE}
        assert [site.name for site in at_a.fabric().sites] == ["a"]


@contextmanager
def altering_relay(target: str, port: int) -> Iterator[list[str]]:
    """Pass requests on to an agent, and add a site to its answers to heartbeats.

    Yield the paths of the altered answers.
    """
    altered: list[str] = []
    app = FastAPI()

    @app.api_route("/{path:path}", methods=["GET", "POST", "PUT", "DELETE"])
    async def pass_on(path: str, request: Request) -> Response:
        async with httpx.AsyncClient(base_url=target) as client:
            answer = await client.request(
                request.method, request.url.path, content=await request.body(),
                params=request.query_params, headers=request.headers.raw,
            )  # fmt: skip
        content, headers = answer.content, dict(answer.headers)
        if path == "fabric/greet" and answer.is_success:
            known = answer.json()
            known["peers"] = [{"site": "false", "node": "n", "url": target, "reached": True}]
            content = msgspec.json.encode(known)
            headers["content-length"] = str(len(content))
            altered.append(path)
        return Response(content, answer.status_code, headers)

    with served(app, port):
        yield altered


def test_altered_answer_to_a_heartbeat_is_ignored(places: list[AgentSite]) -> None:
    a, b, _ = places
    [port] = free_ports(1)
    relay = f"http://127.0.0.1:{port}"
    with (
        b.agent(own_urls=relay),
        altering_relay(b.url, port) as altered,
        a.agent(peers=relay) as at_a,
    ):
        eventually(lambda: len(altered) > 2, what="answers are altered")
        wait_until_reached(at_a, "b")  # which has sent a heartbeat of its own
        assert [site.name for site in at_a.fabric().sites] == ["a", "b"]


def test_agent_is_reached_at_a_further_address_of_its_settings(places: list[AgentSite]) -> None:
    a, b, _ = places
    with (
        Recorder(b.port) as gateway,
        b.agent(own_urls=gateway.url),
        a.agent(peers=gateway.url) as at_a,
    ):
        wait_until_reached(at_a, "b")
