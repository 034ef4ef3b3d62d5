"""Idempotency keys that are used again for another body: refused, and nothing is stored."""

import io
import json
from pathlib import Path

import httpx
import msgspec
import pyarrow as pa
import pytest

from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from storage_agent.http.idempotency import request_key
from storage_agent.request_key import RequestKey
from storage_agent.settings import AgentSettings
from storage_agent.streams.idempotency_keys import IdempotencyKeys
from storage_agent.streams.segments import SegmentHeader
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.crashes.processes import AgentProcess
from tests.support.agents import running_agent
from tests.support.conditions import eventually
from tests.support.gate import Gate

TS = 1_795_262_400_000


def points(val: int) -> bytes:
    point = {"metricID": "m", "entityID": "e", "val": val, "timestamp": TS}
    return json.dumps({"monitoring": [point]}).encode()


def records(val: int) -> bytes:
    return json.dumps({"application": [{"key": "k", "val": val, "timestamp": TS}]}).encode()


def tables(val: int) -> bytes:
    route = {"destination": f"10.0.{val}.0/24", "gateway": "10.0.0.1", "interface": "eth0"}
    return json.dumps({"routing": [{"node": "n1", "timestamp": TS, "routes": [route]}]}).encode()


def rows(val: int) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"ts": [TS], "value": [float(val)]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def post(url: str, path: str, body: bytes, key: str = "k") -> httpx.Response:
    return httpx.post(f"{url}{path}", content=body, headers={"Idempotency-Key": key}, timeout=60)


@pytest.mark.parametrize(
    ("path", "body_of"),
    [
        ("/put", points),
        ("/put?site=n1", points),
        ("/app/put", records),
        ("/analytics/put", lambda val: records(val).replace(b"application", b"analytics")),
        ("/routing/put", tables),
        ("/write", lambda val: b"m,host=e value=%d %d" % (val, TS * 1_000_000)),
        ("/streams/own", rows),
    ],
)
def test_way_in_refuses_the_key_of_another_body(url, path, body_of) -> None:
    httpx.put(f"{url}/streams/own", content=rows(0))
    assert post(url, path, body_of(1)).is_success
    refused = post(url, path, body_of(2))
    assert refused.status_code == 422
    assert "'k' was already used for another body" in refused.json()["message"]
    assert "new key" in refused.text
    assert post(url, path, body_of(1)).is_success
    assert post(url, path, body_of(2), "other").is_success


def test_refused_body_stores_nothing_and_a_killed_agent_still_remembers_the_body(
    ignite: IgniteServer, tmp_path: Path
) -> None:
    agent = AgentProcess(tmp_path, ignite)
    client = AgentClient(agent.url)
    try:
        agent.start()
        assert post(agent.url, "/put", points(1)).status_code == 200
        agent.kill()
        agent.start()
        assert post(agent.url, "/put", points(2)).status_code == 422
        assert post(agent.url, "/put", points(1)).status_code == 200
        assert client.read("raw").table["value"].to_pylist() == [1.0]
    finally:
        client.close()
        agent.kill()


def test_acknowledged_body_is_stored_though_its_key_turns_out_to_be_used(
    settings: AgentSettings, clock: ManualClock
) -> None:
    with running_agent(settings, clock) as url:
        assert post(url, "/put", points(1)).status_code == 200
    with Gate(settings.ignite_port) as gate:
        gate.shut()
        through = settings.model_copy(update={"ignite_port": gate.port})
        with running_agent(through, clock, ready=False) as url:
            # Ignite has stored the key, but is unreachable.
            assert post(url, "/put", points(2)).status_code == 202
            gate.open()
            client = AgentClient(url)
            eventually(
                lambda: client.read("raw").table["value"].to_pylist() == [1.0, 2.0],
                what="both bodies are stored",
            )
            client.close()


def test_key_that_an_earlier_version_stored_accepts_each_body() -> None:
    header = b"""{"stream": "raw", "first": 0, "count": 1, "epoch": 1, "nonce": "n", "frontier": 0,
        "horizon": 0, "created": 0, "keys": {"k": [0, 1, 0]}}"""
    keys = IdempotencyKeys()
    keys.record(msgspec.json.decode(header, type=SegmentHeader).keys)
    assert keys.get(request_key("k", b"any")) == keys.get(RequestKey("k")) is not None
