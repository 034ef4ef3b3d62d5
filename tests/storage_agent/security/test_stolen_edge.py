"""An edge that was stolen: what its identity opens at the agents of other sites."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from mistbow.auth.authentication import caller_headers
from mistbow.auth.callers import Caller
from mistbow.auth.fog_keys import FogKeys
from mistbow.auth.identity import identity_file
from mistbow.auth.token_file import new_token_file, write_token_file
from mistbow.client import AgentClient, Point
from mistbow.client.credentials import ServiceCredentials
from mistbow.clock import system_clock, utc_now
from mistbow.errors import MistbowError
from storage_agent.main import create_app
from storage_agent.settings import AgentSettings
from tests.support.conditions import eventually
from tests.support.http_server import served
from tests.support.sites import AgentSite, site_of


class Fog:
    """Three sites with identities: ``a`` is the core, ``b`` and ``c`` are edges."""

    def __init__(self, places: list[AgentSite], keys: FogKeys, tokens: Path, person: str) -> None:
        self.a, self.b, self.c = places
        self.keys, self.tokens, self.person = keys, tokens, person

    def settings(self, site: AgentSite, *peers: AgentSite, **more: Any) -> AgentSettings:
        reach = ("*",) if site is self.a else ()
        end = utc_now() + timedelta(days=1)
        file = self.keys.issue(f"agent-{site.name}", "agent", site.name, end, reach)
        tokens = {"tokens_file": self.tokens} if site is self.a else {}
        given = {**site.settings(*peers), "token": None, "identity_file": file, **tokens, **more}
        return AgentSettings.model_validate(given)

    def stolen(self, url: str, name: str = "agent-b") -> httpx.Client:
        """Return a client with the identity of the edge ``b``, for the agent at an address."""
        file = identity_file(self.keys.folder / f"{name}.identity")
        return httpx.Client(base_url=url, auth=ServiceCredentials(url, file), timeout=20)


@pytest.fixture
def fog(places: list[AgentSite], tmp_path: Path) -> Iterator[Fog]:
    keys = FogKeys(tmp_path / "keys")
    keys.create()
    content, person = new_token_file().with_token("person", frozenset({"admin"}), "", None)
    write_token_file(tmp_path / "tokens.json", content)
    fog = Fog(places, keys, tmp_path / "tokens.json", person)
    with ExitStack() as stack:
        for site, peers in ((fog.a, ()), (fog.b, (fog.a,)), (fog.c, (fog.a,))):
            app = create_app(fog.settings(site, *peers))
            stack.enter_context(served(app, site.port))
        yield fog


def is_whole(client: AgentClient) -> bool:
    try:
        return all(site_of(client, name).reachable for name in ("b", "c"))
    except (MistbowError, AssertionError):
        return False


def test_stolen_edge_reads_and_writes_its_own_site_only(fog: Fog) -> None:
    person = AgentClient(fog.a.url, fog.person)
    eventually(lambda: is_whole(person), what="the core reaches both edges")
    for site in ("a", "b", "c"):
        person.at(site).put([Point("cpu", f"of-{site}", system_clock(), 7.0)])
    # A person at the core reads and administers the edges.
    assert {each.node for each in person.get(nodes=[], metric="cpu")} >= {"node-b", "node-c"}
    person.at("b").operations.request_copy("a")
    person.operations.request_copy("b", stream="raw")
    copies = person.at("b").operations.replication
    eventually(lambda: any(each.rows for each in copies().replicas), what="b has its copy of a")

    [copy] = person.operations.replication().copies
    body = {"metricID": ["cpu"], "entityID": [], "nodes": ["node-c"]}
    with fog.stolen(fog.a.url) as edge:
        for method, path, content in (
            ("POST", "/get", body),
            ("POST", "/get?site=c", body),
            ("POST", "/query?site=c", body),
            ("POST", "/put", {"monitoring": []}),
            ("POST", "/put?site=c", {"monitoring": []}),
            ("GET", "/streams/raw?site=c", None),
            ("GET", "/streams/raw/info?site=c", None),
            ("GET", f"/streams/{quote('replicas/a/raw')}?site=c", None),
            ("POST", "/streams/raw/claim", None),
            ("GET", "/config", None),
            ("PUT", "/config", {}),
            ("DELETE", "/monitoring", body),
            ("DELETE", "/fabric/sites/c", None),
            ("GET", f"/replication/feed?target=c&id={copy.id}&from=0", None),
            ("GET", "/replication/held?of=c&id=x", None),
            ("POST", "/replication/get", {"of": "a", "id": "x", "series": [], "body": body}),
            ("PUT", "/workers/w", {}),
        ):
            answer = edge.request(method, path, json=content)
            assert answer.status_code == 403, (method, path, answer.text)
            assert "agent-b" in answer.text
        forged = {"site": "a", "node": "n", "url": "http://192.0.2.1:1", "instance": "i"}
        answer = edge.post("/fabric/greet", json=forged)
        assert answer.status_code == 403
        assert "claims to be a" in answer.text
        # It cannot act for a person either.
        headers = caller_headers(Caller("person", frozenset(), signatures=None))
        assert edge.put("/config", json={}, headers=headers).status_code == 403
        # What the fabric needs, and its own site by way of the core.
        assert edge.get("/streams/metadata/info").status_code == 200
        assert edge.get("/streams/metadata/info?site=c").status_code == 200
        assert edge.get("/streams/raw/info").status_code == 200  # b copies this stream
        assert edge.get("/streams/raw/info?site=b").status_code == 200
    with fog.stolen(fog.c.url) as edge:
        assert edge.post("/get", json=body).status_code == 403
    person.close()


def test_revoked_identity_is_refused_without_a_restart(fog: Fog) -> None:
    person = AgentClient(fog.a.url, fog.person)
    eventually(lambda: is_whole(person), what="the core reaches both edges")
    stolen = (fog.keys.folder / "agent-b.identity").read_bytes()
    copy = fog.keys.folder / "kept-by-the-thief.identity"
    with fog.stolen(fog.a.url) as edge:
        assert edge.get("/streams/metadata/info").status_code == 200
        fog.keys.revoke("agent-b")
        copy.write_bytes(stolen)
        with pytest.raises(httpx.RequestError, match="no valid identity"):
            edge.get("/streams/metadata/info")
    with (
        fog.stolen(fog.a.url, copy.stem) as edge,
        pytest.raises(httpx.RequestError, match="revoked"),
    ):
        edge.get("/streams/metadata/info")
    eventually(lambda: not site_of(person, "b").reachable, what="b is out of the fabric")
    assert site_of(person, "c").reachable
    person.close()
