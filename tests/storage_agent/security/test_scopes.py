"""The rights of tokens at an agent, by scope and by entity prefix."""

import httpx
import pyarrow as pa
import pytest

from mistbow.auth.token_file import read_token_file, write_token_file
from mistbow.streams.schemas import EVENTS
from tests.storage_agent.security.conftest import FOG, Guarded, entities, put

LATEST = {"metricID": ["m"]}
_KEYS = pa.schema([("key", pa.string())])


@pytest.mark.parametrize(
    ("method", "path", "body", "opens_to"),
    [
        ("POST", "/put", put("bus-1"), {"sensor", "bus", "operator", "fog"}),
        ("POST", "/get", LATEST, {"viewer", "bus", "operator", "fog"}),
        ("POST", "/query", {**LATEST, "agg": "sum"}, {"viewer", "bus", "operator", "fog"}),
        ("POST", "/list", LATEST, {"viewer", "bus", "operator", "fog"}),
        ("POST", "/nodes", None, {"viewer", "operator", "fog"}),
        ("GET", "/streams", None, {"viewer", "operator", "fog"}),
        ("GET", "/fabric", None, {"viewer", "operator", "fog"}),
        ("GET", "/metrics", None, {"viewer", "operator", "fog"}),
        ("DELETE", "/workers/w", None, {"operator", "fog"}),
        ("GET", "/healthz", None, {"sensor", "viewer", "bus", "operator", "fog", "nobody"}),
    ],
)
def test_route_opens_to_its_scope(
    agent: Guarded, method: str, path: str, body: object, opens_to: set[str]
) -> None:
    for name in ("sensor", "viewer", "bus", "operator", "fog", "nobody"):
        answer = agent.ask(name, method, path, body)
        if name in opens_to:
            # Also where the path is open to all, a prefix may close the route: see below.
            assert answer.is_success or path == "/healthz", (name, answer.text)
        elif name == "nobody":
            assert answer.status_code == 401
            assert answer.headers["WWW-Authenticate"] == "Bearer"
        else:
            assert answer.status_code == 403, (name, answer.text)
            assert answer.json()["error"]["code"] == "forbidden"
            assert name in answer.json()["error"]["message"]


def test_prefix_bounds_writes_and_reads(agent: Guarded) -> None:
    assert agent.status("fog", "POST", "/put", put("bus-1", "bus-2", "tram-1", value=5)) == 200
    refused = agent.ask("bus", "POST", "/put", put("bus-1", "tram-1"))
    assert refused.status_code == 403
    assert "'tram-1' does not begin with 'bus-'" in refused.json()["error"]["message"]
    assert {"bus-1", "bus-2", "tram-1"} <= set(
        entities(agent.ask("viewer", "POST", "/get", LATEST))
    )
    for body in (LATEST, {**LATEST, "from": 0}, {**LATEST, "nodes": []}):
        assert entities(agent.ask("bus", "POST", "/get", body)) == ["bus-1", "bus-2"]
    asked = {**LATEST, "entityID": ["bus-1", "tram-1"]}
    for path in ("/get", "/list", "/query"):
        assert agent.status("bus", "POST", path, {**asked, "agg": "sum"}) == 403
    total = {**LATEST, "agg": "sum"}
    assert agent.ask("bus", "POST", "/query", total).json()["value"] == 10
    listed = agent.ask("bus", "POST", "/list", LATEST).json()["metric"]
    assert {item["entityID"] for item in listed} == {"bus-1", "bus-2"}


@pytest.mark.parametrize("path", ["/get", "/list"])
def test_prefix_bounds_pages_and_rows(
    agent: Guarded, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage_agent.timeseries.row_answers._PAGE_ROWS", 1)
    assert agent.status("fog", "POST", "/put", put("bus-1", "bus-2", "tram-1", value=5)) == 200
    found = b""
    # A page of another token, whose cursor names an entity that this token may not read.
    body = {**LATEST, "nodes": [], "limit": 1}
    cursor = agent.ask("viewer", "POST", path, body).json()["next"]
    for more in ({}, {"cursor": cursor}):
        page = agent.ask("bus", "POST", path, {**body, "limit": 100, **more})
        assert page.is_success
        found += page.content
    headers = {"Authorization": f"Bearer {agent.tokens['bus']}", "Accept": "application/x-ndjson"}
    for times in ({}, {"latest": False}):
        rows = httpx.post(f"{agent.url}{path}", json={**LATEST, **times}, headers=headers)
        assert len(rows.text.splitlines()) > 2
        found += rows.content
    assert b"bus-1" in found
    assert b"tram" not in found


@pytest.mark.parametrize("table", ["latest", "historical", "metadata"])
def test_prefix_bounds_sql(agent: Guarded, table: str) -> None:
    assert agent.status("fog", "POST", "/put", put("bus-1", "tram-1")) == 200
    query = {"query": f"SELECT DISTINCT entity FROM {table} ORDER BY 1"}  # noqa: S608
    seen = {row[0] for row in agent.ask("bus", "POST", "/sql", query).json()["rows"]}
    assert "bus-1" in seen
    assert all(entity.startswith("bus-") for entity in seen)
    assert ["tram-1"] in agent.ask("viewer", "POST", "/sql", query).json()["rows"]
    assert agent.status("bus", "POST", "/sql", {"query": "SELECT * FROM raw"}) == 403


def test_prefix_bounds_deletions(agent: Guarded) -> None:
    agent.add("cleaner", "admin", prefix="bus-")
    assert agent.status("fog", "POST", "/put", put("bus-d", "tram-d")) == 200
    assert agent.status("bus", "DELETE", "/monitoring", LATEST) == 403
    assert agent.status("cleaner", "DELETE", "/monitoring", {"entityID": ["tram-d"]}) == 403
    assert agent.status("cleaner", "DELETE", "/monitoring", LATEST) == 200
    left = entities(agent.ask("viewer", "POST", "/get", LATEST))
    assert "tram-d" in left
    assert not any(entity.startswith("bus-") for entity in left)


def test_idempotency_keys_are_separate_by_token(agent: Guarded) -> None:
    for name in ("sensor", "operator", "fog"):
        assert agent.ask(name, "POST", "/put", put(f"key-{name}"), key="a").is_success
        record = {"key": f"key-{name}", "val": 1, "timestamp": 1}
        assert agent.ask(name, "POST", "/app/put", {"app": [record]}, key="a").is_success
    # With one token, a request with a used key and another body is refused, and not stored.
    assert agent.ask("sensor", "POST", "/put", put("key-repeated"), key="a").status_code == 422
    all_three = ["key-fog", "key-operator", "key-sensor"]
    asked = {"entityID": [*all_three, "key-repeated"]}
    assert entities(agent.ask("viewer", "POST", "/get", asked)) == all_three
    found = agent.ask("viewer", "POST", "/app/get", {"start": "key-"}).json()["application"]
    assert [each["key"] for each in found] == all_three


def test_revoked_token_is_rejected(agent: Guarded) -> None:
    agent.add("brief", "read")
    assert agent.status("brief", "GET", "/streams") == 200
    write_token_file(agent.file, read_token_file(agent.file).without_token("brief"))
    assert agent.status("brief", "GET", "/streams") == 401


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Basic {}", "bearer{}", "Bearer x{}", "Bearer {} x", "{}"]
)
def test_malformed_token_is_rejected(agent: Guarded, header: str) -> None:
    headers = {"Authorization": header.format(FOG)}
    assert httpx.get(f"{agent.url}/streams", headers=headers).status_code == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "Token"])
