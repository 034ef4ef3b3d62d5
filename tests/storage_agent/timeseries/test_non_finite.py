"""NaN, infinities and staleness markers: stored bit by bit, and returned as texts in JSON."""

import math
import struct
from typing import Any

import httpx
import pyarrow as pa
import pytest

from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.errors import InvalidRequestError
from mistbow.streams.json_numbers import STALE, to_json
from mistbow.streams.schemas import POINTS
from storage_agent.settings import AgentSettings
from storage_agent.streams import compaction, segment_store
from storage_agent.streams.maintenance import Maintenance, StorageLimit
from storage_agent.timeseries.history import History
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.streams.opener import Opener
from tests.support.agents import running_agent

ODD = [math.nan, math.inf, -math.inf, STALE]
TEXTS = ["NaN", "+Inf", "-Inf", "stale"]


def bits(values: list[float]) -> list[str]:
    return [struct.pack(">d", value).hex() for value in values]


def rows(start: int, values: list[float]) -> pa.RecordBatch:
    texts = [pa.array([text] * len(values)).dictionary_encode() for text in ("m", "e", "{}")]
    times = pa.array([start + number for number in range(len(values))], pa.int64())
    return pa.RecordBatch.from_arrays([*texts, times, pa.array(values)], schema=POINTS)


# Decimals are stored as integers; -0 is none.
@pytest.mark.parametrize("usual", [[1.5, 2.25], [1.5, -0.0], []])
async def test_compaction_preserves_bits(
    opener: Opener, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, usual: list[float]
) -> None:
    monkeypatch.setattr(compaction, "SEGMENTS_PER_RUN", 4)
    monkeypatch.setattr(segment_store, "_INLINE_BYTES", 0)
    stream = await opener.open(POINTS, 1000)
    other_nan = struct.unpack(">d", bytes.fromhex("7ff8000000000abc"))[0]
    values = [*ODD, *usual, other_nan, STALE]
    for number in range(5):
        await stream.writer.append(rows(clock.now - 1000 + 10 * number, values))
    await Maintenance(lambda: [stream.log], clock, StorageLimit, lambda _: True).run()
    assert len(stream.log.manifest.current.runs) == 1
    reopened = await opener.open(POINTS, 1000)
    found = await History(reopened.log).read({("m", "e")}, 0, clock.now)
    assert bits(found["value"].to_pylist()) == bits(values * 5)


def put(url: str, values: list[Any], start: int, metric: str = "m") -> None:
    points = [
        {"metricID": metric, "entityID": "e", "val": value, "timestamp": start + number}
        for number, value in enumerate(values)
    ]
    answer = httpx.post(f"{url}/put", json={"monitoring": points})
    assert answer.status_code == 200, answer.text


def test_texts_in_json_are_read_and_written(
    url: str, client: AgentClient, clock: ManualClock
) -> None:
    begin = clock.now - 1000
    put(url, [1.5, *TEXTS, "Inf", "-Infinity"], begin)
    body = {"metricID": "m", "latest": False}
    [found] = httpx.post(f"{url}/get", json=body).json()["monitoring"][0]["data"]
    assert [each["val"] for each in found["values"]] == [1.5, *TEXTS, "+Inf", "-Inf"]
    [series] = client.get("m", latest=False)[0].data
    values = [1.5, *ODD, math.inf, -math.inf]
    assert bits([each.value for each in series.values]) == bits(values)
    table = client.sql("SELECT value FROM historical ORDER BY ts")
    assert bits(table["value"].to_pylist()) == bits(values)
    answer = httpx.post(f"{url}/sql", json={"query": "SELECT value FROM historical ORDER BY ts"})
    assert [value for [value] in answer.json()["rows"]] == [to_json(value) for value in values]
    page = client.rows("raw").rows
    assert [row["value"] for row in page] == [to_json(value) for value in values]


def test_client_sends_values_that_json_lacks(client: AgentClient, clock: ManualClock) -> None:
    begin = clock.now - 1000
    client.put([Point("m", "e", begin + number, value) for number, value in enumerate(ODD)])
    [series] = client.get("m", latest=False)[0].data
    assert bits([each.value for each in series.values]) == bits(ODD)


def test_other_texts_are_rejected(url: str, client: AgentClient, clock: ManualClock) -> None:
    for text in ("nan", "INF", "", "stale ", "NaN\n", "none"):
        body = {"metricID": "m", "entityID": "e", "val": text, "timestamp": clock.now}
        answer = httpx.post(f"{url}/put", json={"monitoring": [body]})
        assert answer.status_code == 400, text
        assert "monitoring[0].val" in answer.text
    with pytest.raises(InvalidRequestError):
        client.put([Point("", "e", clock.now, 1.0)])


def test_aggregates_read_finite_values_only(
    url: str, client: AgentClient, clock: ManualClock
) -> None:
    put(url, [2, *TEXTS, 4], clock.now - 1000)
    for function, expected in (("sum", 6.0), ("avg", 3.0), ("min", 2.0), ("max", 4.0)):
        answer = client.query(function, "m", latest=False)  # type: ignore[arg-type]
        assert answer.value == expected
    put(url, TEXTS, clock.now - 1000, "odd")
    assert client.query("sum", "odd", latest=False).value is None
    assert client.query("max", "odd").value is None


@pytest.mark.parametrize(
    ("values", "latest"),
    [
        ([1.5, "NaN"], "NaN"),
        ([1.5, "-Inf"], "-Inf"),
        # A marker is no value: the series has ended with 1.5.
        ([1.5, "stale"], 1.5),
        (["stale"], "stale"),
        (["stale", 2], 2),
    ],
)
def test_latest_value_survives_a_restart(
    settings: AgentSettings, clock: ManualClock, values: list[Any], latest: Any
) -> None:
    def latest_of(url: str) -> Any:
        [found] = httpx.post(f"{url}/get", json={"metricID": "m"}).json()["monitoring"][0]["data"]
        return found["values"][0]["val"]

    with running_agent(settings, clock) as url:
        put(url, values, clock.now - 1000)
        assert latest_of(url) == latest
    with running_agent(settings, clock) as url:
        assert latest_of(url) == latest


def test_latest_value_before_a_marker_is_found_after_a_deletion(
    url: str, client: AgentClient, clock: ManualClock
) -> None:
    begin = clock.now - 1000
    put(url, [1.5, "stale", 2.5, "stale"], begin)
    client.delete("m", start=begin + 2, end=begin + 2)
    [series] = client.get("m")[0].data
    assert [(each.ts, each.value) for each in series.values] == [(begin, 1.5)]
