"""Requests as clients of RAINBOW's storage send them, and the answers that these clients read.

If the variable ``RAINBOW_URL`` is set, the same requests are also sent to the RAINBOW storage at
this URL. That storage must be empty, and run with ``CLUSTER_HEAD=true`` and ``APP_CACHE=true``; its
``HOSTNAME`` must name an address that is not of loopback.
"""

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from ignite_server.server import IgniteServer
from storage_agent.settings import AgentSettings
from tests.storage_agent.conftest import ManualClock
from tests.support.agents import running_agent
from tests.support.ignite import empty

NOW = 1_611_318_068_003
RAINBOW_URL = os.environ.get("RAINBOW_URL")


@dataclass(frozen=True, slots=True)
class Storage:
    """A storage with RAINBOW's interface."""

    url: str
    is_mistbow: bool

    def ask(self, path: str, body: Any, method: str = "POST") -> httpx.Response:
        content = {"content": body} if isinstance(body, str) else {"json": body}
        return httpx.request(method, f"{self.url}{path}", timeout=60, **content)

    def answer(self, path: str, body: Any, method: str = "POST") -> Any:
        response = self.ask(path, body, method)
        assert response.status_code == 200, response.text
        return response.json()

    def values(self, **body: Any) -> list[tuple[int, float]]:
        """Return the times and values of the series that a /get finds."""
        return [
            (value["timestamp"], value["val"])
            for node in self.answer("/get", body)["monitoring"]
            for series in node["data"]
            for value in series["values"]
        ]


