"""Names and texts with control characters: found again exactly, or refused with the place."""

import json
from urllib.parse import quote

import httpx
import msgspec
import pyarrow as pa
import pytest

from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Container, Pod, Point
from mistbow.errors import InvalidRequestError
from mistbow.streams.schemas import RAW
from mistbow.streams.wire import encode_rows
from storage_agent.ingest.payloads import parse_message
from storage_agent.ingest.protocol import remote_v1_pb2 as v1
from storage_agent.mqtt_topics import template_of
from storage_agent.settings import AgentSettings
from tests.storage_agent.ingest.conftest import stored
from tests.storage_agent.ingest.test_remote_write import NOW, send, series
from tests.support.agents import running_agent

CONTROLS = ("\x00", "\x01", "\t", "\n", "\r", "\x1b", "\x7f", "\x85", "\u2028", "\u202e", "\ufeff")


def odd_point(sign: str) -> Point:
    """Return a point whose names and texts all contain a character."""
    text = f"a{sign}b{sign}"
    return Point(
        metric=f"m{text}",
        entity=f"e{text}",
        ts=NOW,
        value=1.0,
        entity_type=f"t{text}",
        name=f"n{text}",
        units=f"u{text}",
        desc=f"d{text}",
        group=f"g{text}",
        pod=Pod(uuid=text, name=f"p{text}", namespace=f"s{text}"),
        container=Container(id=text, name=f"c{text}"),
        labels={f"l{text}": text},
    )


def odd_points() -> list[Point]:
    return [odd_point(sign) for sign in CONTROLS]


def check_found(client: AgentClient, points: list[Point]) -> None:
    """Check that each point is found by each of its names, with its exact texts."""
    for point in points:
        for selected in (
            {"metric": point.metric},
            {"entity": point.entity},
            {"group": point.group},
            {"pod_name": point.pod and point.pod.name},
            {"container_name": point.container and point.container.name},
        ):
            [node] = client.get(latest=False, **selected)
            [found] = node.data
            assert (found.metric, found.entity) == (point.metric, point.entity)
            assert (found.entity_type, found.name, found.units, found.desc, found.group) == (
                point.entity_type,
                point.name,
                point.units,
                point.desc,
                point.group,
            )
            assert (found.pod, found.container) == (point.pod, point.container)
        [attributes] = client.read(RAW, match={"metric": point.metric}).table["attributes"]
        [[name, value]] = (point.labels or {}).items()
        assert json.loads(attributes.as_py())[name] == value
        for table in ("latest", "metadata", "historical"):
            rows = client.sql(f"FROM {table} WHERE metric = ?", [point.metric])
            assert rows["entity"].to_pylist() == [point.entity]


def test_points_are_found_by_names_with_control_characters(url: str, client: AgentClient) -> None:
    points = odd_points()
    client.put(points)
    check_found(client, points)
    for point in points:
        query = f"{{metricID={json.dumps(point.metric)}}}"
        found = httpx.get(f"{url}/api/v1/query", params={"query": query, "time": NOW / 1000})
        [result] = found.json()["data"]["result"]
        assert result["metric"]["entityID"] == point.entity
        assert client.delete(metric=point.metric, entity=point.entity).points == 1
        assert client.get(point.metric, latest=False)[0].data == []


@pytest.mark.parametrize("sign", CONTROLS)
def test_remote_write_stores_control_characters(url: str, client: AgentClient, sign: str) -> None:
    metric, entity = f"w{sign}m", f"e{sign}"
    labels = {"__name__": metric, "instance": entity, f"l{sign}": f"v{sign}"}
    assert send(url, v1.Request(timeseries=[series(labels, (1, NOW))])).status_code == 204
    assert stored(client, metric) == {(metric, entity): [(NOW, 1)]}
    [attributes] = client.read(RAW, match={"metric": metric}).table["attributes"].to_pylist()
    assert json.loads(attributes)[f"l{sign}"] == f"v{sign}"


@pytest.mark.parametrize("sign", CONTROLS)
def test_line_protocol_stores_control_characters_or_names_the_line(
    url: str, client: AgentClient, sign: str
) -> None:
    good = f"lp_good_{ord(sign)}"
    line = f"lp{sign}m,host=e{sign}h,k{sign}k=v{sign}v value=1 {NOW}000000"
    answer = httpx.post(f"{url}/write", content=f"{good} value=1 {NOW}000000\n{line}".encode())
    assert list(stored(client, good)) == [(good, "n1")]
    metric, entity = f"lp{sign}m", f"e{sign}h"
    if answer.status_code == 204:
        assert stored(client, metric) == {(metric, entity): [(NOW, 1)]}
    else:
        assert answer.status_code == 400
        assert "line 2" in answer.text
        assert stored(client, metric) == {}
        assert sign in "\x00\n\r"


