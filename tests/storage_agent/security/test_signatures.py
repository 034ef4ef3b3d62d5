"""Streams with a signature: every kind of read requires a token with the same signature."""

import httpx
import pyarrow as pa
import pytest

from mistbow.auth.token_file import read_token_file, write_token_file
from mistbow.client.agent import AgentClient
from mistbow.streams.schemas import RESULT_ROWS
from tests.storage_agent.security.conftest import FOG, Guarded

STREAM = "results/all.fair.1a2b3c4d.signed-board"
TS = 1_790_000_000_000
SERIES = {"query": '{__name__="insight:peak"}', "time": str(TS / 1000)}


@pytest.fixture(scope="module")
def signed(agent: Guarded) -> Guarded:
    """Add a stream with a signature, and a token that may read the stream; return the agent."""
    content, token = read_token_file(agent.file).with_token(
        "chair", frozenset({"read"}), "", None, ["board"]
    )
    write_token_file(agent.file, content)
    agent.tokens["chair"] = token
    client = AgentClient(agent.url, FOG)
    client.create_stream(STREAM, RESULT_ROWS)
    row = {"insight": "d-1/peak/1", "key": "{}", "ts": TS, "value": 4.0, "revision": 0}
    rows = pa.RecordBatch.from_pylist([{**row, "computed_at": TS}], schema=RESULT_ROWS)
    client.append(STREAM, rows)
    client.close()
    return agent


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", f"/streams/{STREAM}", None),
        ("GET", f"/streams/{STREAM}/rows", None),
        ("POST", "/sql", {"query": f'SELECT value FROM "{STREAM}"'}),  # noqa: S608
    ],
)
def test_signed_stream_opens_to_its_signature(
    signed: Guarded, method: str, path: str, body: object
) -> None:
    for name in ("chair", "fog"):
        assert signed.status(name, method, path, body) == 200
    for name in ("viewer", "operator"):
        refused = signed.ask(name, method, path, body)
        assert refused.status_code == 403
        message = refused.json()["error"]["message"]
        assert f"requires a token with the signature board, which the token {name}" in message


def test_signed_stream_is_followed_with_its_signature_only(signed: Guarded) -> None:
    assert signed.status("viewer", "GET", f"/streams/{STREAM}/events?from=0") == 403
    headers = {"Authorization": f"Bearer {signed.tokens['chair']}"}
    path = f"{signed.url}/streams/{STREAM}/events?from=0"
    with httpx.stream("GET", path, headers=headers, timeout=10) as answer:
        lines = answer.iter_lines()
        assert any('"value":4.0' in line for line in lines)


@pytest.mark.parametrize("path", ["/api/v1/query", "/api/v1/series"])
def test_promql_reads_signed_streams_by_signature_only(signed: Guarded, path: str) -> None:
    def found(name: str) -> bool:
        headers = {"Authorization": f"Bearer {signed.tokens[name]}"}
        params = {**SERIES, "match[]": SERIES["query"]}
        answer = httpx.get(signed.url + path, params=params, headers=headers)
        assert answer.is_success, answer.text
        return "peak" in answer.text

    # Those who may first: what is found for them is remembered.
    assert found("chair")
    assert not found("viewer")
    assert not found("operator")
    assert found("fog")


def test_proxy_passes_signatures_on(signed: Guarded) -> None:
    def status(signatures: str) -> int:
        headers = {"Authorization": f"Bearer {FOG}", "Mistbow-Signatures": signatures}
        return httpx.get(f"{signed.url}/streams/{STREAM}/rows", headers=headers).status_code

    assert (status(""), status("other"), status("audit,board")) == (403, 403, 200)
    # Of others it is not believed.
    headers = {
        "Authorization": f"Bearer {signed.tokens['viewer']}",
        "Mistbow-Signatures": "board",
    }
    assert httpx.get(f"{signed.url}/streams/{STREAM}/rows", headers=headers).status_code == 403


def test_replica_of_a_signed_stream_is_signed(signed: Guarded) -> None:
    signed.add("other", "admin")
    path = f"/streams/replicas/edge/{STREAM}/rows"
    assert signed.status("other", "GET", path) == 403
    assert signed.status("chair", "GET", path) == 404
