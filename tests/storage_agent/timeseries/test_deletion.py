"""Deletions of points: which points are deleted and counted, and which requests are refused."""

import gc
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point, SeriesPoints
from storage_agent.series import Series
from storage_agent.settings import AgentSettings
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.deletion import cover_series
from storage_agent.timeseries.removal import PointRemover
from tests.storage_agent.conftest import ManualClock
from tests.support.agents import running_agent
from tests.support.ignite import empty

NOW = 1_795_262_400_000


@pytest.fixture(scope="module")
def url(ignite_server: IgniteServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    empty(ignite_server)
    settings = AgentSettings(
        home=tmp_path_factory.mktemp("home"),
        node="n1",
        ignite_port=ignite_server.port,
        collect_routes=False,
    )
    with running_agent(settings, ManualClock(NOW + 60_000)) as url:
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[AgentClient]:
    client = AgentClient(url)
    yield client
    client.close()


@pytest.fixture(scope="module", autouse=True)
def _stored(client: AgentClient) -> None:
    client.put(
        [
            Point("kept", entity, NOW + n, float(n), group="g")
            for entity in ("a", "b")
            for n in range(3)
        ]
    )


def delete(url: str, body: object, path: str = "/monitoring", **parameters: str) -> httpx.Response:
    return httpx.request("DELETE", f"{url}{path}", json=body, params=parameters)


@pytest.mark.parametrize(
    ("field", "hint"),
    [
        ("group", "Did you mean groupName?"),
        ("groupname", "Did you mean groupName?"),
        ("job", "Did you mean groupName?"),
        ("entityId", "Did you mean entityID?"),
        ("entity", "Did you mean entityID?"),
        ("entity_type", "Did you mean entityType?"),
        ("podname", "Did you mean podName?"),
        ("namespace", "Did you mean podNamespace?"),
        ("start", "Did you mean from?"),
        ("until", "Did you mean to?"),
        ("dry_run", "Send it in the URL: ?dry_run"),
        ("site", "Send it in the URL: ?site"),
        ("colour", "It has metricID, entityID"),
    ],
)
def test_unknown_field_is_refused_and_named(
    url: str, client: AgentClient, field: str, hint: str
) -> None:
    answer = delete(url, {"metricID": ["kept"], field: ["a"]})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["message"].startswith(f"{field}: ")
    assert error["hint"].startswith(hint)
    assert len(client.get("kept")[0].data) == 2


@pytest.mark.parametrize(
    "body",
    [
        {"metricID": ["kept"], "entityID": []},
        {"metricID": ["kept"], "entityID": None},
        {"metricID": ["kept"], "entityID": ""},
        {"metricID": ["kept"], "from": None},
        {"metricID": ["kept"], "max_stale_ms": 5},
        {"metricID": ["kept"], "from": -1},
        {"metricID": ["kept"], "from": "1e999"},
        {"metricID": ["kept"], "to": "-1e999"},
        {"metricID": ["kept"], "from": "9" * 200},
        {"metricID": ["kept"], "from": NOW + 1, "to": -1},
        [{"metricID": ["kept"]}],
    ],
    ids=str,
)
def test_body_that_may_delete_more_than_intended_is_refused(
    url: str, client: AgentClient, body: object
) -> None:
    assert delete(url, body).status_code == 400
    assert len(client.get("kept")[0].data) == 2


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/monitoring", {"metricID": ["kept"]}),
        ("/analytics", {"key": ["k"]}),
        ("/app", {"key": ["k"]}),
        ("/app/schemas/none", None),
        ("/streams/none", None),
    ],
)
def test_unknown_parameter_is_refused_and_named(url: str, path: str, body: object) -> None:
    answer = delete(url, body, path, dryrun="true")
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("dryrun: ")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/monitoring", {"metricID": ["kept"]}),
        ("/analytics", {"key": ["k"]}),
        ("/app/schemas/none", None),
        ("/streams/none", None),
    ],
)
def test_empty_site_is_refused(url: str, client: AgentClient, path: str, body: object) -> None:
    answer = delete(url, body, path, site="")
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("site: ")
    assert len(client.get("kept")[0].data) == 2


def test_unknown_field_of_records_gets_hint(url: str) -> None:
    error = delete(url, {"keys": ["k"]}, "/analytics").json()["error"]
    assert (error["message"][:5], error["hint"]) == ("keys:", "Did you mean key?")


