"""Reads while acknowledged points wait in the spool: they state that these points are missing."""

import io
import json
from typing import Any

import httpx
import pyarrow as pa

from storage_agent.settings import AgentSettings
from tests.storage_agent.conftest import ManualClock
from tests.support.agents import running_agent
from tests.support.conditions import eventually
from tests.support.gate import Gate

_REASON = "points wait in the spool, and can be read once Ignite has stored them"
_MISSING = [{"node": "n1", "reason": _REASON}]
_SELECT = {"metricID": "m"}
_LATEST: dict[str, Any] = {**_SELECT, "limit": 10}
_RANGE: dict[str, Any] = {**_SELECT, "from": 0}
_SQL = {"query": "SELECT value FROM historical"}


def missing_of(url: str, path: str, body: dict[str, Any]) -> object:
    return httpx.post(f"{url}{path}", json=body).raise_for_status().json().get("missing", [])


def all_missing(url: str) -> list[object]:
    reads = [("/get", body) for body in (_SELECT, _RANGE, _LATEST, {**_RANGE, "limit": 10})]
    reads += [("/query", {**body, "agg": "max"}) for body in (_SELECT, _RANGE)]
    return [missing_of(url, *read) for read in [*reads, ("/sql", _SQL)]]


def test_reads_list_the_node_whose_points_wait_until_ignite_has_stored_them(
    settings: AgentSettings, clock: ManualClock
) -> None:
    with Gate(settings.ignite_port) as gate:
        through = settings.model_copy(update={"ignite_port": gate.port})
        with running_agent(through, clock) as url:

            def put(value: int) -> int:
                point = {**_SELECT, "entityID": "e", "val": value, "timestamp": clock.now + value}
                return httpx.post(
                    f"{url}/put", json={"monitoring": [point]}, timeout=60
                ).status_code

            def warnings() -> object:
                answer = httpx.get(f"{url}/api/v1/query", params={"query": "m"})
                return answer.raise_for_status().json().get("warnings", [])

            def in_rows(media_type: str) -> bytes:
                answer = httpx.post(f"{url}/sql", json=_SQL, headers={"Accept": media_type})
                return answer.raise_for_status().content

            assert put(0) == 200
            assert all_missing(url) == [[]] * 7
            gate.shut()
            eventually(lambda: put(1) == 202, what="the points are spooled")
            assert all_missing(url) == [_MISSING] * 7
            assert warnings() == [_REASON]
            lines = in_rows("application/x-ndjson").splitlines()
            assert json.loads(lines[-1]) == {"end": {"rows": 1, "missing": _MISSING}}
            arrow = in_rows("application/vnd.apache.arrow.stream")
            metadata = pa.ipc.open_stream(io.BytesIO(arrow)).read_all().schema.metadata
            assert json.loads(metadata[b"missing"]) == {"n1": _REASON}

            gate.open()
            eventually(lambda: all_missing(url) == [[]] * 7, what="the points are stored")
            assert warnings() == []
