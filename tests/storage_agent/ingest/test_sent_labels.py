"""Labels that senders set are stored, by each protocol."""

import json
from collections.abc import Callable

import httpx
import msgspec
import pytest

from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.streams.schemas import RAW
from storage_agent.http.points import PutBody
from storage_agent.ingest.payloads import parse_message
from storage_agent.ingest.protocol import remote_v1_pb2 as v1
from storage_agent.mqtt_topics import template_of
from tests.storage_agent.ingest.test_remote_write import NOW, send, series

LABELS = {"node": "a", "site": "b", "entityID": "c", "exported_site": "d", "rack": "7"}
KEPT = {
    "node": "n1",
    "site": "n1",
    "exported_node": "a",
    "exported_site": "b",
    "exported_entityID": "c",
    "exported_exported_site": "d",
    "rack": "7",
}
Send = Callable[[str, AgentClient, str, str], None]
"""A function that sends a point by one protocol.

Its arguments: URL of the agent, client, metric, value of the label ``node``.
"""


def put(_url: str, client: AgentClient, metric: str, node: str) -> None:
    client.put([Point(metric, "e", NOW, 1.0, labels={**LABELS, "node": node})])


def write_lines(url: str, _client: AgentClient, metric: str, node: str) -> None:
    tags = "".join(f",{name}={value}" for name, value in {**LABELS, "node": node}.items())
    line = f"{metric},host=e{tags} value=1 {NOW}000000"
    assert httpx.post(f"{url}/write", content=line).status_code == 204


def write_remotely(url: str, _client: AgentClient, metric: str, node: str) -> None:
    labels = {**LABELS, "node": node, "__name__": metric, "instance": "e"}
    assert send(url, v1.Request(timeseries=[series(labels, (1, NOW))])).status_code == 204


def publish(url: str, _client: AgentClient, metric: str, node: str) -> None:
    """Store the points of a message as the MQTT bridge does."""
    template = template_of("{labels.node}/{entityID}/{metricID}")
    labels = {name: value for name, value in LABELS.items() if name != "node"}
    payload = json.dumps({"val": 1, "timestamp": NOW, "labels": labels}).encode()
    points = parse_message(f"{node}/e/{metric}", payload, [template], NOW).points
    body = msgspec.json.encode(PutBody(points))
    assert httpx.post(f"{url}/put", content=body).status_code == 200


@pytest.mark.parametrize("send_point", [put, write_lines, write_remotely, publish])
def test_label_with_name_of_own_label_is_kept_as_exported(
    url: str, client: AgentClient, send_point: Send
) -> None:
    metric = f"kept_{send_point.__name__}"
    send_point(url, client, metric, "a")
    [attributes] = client.read(RAW, match={"metric": metric}).table["attributes"].to_pylist()
    found = json.loads(attributes)
    assert {name: found[name] for name in KEPT} == KEPT
    assert found["entityID"] == "e"


@pytest.mark.parametrize("send_point", [put, write_lines, write_remotely, publish])
def test_series_that_differ_in_an_own_label_stay_two(
    url: str, client: AgentClient, send_point: Send
) -> None:
    metric = f"two_{send_point.__name__}"
    for node in ("a", "b"):
        send_point(url, client, metric, node)
    query = {"query": f"sum({metric})", "time": str(NOW / 1000)}
    answer = httpx.get(f"{url}/api/v1/query", params=query).json()
    assert answer["data"]["result"][0]["value"][1] == "2"


def test_group_that_equals_the_job_makes_another_series_than_the_job_alone(
    url: str, client: AgentClient
) -> None:
    grouped = Point("job_group", "h", NOW, 1.0, group="x", labels={"instance": "h", "job": "x"})
    client.put([grouped], idempotency_key="grouped")
    labels = {"__name__": "job_group", "instance": "h", "job": "x"}
    assert send(url, v1.Request(timeseries=[series(labels, (2, NOW))])).is_success
    query = {"query": 'job_group{job="x"}', "time": str(NOW / 1000)}
    answer = httpx.get(f"{url}/api/v1/query", params=query).json()
    found = {row["metric"].get("group"): row["value"][1] for row in answer["data"]["result"]}
    assert found == {"x": "1", None: "2"}