@pytest.mark.parametrize("value", ["", "true", "1"])
def test_dry_run_counts_and_deletes_nothing(url: str, client: AgentClient, value: str) -> None:
    answer = delete(url, {"groupName": ["g"], "from": NOW + 1}, dry_run=value)
    assert answer.json() == {
        "result": "OK",
        "message": "4 points of 2 series would be deleted",
        "points": 4,
        "series_count": 2,
        "series": [{"metricID": "kept", "entityID": e, "points": 2} for e in ("a", "b")],
        "dry_run": True,
    }
    assert client.delete("kept", dry_run=True).points == 6
    assert [len(each.values) for each in client.get("kept", latest=False)[0].data] == [3, 3]


def test_answer_counts_points_of_each_series(client: AgentClient) -> None:
    points = [Point("some", f"e{n % 3}", NOW + n, 1.0) for n in range(10)]
    client.put(points)
    deleted = client.delete("some", start=NOW + 4, end=NOW + 8)
    assert (deleted.points, deleted.series_count) == (5, 3)
    assert deleted.series == [
        SeriesPoints("some", "e0", 1),
        SeriesPoints("some", "e1", 2),
        SeriesPoints("some", "e2", 2),
    ]
    assert client.delete("some").points == 5
    assert client.delete("some").points == 0


def catalogue(*series: tuple[str, str]) -> Catalogue:
    found = Catalogue()
    for metric, entity in series:
        found.describe((metric, entity), {"metricID": metric, "entityID": entity})
    return found


MANY = [("m", f"e{n}") for n in range(2000)]


@pytest.mark.parametrize(
    ("selected", "others", "covered"),
    [
        (MANY, [("o", "e1")], [(("metric",), [("m",)])]),
        (MANY, [("m", "x")], [(("entity",), 2000)]),
        (MANY, [("m", "x"), ("o", "e1")], [(("entity",), 1999), (("metric", "entity"), 1)]),
        (
            [*MANY, *((f"n{n}", "h") for n in range(5))],
            [("n1", "e1")],
            [(("metric",), 5), (("entity",), [("h",)])],
        ),
        (MANY[:2], [], [(("metric", "entity"), MANY[:2])]),
        ([], MANY, []),
    ],
)
def test_many_series_are_covered_by_few_keys(
    selected: list[tuple[str, str]], others: list[tuple[str, str]], covered: list[Any]
) -> None:
    stored = catalogue(*selected, *others)
    everything = stored.select()
    chosen = set(selected)
    found = cover_series(
        everything.where(np.array([each in chosen for each in everything], np.bool_)), stored
    )
    assert [
        (columns, keys if isinstance(expected, list) else len(keys))
        for (columns, keys), (_, expected) in zip(found, covered, strict=True)
    ] == covered
    for columns, keys in found:
        at = [("metric", "entity").index(column) for column in columns]
        assert not {tuple(each[n] for n in at) for each in others} & set(keys)


def test_deletion_of_whole_metric_counts_no_entities(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = catalogue(*MANY, ("o", "e1"))
    counted: list[str] = []
    monkeypatch.setattr(stored, "count_of_entity", counted.append)
    assert cover_series(stored.select(["m"]), stored) == [(("metric",), [("m",)])]
    assert counted == []


def test_deletion_pauses_full_collections(
    client: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    thresholds = []
    delete = PointRemover.delete

    async def observed(*arguments: Any) -> list[Series]:
        thresholds.append(gc.get_threshold())
        return await delete(*arguments)

    monkeypatch.setattr(PointRemover, "delete", observed)
    client.put([Point("brief", "e", NOW, 1.0)])
    assert client.delete("brief").points == 1
    assert [full for _, _, full in thresholds] > [gc.get_threshold()[2]]


def test_metric_of_200_000_series_is_deleted(url: str, client: AgentClient) -> None:
    total, size = 200_000, 20_000
    for begin in range(0, total, size):
        points = [Point("wide", f"entity-number-{n}", NOW, 1.0) for n in range(begin, begin + size)]
        client.put(points)
    client.put([Point("narrow", "entity-number-7", NOW, 1.0)])
    answer = httpx.request(
        "DELETE", f"{url}/monitoring", json={"metricID": ["wide"]}, timeout=120
    ).json()
    assert (answer["points"], answer["series_count"]) == (total, total)
    assert len(answer["series"]) == 1000
    assert client.list_series("wide") == []
    assert client.query("sum", "wide", start=0).value is None
    assert client.query("sum", "narrow").value == 1
