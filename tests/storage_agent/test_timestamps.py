"""Timestamps in seconds, microseconds or nanoseconds are refused with a hint, or converted."""

from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pyarrow as pa
import pytest

from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.client.fields import MAX_TIMESTAMP_MS
from mistbow.errors import InvalidRequestError, TooLargeError
from mistbow.http.field_conversion import convert_items, convert_read
from mistbow.timestamps import Timestamps, TimestampUnit, likely_unit
from storage_agent.http import timed_bodies
from storage_agent.http.points import GetBody, PutBody
from storage_agent.http.streams import read_time
from storage_agent.http.timed_bodies import decode_timed
from storage_agent.ingest.entity_label import EntityLabel
from storage_agent.ingest.line_protocol import LineFormat, parse_lines, parse_precision
from storage_agent.ingest.payloads import BadMessageError, parse_message
from storage_agent.ingest.point_batch import PointBatch
from storage_agent.mqtt_topics import template_of
from storage_agent.settings import AgentSettings
from tests.support.agents import running_agent
from tests.support.ignite import empty

NOW = 1_795_262_400_000
OTHERS = {"seconds": NOW // 1000, "microseconds": NOW * 1000, "nanoseconds": NOW * 10**6}

_PUT = msgspec.json.Decoder(PutBody)
_GET = msgspec.json.Decoder(GetBody)


@pytest.mark.parametrize(
    "ms", [0, 1, 1000, 86_400_000, 31_536_000_000, 315_532_800_000, NOW, MAX_TIMESTAMP_MS]
)
def test_old_small_and_late_timestamps_stay_milliseconds(ms: int) -> None:
    for unit in ("ms", "auto", "unchecked"):
        assert Timestamps(unit).read(ms, "to") == ms


@pytest.mark.parametrize("name", OTHERS)
def test_timestamp_of_another_unit_is_refused_with_its_unit_and_its_milliseconds(name: str) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        Timestamps().read(OTHERS[name], "from")
    error = raised.value
    assert error.message == f"from: {OTHERS[name]} looks like {name}, and the unit is milliseconds"
    assert error.hint is not None
    assert str(NOW) in error.hint
    assert "MISTBOW_TIMESTAMP_UNIT" in error.hint
    assert error.details == {"unit": name, "milliseconds": NOW}
    assert Timestamps("auto").read(OTHERS[name], "from") == NOW
    assert Timestamps("unchecked").read(OTHERS[name], "from") == OTHERS[name]


def test_body_with_very_many_values_is_not_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b'{"from": %d, "x": [%b1]}'
    with pytest.raises(InvalidRequestError, match=r"^from: "):
        decode_timed(_GET, body % (NOW // 1000, b"[]," * 1000), Timestamps())
    # To decode them would let no other thread run.
    monkeypatch.setattr(timed_bodies, "_FIELDS", None)
    many = b"[]," * 300_000
    with pytest.raises(TooLargeError, match="too many values"):
        decode_timed(_GET, body % (NOW // 1000, many), Timestamps("auto"))
    assert decode_timed(_GET, body % (NOW, many), Timestamps()).start == NOW


def test_fractions_of_seconds_are_converted() -> None:
    assert Timestamps("auto").read(NOW / 1000 + 0.25, "from") == NOW + 250


@pytest.mark.parametrize("time", OTHERS.values())
@pytest.mark.parametrize("form", [int, str, float])
def test_put_body_names_the_point_whose_timestamp_has_another_unit(time: int, form: type) -> None:
    item = {"metricID": "m", "entityID": "e", "val": 1, "timestamp": NOW}
    body = msgspec.json.encode({"monitoring": [item, {**item, "timestamp": form(time)}]})
    with pytest.raises(InvalidRequestError, match=r"monitoring\[1\]\.timestamp: .* looks like"):
        decode_timed(_PUT, body, Timestamps(), convert_items)
    points = decode_timed(_PUT, body, Timestamps("auto"), convert_items).monitoring
    assert [point.ts for point in points] == [NOW, NOW]


def test_unchecked_seconds_are_stored_as_milliseconds() -> None:
    item = {"metricID": "m", "entityID": "e", "val": 1, "timestamp": NOW // 1000}
    body = msgspec.json.encode({"monitoring": [item]})
    [point] = decode_timed(_PUT, body, Timestamps("unchecked"), convert_items).monitoring
    assert point.ts == NOW // 1000


@pytest.mark.parametrize("time", OTHERS.values())
@pytest.mark.parametrize("name", ["from", "to"])
def test_bounds_of_a_read_are_refused_or_converted(name: str, time: int) -> None:
    body = msgspec.json.encode({"metricID": ["m"], name: time})
    with pytest.raises(InvalidRequestError, match=f"^{name}: {time} looks like"):
        decode_timed(_GET, body, Timestamps(), convert_read)
    decoded = decode_timed(_GET, body, Timestamps("auto"), convert_read)
    assert (decoded.start if name == "from" else decoded.end) == NOW


@pytest.mark.parametrize(
    ("precision", "time", "looks"),
    [
        ("ns", NOW // 1000, "seconds"),
        ("ns", NOW, "milliseconds"),
        ("ms", NOW * 10**6, "nanoseconds"),
        ("s", NOW, "milliseconds"),
        ("h", NOW // 1000, "seconds"),
    ],
)
def test_line_of_another_unit_is_rejected_or_converted(
    precision: str, time: int, looks: str
) -> None:
    line_format = LineFormat(EntityLabel("host", "n1"), NOW, parse_precision(precision))
    batch = PointBatch(10, lambda _: True)
    parse_lines(f"m value=1 {time}\nm value=2".encode(), line_format, batch)
    [rejected] = batch.rejected_points
    assert f"{time} looks like {looks}" in rejected.what
    assert "precision" in rejected.what
    assert [point.ts for point in batch.points] == [NOW]
    batch = PointBatch(10, lambda _: True, Timestamps("auto"))
    parse_lines(f"m value=1 {time}".encode(), line_format, batch)
    assert [point.ts for point in batch.points] == [NOW]


def test_mqtt_payload_of_another_unit_is_refused_or_converted() -> None:
    payload = msgspec.json.encode([{"val": 1, "timestamp": NOW // 1000}])
    templates = [template_of("sensors/{entityID}/{metricID}")]
    with pytest.raises(BadMessageError, match="looks like seconds") as raised:
        parse_message("sensors/e/m", payload, templates, NOW)
    assert raised.value.reason == "time"
    found = parse_message("sensors/e/m", payload, templates, NOW, Timestamps("auto"))
    assert [point.ts for point in found.points] == [NOW]


def test_every_unit_is_found_at_the_ends_of_its_range() -> None:
    for year_2010, year_2060, name in (
        (1_262_304_000, 2_840_140_799, "seconds"),
        (1_262_304_000 * 10**9, 2_840_140_799 * 10**9, "nanoseconds"),
    ):
        for value in (year_2010, year_2060):
            found = likely_unit(value)
            assert found is not None
            assert found.name == name
        assert likely_unit(year_2010 - 1) is None


def requests(time: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield (method, path, body) of the requests that have a timestamp."""
    item = {"metricID": "m", "entityID": "e", "val": 1, "timestamp": time}
    record = {"key": "k", "val": 1, "timestamp": time}
    route = {"destination": "10.0.0.0/8", "gateway": "10.0.0.1", "interface": "eth0"}
    yield "POST", "/put", {"monitoring": [item]}
    yield "POST", "/analytics/put", {"analytics": [record]}
    yield "POST", "/app/put", {"application": [record]}
    yield "POST", "/app/put", {"app": [record]}
    yield "POST", "/routing/put", {"routing": [{"routes": [route], "timestamp": time}]}
    for name in ("from", "to"):
        yield "POST", "/get", {name: time}
        yield "POST", "/query", {name: time, "agg": "sum"}
        yield "POST", "/list", {name: time}
        yield "POST", "/analytics/get", {name: time}
        yield "POST", "/app/get", {name: time}
        yield "POST", "/app/query", {name: time, "schema": "s"}
        yield "POST", "/routing/get", {name: time}
        yield "DELETE", "/monitoring", {name: time, "metricID": "m"}
        yield "DELETE", "/analytics", {name: time}
        yield "DELETE", "/app", {name: time}


def agent_with(
    server: IgniteServer, factory: pytest.TempPathFactory, unit: TimestampUnit
) -> AgentSettings:
    empty(server)
    return AgentSettings(
        home=factory.mktemp("home"),
        ignite_port=server.port,
        node="n1",
        collect_routes=False,
        timestamp_unit=unit,
    )


def test_agent_refuses_other_units_wherever_it_reads_a_timestamp(
    ignite_server: IgniteServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with running_agent(agent_with(ignite_server, tmp_path_factory, "ms")) as url:
        for name, time in OTHERS.items():
            for method, path, body in requests(time):
                answer = httpx.request(method, url + path, json=body)
                assert answer.status_code == 400, (path, body, answer.text)
                error = answer.json()["error"]
                assert f"{time} looks like {name}" in error["message"], (path, body)
                assert str(NOW) in error["hint"]
        client = AgentClient(url)
        client.create_stream("mine", pa.schema([pa.field("ts", pa.int64(), nullable=False)]))
        for time in OTHERS.values():
            with pytest.raises(InvalidRequestError, match="looks like"):
                client.append("mine", pa.table({"ts": [NOW, time]}))
            for parameter in ("min_ts", "max_ts"):
                answer = httpx.get(f"{url}/streams/mine/rows?{parameter}={time}")
                assert "looks like" in answer.json()["message"]
            assert "looks like" in httpx.get(f"{url}/streams/mine/seek?time={time}").text
        # Services compute times of their own streams, also near 1970.
        assert httpx.get(f"{url}/streams/raw/rows?min_ts={NOW // 1000}").is_success
        client.append("mine", pa.table({"ts": [1, 1000, NOW]}))
        client.put([Point("m", "e", ts, 1.0) for ts in (1, 1000, 31_536_000_000)])
        assert len(client.get("m", "e", latest=False)[0].data[0].values) == 3
        client.close()


def test_agent_converts_other_units_on_request(
    ignite_server: IgniteServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with running_agent(agent_with(ignite_server, tmp_path_factory, "auto")) as url:
        client = AgentClient(url)
        for number, time in enumerate([*OTHERS.values(), NOW]):
            client.put([Point("m", f"e{number}", time, 1.0)])
        for time in (*OTHERS.values(), NOW):
            [node] = client.get("m", start=time, end=time)
            found = [point.ts for series in node.data for point in series.values]
            assert found == [NOW] * 4
        client.close()


@pytest.mark.parametrize("name", ["rawdata", "metadata2", "decisions-x", "placements2", "panes"])
def test_streams_with_names_similar_to_those_of_services_are_checked(name: str) -> None:
    with pytest.raises(InvalidRequestError, match="looks like"):
        read_time(Timestamps("ms"), name, NOW // 1000, "ts")


@pytest.mark.parametrize(
    "name", ["raw", "metadata", "decisions/north", "deployments/north", "panes/f", "replicas/a/x"]
)
def test_streams_of_services_are_not_checked(name: str) -> None:
    assert read_time(Timestamps("ms"), name, NOW // 1000, "ts") == NOW // 1000
