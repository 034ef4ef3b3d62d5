"""An edge that was stolen: the rights of its identity at the agents of other sites."""

import itertools
from collections.abc import Callable, Iterator
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
from mistbow.fabric import Worker
from storage_agent.main import create_app
from storage_agent.settings import AgentSettings
from tests.storage_agent.membership.test_sites import current_facts
from tests.support.conditions import eventually
from tests.support.http_server import served
from tests.support.sites import AgentSite, site_of


class Fog:
    """Three sites with identities: ``a`` is the core, ``b`` and ``c`` are edges."""

    def __init__(self, places: list[AgentSite], keys: FogKeys, tokens: Path, person: str) -> None:
        self.a, self.b, self.c = places
        self.keys, self.tokens, self.person = keys, tokens, person
        self.end_c: Callable[[], None] = lambda: None

    def settings(self, site: AgentSite, *peers: AgentSite, **more: Any) -> AgentSettings:
        reach = ("*",) if site is self.a else ()
        end = utc_now() + timedelta(days=1)
        file = self.keys.issue(f"agent-{site.name}", "agent", site.name, end, reach)
        tokens = {} if site is self.c else {"tokens_file": self.tokens}
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
            last = stack.enter_context(ExitStack())
            last.enter_context(served(app, site.port))
        fog.end_c = last.close
        yield fog


def is_whole(client: AgentClient) -> bool:
    """Return whether the core reaches both edges, and all three agents are ready."""
    try:
        statuses = [client.at(name).operations.status() for name in ("a", "b", "c")]
        is_reached = all(site_of(client, name).reachable for name in ("b", "c"))
        return is_reached and not any(each.waiting_for for each in statuses)
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


def announce(url: str, identity: Path, worker: dict[str, Any], credential: Path) -> httpx.Response:
    """Announce a worker with an identity; ``credential``: the credential that it shows."""
    text = identity_file(credential).current().text
    auth = ServiceCredentials(url, identity_file(identity))
    with httpx.Client(base_url=url, auth=auth, timeout=20) as client:
        body = {**worker, "credential": text}
        return client.put(f"/workers/{worker['name']}", json=body)


def test_stolen_edge_takes_no_name_and_removes_no_site(fog: Fog) -> None:
    person = AgentClient(fog.a.url, fog.person)
    eventually(lambda: is_whole(person), what="the core reaches both edges")
    end = utc_now() + timedelta(days=1)
    core = fog.keys.issue("worker-1", "worker", "a", end, ["*"])
    stolen = fog.keys.issue("worker-2", "worker", "b", end)
    capacity = {"cores": 4, "memory_mb": 9, "cores_free": 4, "memory_free_mb": 9}
    worker = {"name": "worker-1", "url": "http://127.0.0.1:9", "instance": "i", **capacity}

    def worker_of(site: str) -> Worker:
        found = site_of(person, site).workers
        assert len(found) == 1, found
        return found[0]

    # The edge is first with the name, and shows the credential of the core's worker.
    forged = {**worker, "instance": "j", "own_site_only": False, "has_proven_name": True}
    eventually(
        lambda: announce(fog.b.url, stolen, forged, core).status_code == 204, what="b is ready"
    )
    eventually(lambda: worker_of("b").instance == "j", what="the core has the forged fact")
    assert (worker_of("b").has_proven_name, worker_of("b").own_site_only) == (False, True)
    assert announce(fog.a.url, core, worker, core).status_code == 204
    eventually(lambda: worker_of("a").has_proven_name, what="the name is its own")
    assert worker_of("a").own_site_only is False
    assert worker_of("a").identity_expires is not None
    # It announces an enabler of the core's domain, with the identity of a worker.
    enabler = {"domain": "all", "url": "http://127.0.0.1:9", "generation": 10**12}
    auth = ServiceCredentials(fog.b.url, identity_file(stolen))
    with httpx.Client(base_url=fog.b.url, auth=auth, timeout=20) as client:
        assert client.put("/enablers/all", json=enabler).status_code == 204
    facts = "replicas/b/metadata"
    eventually(lambda: "enabler/all" in current_facts(person, facts), what="the fact has arrived")
    assert site_of(person, "b").enablers == ()
    # The edge also states that the site c is gone, even with a list of sites like a controller's.
    fog.keys.issue("agent-b", "agent", "b", end, ("a", "c"))
    listed = identity_file(fog.keys.folder / "agent-b.identity").current().text
    eventually(
        lambda: current_facts(person, facts).get("credential/site") == listed,
        what="the fact with the new credential has arrived",
    )
    fog.end_c()
    at_b = AgentClient(fog.b.url, fog.person)
    for client in (person, at_b):
        eventually(lambda: not site_of(client, "c").reachable, what="c is away")  # noqa: B023
    at_b.operations.forget_site("c")
    eventually(lambda: "forgotten" in current_facts(person, facts), what="the fact has arrived")
    assert "c" in {each.name for each in person.fabric().sites}
    at_b.close()
    person.close()


def test_list_of_sites_is_no_right_to_deploy_or_administer_there(fog: Fog) -> None:
    person = AgentClient(fog.a.url, fog.person)
    eventually(lambda: is_whole(person), what="the core reaches both edges")
    end = utc_now() + timedelta(days=1)
    for kind in ("agent", "worker"):
        fog.keys.issue(f"{kind}-controller", kind, "b", end, ("a", "c"))
    with person_client(fog) as client:
        # People may, also by way of the core.
        assert client.post("/streams/deployments/claim").status_code == 404
        assert client.post("/streams/deployments/claim?site=c").status_code == 404
    writes = (("PUT", ""), ("POST", "/claim"), ("PATCH", ""), ("POST", ""))
    for kind, site in itertools.product(("agent", "worker"), ("", "c")):
        with fog.stolen(fog.a.url, f"{kind}-controller") as thief:
            query = {"site": site} if site else {}
            for stream in ("deployments", "deployments/north", "placements", "fog-history",
                           "decisions"):  # fmt: skip
                path = f"/streams/{quote(stream)}"
                for method, suffix in writes:
                    answer = thief.request(method, path + suffix, params=query, json={"epoch": 1})
                    assert answer.status_code == 403, (method, path, site, answer.text)
                    assert "only enablers write" in answer.text
            # What its worker needs: the streams of insights.
            answer = thief.post(f"/streams/{quote('results/x')}/claim", params=query)
            assert answer.status_code == 404
            assert thief.put("/config", params=query, json={}).status_code == 403
            assert thief.delete("/fabric/sites/c", params=query).status_code == 403
    person.close()


def person_client(fog: Fog) -> httpx.Client:
    return httpx.Client(
        base_url=fog.a.url, headers={"Authorization": f"Bearer {fog.person}"}, timeout=20
    )


def test_site_that_the_core_removes_is_removed_everywhere(fog: Fog) -> None:
    person, at_b = AgentClient(fog.a.url, fog.person), AgentClient(fog.b.url, fog.person)
    eventually(lambda: is_whole(person), what="the core reaches both edges")
    fog.end_c()
    for client in (person, at_b):
        eventually(lambda: not site_of(client, "c").reachable, what="c is away")  # noqa: B023
    person.operations.forget_site("c")
    eventually(
        lambda: {each.name for each in at_b.fabric().sites} == {"a", "b"}, what="b removes c"
    )
    at_b.close()
    person.close()