@pytest.fixture(scope="module")
def mistbow(ignite_server: IgniteServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    empty(ignite_server)
    settings = AgentSettings(
        home=tmp_path_factory.mktemp("home"),
        node="server-1",
        ignite_port=ignite_server.port,
        collect_routes=False,
        duplicates="replace",
    )
    with running_agent(settings, ManualClock(NOW + 60_000)) as url:
        yield url


@pytest.fixture(
    scope="module",
    params=[
        "mistbow",
        pytest.param(
            "rainbow", marks=pytest.mark.skipif(RAINBOW_URL is None, reason="no RAINBOW_URL")
        ),
    ],
)
def storage(request: pytest.FixtureRequest, mistbow: str) -> Storage:
    if request.param == "mistbow":
        return Storage(mistbow, is_mistbow=True)
    assert RAINBOW_URL is not None
    return Storage(RAINBOW_URL, is_mistbow=False)


@pytest.fixture
def metric() -> str:
    return f"m-{uuid.uuid4().hex}"


METADATA: dict[str, Any] = {
    "entityType": "lamp",
    "name": "power",
    "units": "watt",
    "desc": "drawn power",
    "group": "street",
    "minVal": 0,
    "maxVal": 40,
    "higherIsBetter": False,
    "pod": {"uuid": "p-1", "name": "ctl", "namespace": "lights"},
    "container": {"id": "c-1", "name": "driver"},
}


def point(metric: str, **fields: Any) -> dict[str, Any]:
    """Return a point with all metadata: RAINBOW reads no series with incomplete metadata."""
    own = {"metricID": metric, "entityID": "e1", "val": 1.5, "timestamp": NOW}
    return {**METADATA, **own, **fields}


def test_point_with_all_fields_is_returned_with_them(storage: Storage, metric: str) -> None:
    sent = {**METADATA, "metricID": metric, "entityID": "lamp-4"}
    stored = storage.answer("/put", {"monitoring": [{**sent, "val": 12, "timestamp": NOW}]})
    assert stored["result"] == "OK"
    assert isinstance(stored["message"], str)
    filters = {
        "metricID": [metric],
        "entityID": ["lamp-4"],
        "entityType": ["lamp"],
        "groupName": ["street"],
        "podName": ["ctl"],
        "podNamespace": ["lights"],
        "containerName": ["driver"],
        "from": NOW - 1,
        "to": NOW + 1,
        "nodes": [],
    }
    [node] = storage.answer("/get", filters)["monitoring"]
    [found] = node["data"]
    assert found.pop("values") == [{"timestamp": NOW, "val": 12.0}]
    assert found == sent
    for name in filters.keys() - {"from", "to", "nodes", "metricID"}:
        assert storage.values(metricID=[metric], **{name: ["other"]}) == []
    assert storage.answer("/query", {**filters, "agg": "sum"}) == {"value": 12.0}


def test_list_returns_named_fields(storage: Storage, metric: str) -> None:
    storage.answer("/put", {"monitoring": [point(metric)]})
    fields = ["groupless", "entityType", "containerName", "podName", "desc", "podUUID"]
    body = {"metricID": [metric], "nodes": [], "fields": [*fields, "higherIsBetter"]}
    [item] = storage.answer("/list", body)["metric"]
    assert item.pop("node")
    assert item == {
        "metricID": metric,
        "entityID": "e1",
        "entityType": "lamp",
        "desc": "drawn power",
        "higherIsBetter": False,
        "pod": {"podName": "ctl", "podUUID": "p-1"},
        "container": {"containerName": "driver"},
    }


def test_numbers_may_be_texts_and_ids_numbers(storage: Storage) -> None:
    number = uuid.uuid4().int % 10**12
    sent = {
        **METADATA,
        "entityID": 17,
        "metricID": number,
        "val": "6.5",
        "timestamp": str(NOW),
        "minVal": "-1",
        "maxVal": "1e2",
        "higherIsBetter": "true",
        "units": 5,
        "pod": {**METADATA["pod"], "uuid": 9},
    }
    assert storage.answer("/put", {"monitoring": [sent]})["result"] == "OK"
    body = {"metricID": [number], "entityID": [17], "from": str(NOW), "to": str(NOW)}
    [node] = storage.answer("/get", body)["monitoring"]
    [found] = node["data"]
    assert found["values"] == [{"timestamp": NOW, "val": 6.5}]
    assert (found["metricID"], found["entityID"], found["units"]) == (str(number), "17", "5")
    assert (found["minVal"], found["maxVal"], found["higherIsBetter"]) == (-1, 100, True)
    assert found["pod"]["uuid"] == "9"


def test_negative_times_are_omitted_times(storage: Storage, metric: str) -> None:
    points = [point(metric, val=n, timestamp=NOW + n) for n in range(3)]
    for each in points:
        storage.answer("/put", {"monitoring": [each]})
    latest = [(NOW + 2, 2.0)]
    assert storage.values(metricID=[metric]) == latest
    assert storage.values(metricID=[metric], **{"from": -1}) == latest
    assert storage.values(metricID=[metric], **{"from": -1, "to": NOW}) == latest
    assert storage.values(metricID=[metric], **{"from": NOW + 1, "to": -1}) == [
        (NOW + 1, 1.0),
        (NOW + 2, 2.0),
    ]
    body = {"metricID": [metric], "from": -1, "agg": "max"}
    assert storage.answer("/query", body) == {"value": 2.0}


def test_point_of_the_same_time_replaces(storage: Storage, metric: str) -> None:
    for value in (1.0, 5.0, 3.0):
        storage.answer("/put", {"monitoring": [point(metric, val=value)]})
    storage.answer("/put", {"monitoring": [point(metric, val=4, timestamp=NOW + 1)]})
    assert storage.values(metricID=[metric], **{"from": 0}) == [(NOW, 3.0), (NOW + 1, 4.0)]
    for agg, value in (("sum", 7.0), ("max", 4.0), ("min", 3.0), ("avg", 3.5)):
        body = {"metricID": [metric], "from": 0, "agg": agg}
        assert storage.answer("/query", body) == {"value": value}


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("/get", "monitoring"),
        ("/list", "metric"),
        ("/analytics/get", "analytics"),
        ("/app/get", "application"),
    ],
)
def test_empty_body_selects_nothing(storage: Storage, path: str, word: str) -> None:
    assert storage.answer(path, "") == {word: []}


@pytest.mark.parametrize(
    ("path", "method", "body"),
    [
        ("/put", "POST", ""),
        ("/put", "POST", {"monitoring": [{"entityID": "e"}]}),
        ("/query", "POST", ""),
        ("/query", "POST", {"agg": "median"}),
        ("/monitoring", "DELETE", ""),
        ("/monitoring", "DELETE", {}),
        ("/analytics", "DELETE", {}),
        ("/analytics/put", "POST", {"records": []}),
    ],
)
def test_error_has_result_and_message(storage: Storage, path: str, method: str, body: Any) -> None:
    response = storage.ask(path, body, method)
    answer = response.json()
    assert answer["result"] == "ERROR"
    assert isinstance(answer["message"], str)
    if storage.is_mistbow:
        assert response.status_code == 400
        assert answer["error"]["message"] == answer["message"]


