"""Answers as line-delimited JSON and as Arrow: selection by Accept, rows, marks, interruptions."""

import json
import math
from typing import Any

import httpx
import pyarrow as pa
import pytest

from mistbow.client import AgentClient, Point
from mistbow.client.agent_model import POINT_SCHEMA, Pod
from mistbow.errors import NotAcceptableError, UnavailableError
from mistbow.streams.json_numbers import STALE, is_stale
from storage_agent.http.accept import ARROW, JSON, LINES, ROW_TYPES, negotiate
from storage_agent.timeseries import row_answers
from storage_agent.timeseries.point_pages import PageReader
from storage_agent.timeseries.series_pages import SeriesPage
from tests.storage_agent.conftest import ManualClock

EVERYTHING = {"latest": False}


def lines(response: httpx.Response) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return (rows, end mark) of an answer."""
    assert response.status_code == 200, response.text
    assert response.headers["Content-Type"] == LINES
    *rows, last = [json.loads(line) for line in response.text.splitlines()]
    return rows, last["end"]


def table(response: httpx.Response) -> tuple[pa.Table, dict[str, Any]]:
    assert response.status_code == 200, response.text
    assert response.headers["Content-Type"] == ARROW
    batches, mark = [], {}
    reader = pa.ipc.open_stream(response.content)
    while True:
        try:
            batch, mark = reader.read_next_batch_with_custom_metadata()
        except StopIteration:
            break
        batches.append(batch)
    return pa.Table.from_batches(batches, reader.schema), json.loads(mark["end"])


def post(url: str, path: str, body: dict[str, Any], accept: str) -> httpx.Response:
    return httpx.post(f"{url}{path}", json=body, headers={"Accept": accept})


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        (None, JSON),
        ("*/*", JSON),
        ("", JSON),
        ("application/json", JSON),
        ("application/json; charset=UTF-8", JSON),
        ("application/x-ndjson;charset=utf-8", LINES),
        ("application/*", JSON),
        ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", JSON),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", JSON),
        ("application/x-ndjson", LINES),
        ("application/json;q=0.5, application/x-ndjson;q=0.7", LINES),
        ("application/json;q=0, */*", LINES),
        ("application/x-ndjson;q=0.5, application/vnd.apache.arrow.stream", ARROW),
        ("Application/X-NDJSON", LINES),
        ("*", JSON),
        ("application/x-ndjson; version=1;q=0.5, */*;q=0.1", LINES),
        ('application/x-ndjson; profile="a, b;q=0"', LINES),
        ("application/x-ndjson;Q=.5, application/json;q=.1", LINES),
        ("application/json;q=abc", JSON),
    ],
)
def test_negotiate_selects_the_best_media_type(accept: str | None, chosen: str) -> None:
    assert negotiate(None if accept is None else accept.encode(), ROW_TYPES) == chosen


@pytest.mark.parametrize("accept", ["text/csv", "application/json;q=0", "image/*, text/html;q=.5"])
def test_negotiate_rejects_other_media_types(accept: str) -> None:
    with pytest.raises(NotAcceptableError):
        negotiate(accept.encode(), ROW_TYPES)


@pytest.mark.parametrize("path", ["/get", "/list", "/query", "/sql"])
def test_request_that_accepts_no_offered_type_is_answered_406(url: str, path: str) -> None:
    body = {"query": "SELECT 1"} if path == "/sql" else {"agg": "sum"}
    response = post(url, path, body, "text/csv")
    assert response.status_code == 406
    error = response.json()["error"]
    assert (error["code"], JSON in error["hint"]) == ("not_acceptable", True)


def test_get_answers_points_as_rows(url: str, client: AgentClient, clock: ManualClock) -> None:
    now = clock.now
    values = [1.5, math.nan, math.inf, STALE]
    client.put([Point("m", "e", now + at, value) for at, value in enumerate(values)])
    rows, end = lines(post(url, "/get", EVERYTHING, LINES))
    assert rows == [
        {"node": "n1", "metric": "m", "entity": "e", "ts": now + at, "value": value}
        for at, value in enumerate([1.5, "NaN", "+Inf", "stale"])
    ]
    assert end == {"rows": 4}
    points, end = table(post(url, "/get", EVERYTHING, ARROW))
    assert points.schema == POINT_SCHEMA
    assert points["ts"].to_pylist() == [now, now + 1, now + 2, now + 3]
    found = points["value"].to_pylist()
    assert (found[0], math.isnan(found[1]), found[2], is_stale(found[3])) == (
        1.5,
        True,
        math.inf,
        True,
    )
    assert end == {"rows": 4}
    same = client.get_table("m", latest=False)
    assert (same.schema, same["ts"]) == (points.schema, points["ts"])


def test_list_answers_series_as_rows(url: str, client: AgentClient, clock: ManualClock) -> None:
    point = Point("m", "e", clock.now, 1.0, units="V", max_val=9, pod=Pod("u", "web"))
    client.put([point, Point("m", "f", clock.now, 1.0)])
    rows, end = lines(post(url, "/list", {}, LINES))
    described = {"units": "V", "max_val": 9.0, "pod_uuid": "u", "pod_name": "web"}
    assert rows == [
        {"node": "n1", "metric": "m", "entity": "e", **described},
        {"node": "n1", "metric": "m", "entity": "f"},
    ]
    assert end == {"rows": 2}
    series, _ = table(post(url, "/list", {"fields": ["units", "pod"]}, ARROW))
    names = ["node", "metric", "entity", "units", "pod_uuid", "pod_name", "pod_namespace"]
    assert series.column_names == names
    assert series["units"].to_pylist() == ["V", None]
    nobody, end = lines(post(url, "/list", {"nodes": ["z"]}, LINES))
    assert (nobody, end["missing"][0]["node"]) == ([], "z")


def test_sql_answers_rows_in_the_accepted_type(
    url: str, client: AgentClient, clock: ManualClock
) -> None:
    body = {"query": "SELECT 1 AS a, NULL AS b, 0.5::DOUBLE AS c"}
    rows, end = lines(post(url, "/sql", body, LINES))
    assert (rows, end) == ([{"a": 1, "c": 0.5}], {"rows": 1})
    assert pa.ipc.open_stream(post(url, "/sql", body, ARROW).content).read_all().num_rows == 1
    assert post(url, "/sql", body, "*/*").json()["rows"] == [[1, None, 0.5]]
    # Clients of earlier versions send ``format``; it takes precedence over Accept.
    arrow = post(url, "/sql", {**body, "format": "arrow"}, JSON)
    assert arrow.headers["Content-Type"] == ARROW


@pytest.mark.parametrize("path", ["/get", "/get?site=n1"])
def test_rows_of_all_pages_are_one_answer(
    url: str,
    client: AgentClient,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
) -> None:
    monkeypatch.setattr(row_answers, "_PAGE_ROWS", 7)
    client.put([Point("m", f"e{at % 3}", clock.now - at, float(at)) for at in range(50)])
    response = post(url, path, EVERYTHING, LINES)
    assert response.headers["Transfer-Encoding"] == "chunked"
    rows, end = lines(response)
    keys = [(row["entity"], row["ts"]) for row in rows]
    assert (len(keys), keys, end) == (50, sorted(keys), {"rows": 50})
    first, end = lines(post(url, path, {**EVERYTHING, "limit": 20}, LINES))
    body = {**EVERYTHING, "limit": 40, "cursor": end["next"]}
    second, end = lines(post(url, path, body, LINES))
    assert (first + second, end) == (rows, {"rows": 30})


def test_answer_of_more_points_than_json_allows_is_streamed(
    url: str, client: AgentClient, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage_agent.timeseries.history.MAX_POINTS", 100)
    client.put([Point("m", "e", clock.now - at, float(at)) for at in range(500)])
    assert post(url, "/get", EVERYTHING, JSON).status_code == 413
    assert lines(post(url, "/get", EVERYTHING, LINES))[1] == {"rows": 500}


def test_empty_body_selects_nothing(url: str, client: AgentClient, clock: ManualClock) -> None:
    client.put([Point("m", "e", clock.now, 1.0)])
    for path in ("/get", "/list"):
        for accept, read in ((LINES, lines), (ARROW, table)):
            response = httpx.post(f"{url}{path}", headers={"Accept": accept})
            assert read(response)[1] == {"rows": 0}


@pytest.fixture
def fault() -> Exception:
    return UnavailableError("Ignite is away")


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch, fault: Exception) -> None:
    """Let the second page of each answer fail."""
    read = PageReader.read

    async def failing(reader: PageReader, after: Any, limit: int) -> Any:
        if after is not None:
            raise fault
        return await read(reader, after, limit)

    monkeypatch.setattr(PageReader, "read", failing)
    monkeypatch.setattr(row_answers, "_PAGE_ROWS", 10)


def receive_interrupted(url: str, accept: str) -> bytes:
    """Return what an agent sends of an answer before it closes the connection."""
    parts: list[bytes] = []
    with httpx.stream("POST", f"{url}/get", json=EVERYTHING, headers={"Accept": accept}) as answer:
        assert answer.status_code == 200
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
            parts.extend(answer.iter_bytes())
    return b"".join(parts)


@pytest.mark.usefixtures("interrupted")
@pytest.mark.parametrize("accept", [LINES, ARROW])
def test_interrupted_answer_ends_with_the_error_and_an_incomplete_body(
    url: str, client: AgentClient, clock: ManualClock, accept: str
) -> None:
    client.put([Point("m", "e", clock.now - at, float(at)) for at in range(50)])
    received = receive_interrupted(url, accept)
    if accept == LINES:
        *rows, last = received.decode().splitlines()
        assert len(rows) == 10
        assert json.loads(last) == {"error": {"code": "unavailable", "message": "Ignite is away"}}
        return
    reader = pa.ipc.open_stream(received)
    assert reader.read_next_batch().num_rows == 10
    _, mark = reader.read_next_batch_with_custom_metadata()
    assert json.loads(mark["error"])["code"] == "unavailable"


@pytest.mark.usefixtures("interrupted")
@pytest.mark.parametrize("fault", [RuntimeError("a secret that must not be shown")])
def test_answer_that_an_unexpected_error_interrupts_ends_with_an_error_without_its_text(
    url: str, client: AgentClient, clock: ManualClock
) -> None:
    client.put([Point("m", "e", clock.now - at, float(at)) for at in range(50)])
    received = receive_interrupted(url, LINES)
    *rows, last = received.decode().splitlines()
    assert len(rows) == 10
    assert json.loads(last)["error"]["code"] == "internal"
    assert "secret" not in last


@pytest.mark.usefixtures("interrupted")
def test_get_table_raises_on_interrupted_answer(
    url: str, client: AgentClient, clock: ManualClock
) -> None:
    client.put([Point("m", "e", clock.now - at, float(at)) for at in range(50)])
    with pytest.raises(UnavailableError):
        client.get_table("m", latest=False)


def test_error_before_the_first_row_has_a_status(
    url: str, client: AgentClient, clock: ManualClock
) -> None:
    response = post(url, "/get", {"from": 5, "to": 1}, LINES)
    assert (response.status_code, response.headers["Content-Type"]) == (400, JSON)


def test_client_iterates_pages(client: AgentClient, clock: ManualClock) -> None:
    client.put([Point("m", f"e{at % 5}", clock.now - at, float(at)) for at in range(50)])
    series = [each["entityID"] for each in client.iterate_series("m", limit=2)]
    assert series == [f"e{number}" for number in range(5)]
    read = list(client.iterate_points("m", latest=False, limit=8))
    values = [point.value for node in read for each in node.data for point in each.values]
    assert (len(read), sorted(values)) == (7, [float(at) for at in range(50)])


def test_series_are_converted_to_rows_in_parts() -> None:
    series = [("m", f"e{number}", b"{}") for number in range(12_000)]
    batches = list(SeriesPage([("n", series)], frozenset(), None).to_rows())
    assert [batch.num_rows for batch in batches] == [5000, 5000, 2000]
    entities = [entity for batch in batches for entity in batch["entity"].to_pylist()]
    assert entities == [entity for _, entity, _ in series]
