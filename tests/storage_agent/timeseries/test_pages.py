"""Pages of /get and /list at one agent: their order, their cursors, and concurrent changes."""

from collections.abc import Collection, Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mistbow.client import AgentClient, Point
from mistbow.errors import InvalidRequestError
from storage_agent.http.cursors import PageKey, decode_cursor, encode_cursor
from storage_agent.http.points import PagedBody
from storage_agent.series import series_of
from storage_agent.timeseries import point_pages
from storage_agent.timeseries.grouped_points import SeriesSlice
from storage_agent.timeseries.history import History
from storage_agent.timeseries.point_pages import cut_series
from tests.storage_agent.conftest import ManualClock

Row = tuple[str, str, int, float]
EVERYTHING = {"latest": False}


def post(url: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    response = httpx.post(f"{url}{path}", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def pages(url: str, path: str, body: dict[str, Any], limit: int) -> Iterator[dict[str, Any]]:
    """Yield the pages of an answer."""
    page = post(url, path, {**body, "limit": limit})
    yield page
    while page["next"] is not None:
        page = post(url, path, {**body, "limit": limit, "cursor": page["next"]})
        yield page


def rows(answer: dict[str, Any]) -> list[Row]:
    return [
        (series["metricID"], series["entityID"], each["timestamp"], each["val"])
        for node in answer["monitoring"]
        for series in node["data"]
        for each in series["values"]
    ]


def entities(answer: dict[str, Any]) -> list[str]:
    return [each["entityID"] for each in answer["metric"]]


def put_grid(client: AgentClient, now: int, series: int = 12, points: int = 7) -> None:
    """Store points of some series, whose entities are not sent in order."""
    numbers = sorted(range(series), key=lambda each: each * 7 % series)
    client.put(
        [
            Point("m", f"e{number:02}", now - 1000 * at, float(number), units="V")
            for at in range(points)
            for number in numbers
        ]
    )


@pytest.mark.parametrize("limit", [1, 5, 12, 100])
@pytest.mark.parametrize("body", [{}, EVERYTHING, {"from": 1, "entityID": ["e03", "e01"]}])
def test_pages_of_get_have_each_point_once_in_order(
    url: str, client: AgentClient, clock: ManualClock, limit: int, body: dict[str, Any]
) -> None:
    put_grid(client, clock.now)
    whole = rows(post(url, "/get", body))
    read = list(pages(url, "/get", body, limit))
    assert [row for page in read for row in rows(page)] == sorted(whole)
    assert all(len(rows(page)) <= limit for page in read)
    assert read[0]["monitoring"][0]["data"][0]["units"] == "V"


@pytest.mark.parametrize("limit", [1, 5, 12, 100])
def test_pages_of_list_have_each_series_once_in_order(
    url: str, client: AgentClient, clock: ManualClock, limit: int
) -> None:
    put_grid(client, clock.now)
    body = {"fields": ["units"], "nodes": []}
    whole = post(url, "/list", body)["metric"]
    read = list(pages(url, "/list", body, limit))
    found = [item for page in read for item in page["metric"]]
    assert found == sorted(whole, key=lambda item: str(item["entityID"]))
    assert all(len(page["metric"]) <= limit for page in read)


def test_answers_without_limit_have_no_cursor(
    url: str, client: AgentClient, clock: ManualClock
) -> None:
    put_grid(client, clock.now)
    for path in ("/get", "/list"):
        assert "next" not in post(url, path, {})


def test_pages_neither_repeat_nor_skip_while_others_are_stored_and_deleted(
    url: str, client: AgentClient, clock: ManualClock
) -> None:
    put_grid(client, clock.now)
    stable = {row for row in rows(post(url, "/get", EVERYTHING)) if row[1] not in ("e01", "e05")}
    found: list[Row] = []
    for number, page in enumerate(pages(url, "/get", EVERYTHING, 9)):
        found += rows(page)
        client.put([Point("m", f"e{n:02}-", clock.now - number, 0.5) for n in range(12)])
        if number == 2:
            client.delete(entity="e01")  # its points were read
            client.delete(entity="e05")  # its points were not read yet
    assert len(found) == len(set(found))
    assert stable <= set(found)
    assert not [row for row in found if row[1] == "e05"]


def test_pages_of_list_continue_after_a_deleted_series(
    url: str, client: AgentClient, clock: ManualClock
) -> None:
    put_grid(client, clock.now)
    first = post(url, "/list", {"limit": 3})
    assert entities(first) == ["e00", "e01", "e02"]
    client.delete(entity="e02")
    client.put([Point("m", "e015", clock.now, 1.0), Point("m", "e035", clock.now, 1.0)])
    second = post(url, "/list", {"limit": 3, "cursor": first["next"]})
    assert entities(second) == ["e03", "e035", "e04"]


def test_page_contains_all_points_of_equal_times(
    url: str, client: AgentClient, clock: ManualClock
) -> None:
    for value in (1.0, 2.0, 3.0):
        client.put([Point("m", "e", clock.now, value), Point("m", "e", clock.now + 1, value)])
    read = [[row[3] for row in rows(page)] for page in pages(url, "/get", EVERYTHING, 2)]
    assert [values for values in read if values] == [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]


def test_page_of_long_series_drops_points_beyond_it(
    url: str, client: AgentClient, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(point_pages, "_SLACK_POINTS", 10)
    monkeypatch.setattr(point_pages, "_FIRST_SPAN_MS", 1)
    client.put([Point("m", "a", clock.now - 30 * at, float(at)) for at in range(500)])
    client.put([Point("m", f"b{at % 9}", clock.now - at, float(at)) for at in range(500)])
    whole = sorted(rows(post(url, "/get", EVERYTHING)))
    assert [row for page in pages(url, "/get", EVERYTHING, 70) for row in rows(page)] == whole


@pytest.mark.parametrize("limit", [300, 5000, 100_000])
def test_page_of_many_series_takes_few_passes_over_the_stored_points(
    url: str,
    client: AgentClient,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
) -> None:
    client.put([Point("m", f"e{number:04}", clock.now, float(number)) for number in range(5000)])
    read, begun = History.batches, []

    def counting(history: History, series: Collection[Any], *times: Any, **options: Any) -> Any:
        begun.append(len(series))
        return read(history, series, *times, **options)

    monkeypatch.setattr(History, "batches", counting)
    found = rows(post(url, "/get", {**EVERYTHING, "limit": limit}))
    assert [row[3] for row in found] == list(range(min(limit, 5000)))
    # The first series is read alone, in growing ranges of time.
    assert len([count for count in begun if count > 1]) == 1


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("/get", {"metricID": ["m"], "from": 5}),
        ("/list", {}),
        ("/get", {"metricID": ["n"]}),
        ("/get", {"nodes": []}),
    ],
)
def test_cursor_of_another_request_is_rejected(
    url: str, client: AgentClient, clock: ManualClock, path: str, change: dict[str, Any]
) -> None:
    put_grid(client, clock.now)
    body = {"metricID": ["m"], "limit": 2}
    cursor = post(url, "/get", body)["next"]
    assert post(url, "/get", {**body, "limit": 3, "cursor": cursor})["next"]
    response = httpx.post(f"{url}{path}", json={**body, **change, "cursor": cursor})
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["message"] == "cursor: the cursor belongs to another request"
    assert "`next` of the previous answer" in error["hint"]


def test_cursor_without_limit_is_rejected(
    url: str, client: AgentClient, clock: ManualClock
) -> None:
    put_grid(client, clock.now)
    for path in ("/get", "/list"):
        cursor = post(url, path, {"limit": 1})["next"]
        response = httpx.post(f"{url}{path}", json={"cursor": cursor})
        assert response.status_code == 400
        assert "limit" in response.json()["error"]["hint"]


@pytest.mark.parametrize("limit", [0, -1, 100_001, "many"])
def test_limit_beyond_its_bounds_is_rejected(url: str, limit: Any) -> None:
    response = httpx.post(f"{url}/list", json={"limit": limit})
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith("limit: ")


def test_deletion_rejects_fields_of_pages(url: str) -> None:
    for name, value in (("limit", 5), ("cursor", "x")):
        body = {"metricID": ["m"], name: value}
        response = httpx.request("DELETE", f"{url}/monitoring", json=body)
        assert response.status_code == 400


BODY = PagedBody(metricID="m", nodes=frozenset({"a", "b", "c"}), limit=5)
KEY = PageKey("site", ("metric", "entity"), 1795262400000)


def test_cursor_contains_the_last_item() -> None:
    for key in (KEY, PageKey("s", ("ü" * 512, "é" * 512)), PageKey("s")):
        cursor = encode_cursor(key, "/get", BODY)
        found = decode_cursor("/get", with_cursor(cursor))
        assert found == key


@pytest.mark.parametrize("ts", [-1, 2**63, 2**64 - 1])
def test_made_up_cursor_of_an_impossible_time_is_rejected(ts: int) -> None:
    cursor = encode_cursor(PageKey("site", ("metric", "entity"), ts), "/get", BODY)
    with pytest.raises(InvalidRequestError, match="damaged"):
        decode_cursor("/get", with_cursor(cursor))


def with_cursor(cursor: str) -> PagedBody:
    return PagedBody(metricID="m", nodes=frozenset({"c", "b", "a"}), limit=7, cursor=cursor)


@given(st.text(max_size=100))
def test_random_cursor_is_rejected(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="damaged"):
        decode_cursor("/get", with_cursor(text))


@given(st.data())
def test_changed_cursor_is_rejected(data: st.DataObject) -> None:
    cursor = encode_cursor(KEY, "/get", BODY)
    at = data.draw(st.integers(0, len(cursor) - 2))
    other = data.draw(st.sampled_from("abcXYZ019_-").filter(lambda each: each != cursor[at]))
    with pytest.raises(InvalidRequestError, match="damaged"):
        decode_cursor("/get", with_cursor(cursor[:at] + other + cursor[at + 1 :]))
    with pytest.raises(InvalidRequestError, match="damaged"):
        decode_cursor("/get", with_cursor(cursor[:at]))


@given(st.lists(st.lists(st.integers(0, 9), max_size=9), max_size=5), st.integers(1, 20))
def test_cut_series_divides_an_answer_into_pages(times: list[list[int]], limit: int) -> None:
    series = [
        SeriesSlice(
            {"metricID": "m", "entityID": f"e{number}"},
            np.array(sorted(each), np.int64),
            np.zeros(len(each)),
        )
        for number, each in enumerate(times)
    ]

    def keys(part: SeriesSlice) -> list[Any]:
        return [(series_of(part.metadata), ts) for ts in part.times.tolist()]

    after, has_more = None, True
    found: list[Any] = []
    while has_more:
        page, has_more = cut_series(series, after, limit)
        items = [key for part in page for key in keys(part)]
        # Points of equal times stay together.
        assert len(set(items)) <= limit
        assert not set(items) & set(found)
        found += items
        after = found[-1] if found else None
    assert found == [key for each in series for key in keys(each)]