def test_deletion_by_filters_removes_series(storage: Storage, metric: str) -> None:
    two = [point(metric, entityID=entity) for entity in ("e1", "e2")]
    storage.answer("/put", {"monitoring": two})
    body = {"metricID": [metric], "entityID": ["e1"], "groupName": ["street"]}
    assert storage.answer("/monitoring", body, "DELETE")["result"] == "OK"
    assert len(storage.values(metricID=[metric])) == 1
    assert storage.values(metricID=[metric], entityID=["e1"], **{"from": 0}) == []


@pytest.mark.parametrize(("path", "word"), [("/analytics", "analytics"), ("/app", "application")])
def test_records_are_stored_read_and_deleted(
    storage: Storage, metric: str, path: str, word: str
) -> None:
    items = [{"key": metric, "val": n + 0.5, "timestamp": NOW + n} for n in range(3)]
    assert storage.answer(f"{path}/put", {word: items})["result"] == "OK"

    def values(**body: Any) -> list[tuple[int, float]]:
        found = storage.answer(f"{path}/get", {"key": [metric], **body})[word]
        return [(each["timestamp"], each["val"]) for key in found for each in key["values"]]

    assert values() == values(**{"from": -1}) == [(NOW + 2, 2.5)]
    assert values(**{"from": NOW, "to": str(NOW + 1)}) == [(NOW, 0.5), (NOW + 1, 1.5)]
    assert storage.answer(path, {"key": [metric]}, "DELETE")["result"] == "OK"
    assert values(**{"from": 0}) == []


def test_nodes_have_names_and_a_head(storage: Storage) -> None:
    nodes = storage.answer("/nodes", "")["nodes"]
    assert [each["cluster_head"] for each in nodes] == [True]
    assert all(isinstance(each["hostname"], str) for each in nodes)


# The requests of the section "REST API examples" in the README of RAINBOW's storage, with own
# values. Each test has one request, and what the README says about it.

README_FILTERS: dict[str, Any] = {
    "entityID": ["e1"],
    "entityType": ["lamp"],
    "groupName": ["street"],
    "podName": ["ctl"],
    "podNamespace": ["lights"],
    "containerName": ["driver"],
}


@pytest.mark.parametrize("field", ["entityID", "metricID", "val", "timestamp"])
def test_readme_put_needs_its_mandatory_fields(storage: Storage, metric: str, field: str) -> None:
    sent = point(metric)
    del sent[field]
    answer = storage.ask("/put", {"monitoring": [sent]}).json()
    assert answer["result"] == "ERROR"
    assert storage.values(metricID=[metric]) == []


def test_readme_put_needs_no_other_field(storage: Storage, metric: str) -> None:
    sent = {"metricID": metric, "entityID": "e1", "val": 2, "timestamp": NOW}
    assert storage.answer("/put", {"monitoring": [sent]})["result"] == "OK"
    if storage.is_mistbow:  # RAINBOW stores such a point, but does not return it
        assert storage.values(metricID=[metric]) == [(NOW, 2.0)]


def test_readme_get_takes_filters_in_any_combination(storage: Storage, metric: str) -> None:
    storage.answer("/put", {"monitoring": [point(metric)]})
    names = list(README_FILTERS)
    for chosen in range(2 ** len(names)):
        body = {name: README_FILTERS[name] for at, name in enumerate(names) if chosen >> at & 1}
        assert storage.values(metricID=[metric], **body) == [(NOW, 1.5)], body
    for name in names:
        body = {**README_FILTERS, name: ["none"]}
        assert storage.values(metricID=[metric], **body) == [], body


def test_readme_get_without_times_returns_the_latest_value_only(
    storage: Storage, metric: str
) -> None:
    for n in range(3):
        storage.answer("/put", {"monitoring": [point(metric, val=n, timestamp=NOW + n)]})
    assert storage.values(metricID=[metric]) == [(NOW + 2, 2.0)]
    times = {"from": NOW, "to": NOW + 1}
    assert storage.values(metricID=[metric], **times) == [(NOW, 0.0), (NOW + 1, 1.0)]