def test_job_is_the_group_of_a_point_without_group_in_each_protocol(
    url: str, client: AgentClient
) -> None:
    client.put([Point("job_as_group", "put", NOW, 1.0, labels={"job": "x"})])
    line = f"job_as_group,host=line,job=x value=1 {NOW}000000"
    assert httpx.post(f"{url}/write", content=line).is_success
    labels = {"__name__": "job_as_group", "instance": "remote", "job": "x"}
    assert send(url, v1.Request(timeseries=[series(labels, (1, NOW))])).is_success
    stored = client.get("job_as_group", group="x")[0].data
    assert {each.entity for each in stored} == {"put", "line", "remote"}
    rows = client.read(RAW, match={"metric": "job_as_group"}).table["attributes"].to_pylist()
    assert [json.loads(each)["group"] for each in rows] == ["x"] * 3


def labels_in_promql(url: str, metric: str) -> dict[str, str]:
    query = {"query": metric, "time": str(NOW / 1000)}
    [row] = httpx.get(f"{url}/api/v1/query", params=query).json()["data"]["result"]
    return {
        name: value
        for name, value in row["metric"].items()
        if name not in ("__name__", "node", "site")
    }


@pytest.mark.parametrize(
    "labels",
    [
        {"instance": "h:9100", "job": "kafka", "group": "billing", "topic": "t"},
        {"instance": "h:9100", "job": "kafka", "group": "a", "exported_group": "b"},
        {"instance": "h:9100", "job": "kafka", "exported_group": "b"},
        {"instance": "h:9100", "every_ms": "5"},
        {"job": "kafka", "instance": ""},
        {"group": "only"},
        {"rule": "without instance and job"},
    ],
    ids=str,
)
def test_promql_shows_labels_of_remote_write_as_sent(url: str, labels: dict[str, str]) -> None:
    metric = f"shown_{'_'.join(labels)}"
    assert send(
        url, v1.Request(timeseries=[series({"__name__": metric, **labels}, (1, NOW))])
    ).is_success
    assert labels_in_promql(url, metric) == {name: v for name, v in labels.items() if v}


def test_group_beside_job_is_kept(url: str, client: AgentClient) -> None:
    labels = {"__name__": "beside", "instance": "h", "job": "j", "group": "g"}
    assert send(url, v1.Request(timeseries=[series(labels, (1, NOW))])).is_success
    [attributes] = client.read(RAW, match={"metric": "beside"}).table["attributes"].to_pylist()
    found = json.loads(attributes)
    assert [found[name] for name in ("job", "group", "exported_group")] == ["j", "j", "g"]
    [stored] = client.get("beside", group="j")[0].data
    assert (stored.entity, stored.group) == ("h", "j")


def test_promql_shows_tags_of_line_protocol_as_sent(url: str) -> None:
    lines = f"tagged,host=h1,core=0 value=1 {NOW}000000\nbare,core=1 value=1 {NOW}000000"
    assert httpx.post(f"{url}/write", content=lines).is_success
    assert labels_in_promql(url, "tagged") == {"host": "h1", "core": "0"}
    assert labels_in_promql(url, "bare") == {"core": "1"}


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ('{__name__="picked", instance="h:1"}', 1),
        ('{__name__="picked", entityID=""}', 1),
        ('{__name__="picked", entityID!="put"}', 1),
        ('{__name__="picked", entityID="put"}', 1),
        ('{__name__="picked", entityID=~".*"}', 2),
        ('{__name__="picked", entityID=~".+"}', 1),
    ],
)
def test_selector_matches_labels_that_promql_shows(
    url: str, client: AgentClient, selector: str, found: int
) -> None:
    labels = {"__name__": "picked", "instance": "h:1"}
    assert send(url, v1.Request(timeseries=[series(labels, (1, NOW))])).is_success
    client.put([Point("picked", "put", NOW, 1.0)], idempotency_key="picked")
    query = {"query": selector, "time": str(NOW / 1000)}
    answer = httpx.get(f"{url}/api/v1/query", params=query).json()
    assert len(answer["data"]["result"]) == found
