"""The labels that remain in /labels, /label/NAME/values and /series after deletions."""

from collections.abc import Iterator

import httpx
import pytest

from ignite_server.server import IgniteServer
from mistbow.client import AgentClient, Point
from mistbow.streams.schemas import RESULT_ROWS, results_stream
from storage_agent.settings import AgentSettings
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.promql.fleet import END
from tests.storage_agent.promql.results import result_table
from tests.support.agents import running_agent


@pytest.fixture
def url(ignite: IgniteServer, settings: AgentSettings) -> Iterator[str]:
    assert ignite.port == settings.ignite_port
    with running_agent(settings, ManualClock(END)) as url:
        yield url


@pytest.fixture
def client(url: str) -> Iterator[AgentClient]:
    client = AgentClient(url)
    yield client
    client.close()


@pytest.fixture
def api(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{url}/api/v1", timeout=30) as client:
        yield client


def read(api: httpx.Client, path: str, **params: str) -> list[str]:
    """Return ``data`` of an answer: names or values."""
    data: list[str] = api.get(path, params=params).json()["data"]
    return data


def rooms(api: httpx.Client) -> list[str]:
    """Return the values of the label ``room``, after checking that all routes agree on them."""
    values = read(api, "label/room/values")
    assert ("room" in read(api, "labels")) == bool(values)
    found = api.get("series", params={"match[]": '{__name__=~".+"}'}).json()["data"]
    assert sorted({each["room"] for each in found if "room" in each}) == values
    return values


def test_labels_of_a_deleted_series_do_not_return_with_its_next_points(
    client: AgentClient, api: httpx.Client
) -> None:
    client.put([Point("temp", "a", END - 9000, 1, labels={"room": "old"})])
    client.put([Point("temp", "b", END - 9000, 1, labels={"room": "other"})])
    assert rooms(api) == ["old", "other"]
    client.delete("temp", "a")
    assert rooms(api) == ["other"]
    client.put([Point("temp", "a", END - 1000, 1, labels={"room": "new"})])
    assert rooms(api) == ["new", "other"]
    client.delete("temp")
    assert rooms(api) == []
    assert "temp" not in read(api, "label/__name__/values")


def test_labels_of_deleted_points_vanish_although_other_points_of_the_series_remain(
    client: AgentClient, api: httpx.Client
) -> None:
    client.put([Point("temp", "a", END - 9000, 1, labels={"room": "old"})])
    client.put([Point("temp", "a", END - 1000, 1, labels={"room": "new"})])
    assert rooms(api) == ["new", "old"]
    client.delete("temp", "a", end=END - 5000)
    assert rooms(api) == ["new"]


def test_labels_of_a_deleted_stream_of_results_do_not_return_with_a_longer_stream(
    url: str, client: AgentClient, api: httpx.Client
) -> None:
    name = results_stream("all.fair")
    client.create_stream(name, RESULT_ROWS)
    client.append(name, result_table(("d1/old/1", '{"rack":"7"}', END - 2000, 1.0, 0)))
    assert "insight:old" in read(api, "label/__name__/values")
    assert httpx.delete(f"{url}/streams/{name}").is_success
    client.create_stream(name, RESULT_ROWS)
    for _ in range(5):
        client.append(name, result_table(("d1/new/1", '{"rack":"8"}', END - 2000, 1.0, 0)))
    assert read(api, "label/__name__/values") == ["insight:new"]
    assert read(api, "label/rack/values") == ["8"]