@pytest.mark.parametrize("sign", CONTROLS)
def test_message_stores_control_characters(url: str, client: AgentClient, sign: str) -> None:
    metric, entity = f"mqtt{sign}m", f"e{sign}"
    payload = json.dumps({"val": 1, "timestamp": NOW, "labels": {f"l{sign}": sign}}).encode()
    template = template_of("x/{entityID}/{metricID}")
    points = parse_message(f"x/{entity}/{metric}", payload, [template], NOW).points
    client.put(points)
    assert stored(client, metric) == {(metric, entity): [(NOW, 1)]}


@pytest.mark.parametrize("sign", CONTROLS)
def test_rows_and_records_have_control_characters(url: str, client: AgentClient, sign: str) -> None:
    text, number = f"a{sign}b", ord(sign)
    name = f"odd-{number}"
    rows = pa.table({"ts": [NOW], "word": [text], "kind": pa.array([text]).dictionary_encode()})
    client.create_stream(name, rows.schema)
    client.append(name, rows)
    assert client.read(name, match={"word": text}).table["kind"].to_pylist() == [text]
    found = client.sql(f'FROM "{name}" WHERE word = ? AND kind = ?', [text, text])
    assert found["word"].to_pylist() == [text]
    shown = httpx.get(f"{url}/streams/{name}/rows", params={"from": 0})
    assert [row["word"] for row in shown.json()["rows"]] == [text]
    for kind, path in (("analytics", "analytics"), ("application", "app")):
        record = {"key": f"k{text}", "val": {text: text}, "timestamp": NOW}
        assert httpx.post(f"{url}/{path}/put", json={kind: [record]}).is_success
        read = httpx.post(f"{url}/{path}/get", json={"key": record["key"], "latest": True})
        [answer] = read.json()[kind]
        assert answer["key"] == record["key"]
        assert [each["val"] for each in answer["values"]] == [{text: text}]
    for method, path in (
        ("PUT", "/streams/a{}b"),
        ("GET", "/streams/a{}b/rows?from=0"),
        ("PUT", "/app/schemas/a{}b"),
        ("DELETE", "/workers/a{}b"),
        ("DELETE", "/enablers/a{}b"),
        ("DELETE", "/fabric/sites/a{}b"),
        ("DELETE", "/replication/copies/a{}b"),
        ("GET", "/api/v1/label/a{}b/values"),
    ):
        content = encode_rows(rows) if path == "/streams/a{}b" else b'{"schema": {}}'
        target = url + path.format(quote(sign))
        refused = httpx.request(method, target, content=content)
        assert refused.status_code < 500, (path, refused.text)
        assert refused.status_code >= 400 or path.startswith(("/workers", "/enablers", "/api")), (
            path
        )


@pytest.mark.parametrize("sign", CONTROLS)
def test_field_with_a_control_character_is_found_in_sql_or_refused(
    url: str, client: AgentClient, sign: str
) -> None:
    name, column = f"field-{ord(sign)}", f"a{sign}b"
    rows = pa.table({"ts": [NOW], column: ["x"], "a": ["y"]})
    if sign == "\0":
        with pytest.raises(InvalidRequestError, match=r"field 'a.x00b' has the character U\+0000"):
            client.create_stream(name, rows.schema)
        assert name not in [each.name for each in client.streams()]
        return
    client.create_stream(name, rows.schema)
    client.append(name, rows)
    assert client.read(name).table.to_pylist() == rows.to_pylist()
    assert client.sql(f'FROM "{name}" WHERE a = ?', ["y"]).to_pylist() == rows.to_pylist()


def test_nested_field_with_a_nul_is_refused(client: AgentClient) -> None:
    inner = pa.struct([pa.field("a\0b", pa.int64())])
    opaque = pa.opaque(inner, "type", "vendor")
    for kind in (inner, pa.list_(inner), pa.map_(pa.string(), inner), opaque):
        with pytest.raises(InvalidRequestError, match=r"field 'a.x00b'"):
            client.create_stream("nested", pa.schema([("s", kind)]))


def test_points_with_control_characters_survive_a_restart(own_settings: AgentSettings) -> None:
    points = [msgspec.structs.replace(each, metric=f"r{each.metric}") for each in odd_points()]
    with running_agent(own_settings) as url:
        client = AgentClient(url)
        client.put(points)
        client.close()
    with running_agent(own_settings) as url:
        client = AgentClient(url)
        check_found(client, points)
        client.close()