def test_readme_get_reads_the_named_nodes_or_all(storage: Storage, metric: str) -> None:
    storage.answer("/put", {"monitoring": [point(metric)]})
    names = [each["hostname"] for each in storage.answer("/nodes", "")["nodes"]]
    for nodes in (names, []):
        answer = storage.answer("/get", {"metricID": [metric], "nodes": nodes})
        assert [each["node"] for each in answer["monitoring"]] == names
        assert storage.values(metricID=[metric], nodes=nodes) == [(NOW, 1.5)]


@pytest.mark.parametrize(
    ("agg", "value"), [("sum", 7.0), ("max", 4.0), ("min", 1.0), ("avg", 7.0 / 3)]
)
def test_readme_query_takes_the_body_of_a_get(
    storage: Storage, metric: str, agg: str, value: float
) -> None:
    for n, val in enumerate((1, 2, 4)):
        storage.answer("/put", {"monitoring": [point(metric, val=val, timestamp=NOW + n)]})
    body = {**README_FILTERS, "metricID": [metric], "from": NOW, "to": NOW + 2, "nodes": []}
    assert storage.answer("/query", {**body, "agg": agg}) == {"value": pytest.approx(value)}


def test_readme_list_takes_the_filters_and_nodes_of_a_get(storage: Storage, metric: str) -> None:
    storage.answer("/put", {"monitoring": [point(metric), point(metric, entityID="e2")]})
    [node] = [each["hostname"] for each in storage.answer("/nodes", "")["nodes"]]
    body = {**README_FILTERS, "metricID": [metric], "nodes": [node], "fields": ["units", "none"]}
    assert storage.answer("/list", body) == {
        "metric": [{"node": node, "metricID": metric, "entityID": "e1", "units": "watt"}]
    }
    listed = storage.answer("/list", {"metricID": [metric], "nodes": []})["metric"]
    assert sorted(each["entityID"] for each in listed) == ["e1", "e2"]


RECORDS = pytest.mark.parametrize(
    ("path", "word"), [("/analytics", "analytics"), ("/app", "application")]
)


@RECORDS
@pytest.mark.parametrize("field", ["key", "val", "timestamp"])
def test_readme_record_needs_all_three_fields(
    storage: Storage, metric: str, path: str, word: str, field: str
) -> None:
    sent = {"key": metric, "val": 3, "timestamp": NOW}
    del sent[field]
    response = storage.ask(f"{path}/put", {word: [sent]})
    if storage.is_mistbow:  # RAINBOW answers OK, and stores nothing
        assert (response.status_code, response.json()["result"]) == (400, "ERROR")
    assert storage.answer(f"{path}/get", {"key": [metric], "from": 0})[word] == []


@RECORDS
def test_readme_records_are_read_by_optional_keys_and_times(
    storage: Storage, metric: str, path: str, word: str
) -> None:
    sent = [{"key": metric, "val": n, "timestamp": NOW + n} for n in range(3)]
    assert storage.answer(f"{path}/put", {word: sent})["result"] == "OK"
    values = [{"timestamp": NOW + n, "val": float(n)} for n in range(3)]

    def found(**body: Any) -> list[Any]:
        answer = storage.answer(f"{path}/get", body)
        return [each["values"] for each in answer[word] if each["key"] == metric]

    assert found() == found(key=[metric]) == [values[2:]]
    assert found(**{"from": NOW}) == [values]
    assert found(key=[metric], **{"from": NOW + 1, "to": NOW + 1}) == [values[1:2]]


@RECORDS
def test_readme_value_of_a_record_may_be_a_text(
    storage: Storage, metric: str, path: str, word: str
) -> None:
    sent = {"key": metric, "val": "on", "timestamp": NOW}
    answer = storage.ask(f"{path}/put", {word: [sent]}).json()
    if storage.is_mistbow:  # RAINBOW refuses it, against its README
        assert answer["result"] == "OK"
        [record] = storage.answer(f"{path}/get", {"key": [metric]})[word]
        assert record["values"] == [{"timestamp": NOW, "val": "on"}]