def test_scheme_is_matched_without_case(agent: Guarded, scheme: str) -> None:
    headers = {"Authorization": f"{scheme} {FOG}"}
    assert httpx.get(f"{agent.url}/streams", headers=headers).status_code == 200


def test_headers_of_agents_are_ignored_from_clients(agent: Guarded) -> None:
    assert agent.status("fog", "POST", "/put", put("bus-9", "tram-9")) == 200

    def seen(name: str) -> list[str]:
        headers = {
            "Authorization": f"Bearer {agent.tokens[name]}",
            "Mistbow-Entity-Prefix": "tram-9",
        }
        return entities(httpx.post(f"{agent.url}/get", json=LATEST, headers=headers))

    assert seen("fog") == ["tram-9"]
    assert "bus-9" in seen("viewer")
    assert all(entity.startswith("bus-") for entity in seen("bus"))


@pytest.mark.parametrize("name", ["deployments", "decisions/north"])
def test_state_of_enablers_is_deleted_only_with_the_fogs_token(agent: Guarded, name: str) -> None:
    url = f"{agent.url}/streams/{name}"
    headers = {"Authorization": f"Bearer {FOG}"}
    httpx.put(url, content=empty_stream(EVENTS), headers=headers).raise_for_status()

    for query in ("", "?owner=enabler"):
        refused = agent.ask("operator", "DELETE", f"/streams/{name}{query}")
        assert refused.status_code == 403
        assert "only the fog's own token" in refused.json()["error"]["message"]
    unstated = agent.ask("fog", "DELETE", f"/streams/{name}")
    assert unstated.status_code == 409
    assert "nothing was deleted" in unstated.json()["error"]["message"]
    assert agent.status("fog", "DELETE", f"/streams/{name}?owner=worker") == 409
    assert agent.status("viewer", "GET", f"/streams/{name}/info") == 200

    assert agent.status("fog", "DELETE", f"/streams/{name}?owner=enabler") == 204
    assert agent.status("viewer", "GET", f"/streams/{name}/info") == 404


@pytest.mark.parametrize("name", ["deployments", "placements/north", "decisions", "fog-history"])
def test_names_of_the_state_of_enablers_are_reserved(agent: Guarded, name: str) -> None:
    headers = {"Authorization": f"Bearer {agent.tokens['operator']}"}
    url = f"{agent.url}/streams/{name}"
    refused = httpx.put(url, content=empty_stream(), headers=headers)
    assert refused.status_code == 409
    assert refused.json()["error"]["message"].startswith(f"the name {name} is reserved")
    assert agent.status("viewer", "GET", f"/streams/{name}/info") == 404
    assert httpx.put(url, content=empty_stream(EVENTS), headers=headers).status_code == 201
    # A merge writes its decisions itself.
    merge = f"{agent.url}/streams/decisions/north.fair"
    assert httpx.put(merge, content=empty_stream(), headers=headers).is_success


def test_other_streams_are_deleted_with_the_scope_admin(agent: Guarded) -> None:
    headers = {"Authorization": f"Bearer {agent.tokens['operator']}"}
    url = f"{agent.url}/streams/results/all.fair.1"
    httpx.put(url, content=empty_stream(), headers=headers).raise_for_status()
    assert agent.status("operator", "DELETE", "/streams/results/all.fair.1?owner=enabler") == 400
    assert agent.status("operator", "DELETE", "/streams/results/all.fair.1") == 204


def empty_stream(schema: pa.Schema = _KEYS) -> bytes:
    """Return an Arrow IPC stream without rows."""
    sink = pa.BufferOutputStream()
    pa.ipc.new_stream(sink, schema).close()
    return sink.getvalue().to_pybytes()
