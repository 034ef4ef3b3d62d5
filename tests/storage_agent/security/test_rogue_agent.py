"""The thief of an edge runs a program of their own there, with the identity of the agent."""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from fastapi import FastAPI, Request, Response

from mistbow.auth.answer_key import answer_headers
from mistbow.auth.fog_keys import FogKeys
from mistbow.auth.identity import read_identity_file
from mistbow.auth.rules import requires
from mistbow.auth.token_file import new_token_file, write_token_file
from mistbow.client import AgentClient, Point
from mistbow.client.operation_model import Copy
from mistbow.clock import system_clock, utc_now
from mistbow.errors import MistbowError
from mistbow.fabric import Worker
from mistbow.settings import ServiceSettings
from mistbow.streams.events import event_rows
from mistbow.streams.models import StreamInfo
from mistbow.streams.wire import MEDIA_TYPE, Chunk, ChunkEncoder, Position
from storage_agent.main import create_app
from storage_agent.membership.facts import encode_fact
from storage_agent.membership.heartbeat import Heartbeat
from storage_agent.settings import AgentSettings
from tests.support.conditions import eventually
from tests.support.http_server import plain_service, served
from tests.support.sites import AgentSite, site_of

END = utc_now() + timedelta(days=1)


def rogue_app(identity: Path, url: str, events: dict[str, str]) -> FastAPI:
    """Return the thief's program: it proves the identity of ``b``, and publishes any facts."""

    settings = {"home": identity.parent, "own_urls": url, "identity_file": identity}
    app = plain_service(ServiceSettings.model_validate(settings))
    own = Heartbeat(site="b", node="node-b", url=url, instance=secrets.token_hex(8))
    rows = event_rows(system_clock(), events)

    @app.post("/fabric/greet")
    @requires("join")
    async def greet() -> Response:
        body = msgspec.json.encode(own)
        return Response(body, headers=answer_headers(body))

    @app.get("/streams/metadata/info")
    @requires("replicate")
    async def info() -> Response:
        found = StreamInfo(
            name="metadata", fields=[], first=0, head=rows.num_rows, frontier=0, epoch=1,
            attributes={"store": "s"}, late=0, lateness_ms=None, bytes=0, segments=1,
            rows=rows.num_rows, stored_bytes=0, retention_ms=None,
        )  # fmt: skip
        return Response(msgspec.json.encode(found))

    @app.get("/streams/{name:path}")
    @requires("replicate")
    async def stream(request: Request) -> Response:
        if request.path_params["name"] != "metadata":
            return Response(b"no Arrow", media_type=MEDIA_TYPE)
        start = int(request.query_params.get("from", 0))
        encoder = ChunkEncoder(rows.schema)
        data = encoder.encode(Chunk(rows.slice(start), Position(rows.num_rows, 0)))
        return Response(data + encoder.close(), media_type=MEDIA_TYPE)

    return app


def facts_of_a_thief(url: str, credential: str) -> dict[str, str]:
    worker = Worker(
        name="w", url="http://127.0.0.1:9", cores=1, memory_mb=9, cores_free=1, memory_free_mb=9
    )
    # The schema of this stream is invalid, which must not stop the copies of others.
    copy = Copy(id="1", target="a", stream="odd", why="", since=0)
    return {
        "site": encode_fact({"node": "node-b", "url": url, "labels": {"rogue": "true"}}),
        "credential/site": encode_fact(credential),
        "forgotten": encode_fact({"c": system_clock(), "a": system_clock()}),
        "worker/w": encode_fact(worker),
        "instability/w": '{"instability": -1, "at": 0}',
        "health": '{"instability": -1, "at": 0, "room": 9}',
        "link/a": '{"latency_ms": -1, "bandwidth_mbps": 0}',
        "worker/other": encode_fact(worker),
        "copies": encode_fact((copy,)),
        'series/["m","e"]': '{"metricID": "m", "entityID": "e", "pod": "none"}',
        "replicas": '[{"of": 7}]',
        "restrictions": "7",
    }


@pytest.fixture
def core(places: list[AgentSite], tmp_path: Path) -> Iterator[tuple[AgentClient, AgentClient]]:
    """Return clients of the core ``a`` and of the edge ``c``; ``b`` is rogue."""
    a, b, c = places
    keys = FogKeys(tmp_path / "keys")
    keys.create()
    content, person = new_token_file().with_token("person", frozenset({"admin"}), "", None)
    write_token_file(tmp_path / "tokens.json", content)
    # As the controller of a factory, the edge has a list of sites.
    stolen = keys.issue("agent-b", "agent", "b", END, ("a", "c"))
    events = facts_of_a_thief(b.url, read_identity_file(stolen).credential)
    with ExitStack() as stack:
        stack.enter_context(served(rogue_app(stolen, b.url, events), b.port))
        for site, peers, reach in ((a, (b, c), ("*",)), (c, (a, b), ())):
            given = {
                **site.settings(*peers),
                "token": None,
                "identity_file": keys.issue(f"agent-{site.name}", "agent", site.name, END, reach),
                "tokens_file": tmp_path / "tokens.json",
                "replication_every_ms": 200,
            }
            settings = AgentSettings.model_validate(given)
            stack.enter_context(served(create_app(settings), site.port))
        clients = AgentClient(a.url, person), AgentClient(c.url, person)
        yield clients
        for client in clients:
            client.close()


def has_facts_of_all(client: AgentClient) -> bool:
    try:
        sites = {name: site_of(client, name) for name in ("a", "b", "c")}
    except (MistbowError, AssertionError):
        return False
    return sites["b"].labels == {"rogue": "true"} and bool(sites["a"].labels and sites["c"].labels)


def test_facts_of_a_rogue_agent_stop_and_remove_nobody(
    core: tuple[AgentClient, AgentClient],
) -> None:
    for client in core:
        eventually(lambda: has_facts_of_all(client), what="the agent has the facts of b")  # noqa: B023
    at_a, at_c = core
    at_c.put([Point("cpu", "of-c", system_clock(), 7.0)])
    at_c.operations.request_copy("a", stream="raw")
    replication = at_a.operations.replication
    eventually(
        lambda: any(each.source == "c" and each.rows for each in replication().replicas),
        what="the core has its copy of c",
    )
    for client in core:
        fabric = client.fabric()
        assert {site.name for site in fabric.sites} == {"a", "b", "c"}
        assert fabric.forgotten == ()
        # Its worker may use its own site only; the impossible statements are ignored.
        [worker] = site_of(client, "b").workers
        assert (worker.name, worker.own_site_only, worker.reliability) == ("w", True, 1.0)
        assert all(link.latency_ms >= 0 for link in fabric.links)
        client.operations.replication()
        assert {each["entityID"] for each in client.list_series(nodes=[])} == {"of-c"}
