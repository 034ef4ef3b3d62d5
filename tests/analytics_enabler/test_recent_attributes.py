"""The attributes of recent points, which a stolen machine may send in another form."""

import json
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from analytics_enabler.attributes import RecentAttributes, attributes_in
from tests.analytics_enabler.support import AgentWithPoints

RIGHT = '{"entityID": "bus-1", "line": 7}'
PARSED = {"entityID": "bus-1", "line": 7}


@pytest.fixture
def parsed_texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were parsed."""
    parse, texts = json.loads, list[str]()

    def recorded(text: str) -> Any:
        texts.append(text)
        return parse(text)

    monkeypatch.setattr(json, "loads", recorded)
    return texts


@pytest.mark.parametrize(
    "attributes", [None, "", "7", "[]", '{"region": ["west"]}', '{"a": {}}', "[" * 100_000]
)
def test_attributes_of_another_form_are_omitted(attributes: str | None) -> None:
    columns = {"metric": ["delay", "delay"], "attributes": [RIGHT, attributes]}
    assert attributes_in(pa.table(columns)) == {("delay", RIGHT): PARSED}


def test_rows_without_the_columns_of_points_are_omitted() -> None:
    assert attributes_in(pa.table({"metric": ["delay"]})) == {}
    assert attributes_in(pa.table({"metric": [None], "attributes": [RIGHT]})) == {}


async def test_attributes_are_parsed_once_for_each_reading(parsed_texts: list[str]) -> None:
    columns = {"metric": ["delay", "riders"] * 200, "attributes": [RIGHT] * 400}
    agent = AgentWithPoints(pa.table(columns))
    view = SimpleNamespace(
        fabric=SimpleNamespace(sites=[SimpleNamespace(name="edge", reachable=True)])
    )
    recent = RecentAttributes(agent, view)  # type: ignore[arg-type]
    for _ in range(2):
        assert await recent.points(["delay", "none"]) == {"delay": [PARSED], "none": []}
    assert await recent.of("riders") == {"entityID": {"bus-1"}, "line": {"7"}}
    values = {"entityID": ["bus-1"], "line": [7]}
    assert await recent.values() == {"delay": values, "riders": values}
    assert await recent.values() is await recent.values(), "one copy for each reading"
    assert parsed_texts == [RIGHT]


async def test_values_have_their_types() -> None:
    texts = ['{"a": 1}', '{"a": true}', '{"a": "1"}', '{"a": null}']
    agent = AgentWithPoints(pa.table({"metric": ["delay"] * 4, "attributes": texts}))
    view = SimpleNamespace(
        fabric=SimpleNamespace(sites=[SimpleNamespace(name="edge", reachable=True)])
    )
    recent = RecentAttributes(agent, view)  # type: ignore[arg-type]
    found = (await recent.values())["delay"]["a"]
    assert sorted(map(repr, found)) == ["'1'", "1", "True"]
    assert await recent.of("delay") == {"a": {"1", "true"}}
