"""What MQTT messages say, and what is said of those that say it wrongly."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mistbow.settings import AgentSettings
from mistbow.topics import template_of
from storage_agent.ingest.payloads import BadMessageError, Points, points_of

NOW = 1_795_262_400_000
TEMPLATES = [
    template_of(text)
    for text in ("sensors/{entityID}/{metricID}", "plant/{labels.line}/+/{metricID}", "all")
]


def read(topic: str, payload: str | bytes) -> Points:
    data = payload.encode() if isinstance(payload, str) else payload
    return points_of(topic, data, TEMPLATES, NOW)


def said(points: Points) -> list[dict[str, Any]]:
    known = [msgspec.to_builtins(item) for item in points.items]
    return [{name: v for name, v in item.items() if v is not None} for item in known]


def test_a_number_is_a_value_of_now() -> None:
    found = read("sensors/oven/heat", "21.5")
    point = {"entityID": "oven", "metricID": "heat", "val": 21.5, "timestamp": NOW}
    assert said(found) == [point]
    assert not found.timed


def test_an_object_says_more() -> None:
    payload = '{"val": 1, "timestamp": 5, "units": "C", "entityID": "e", "labels": {"a": 1}}'
    found = read("plant/line-1/ignored/heat", payload)
    assert said(found) == [
        {
            "entityID": "e",
            "metricID": "heat",
            "val": 1.0,
            "timestamp": 5,
            "units": "C",
            "labels": {"a": 1, "line": "line-1"},
        }
    ]
    assert found.timed


def test_a_list_is_of_whole_measurements() -> None:
    item = {"entityID": "e", "metricID": "m", "val": 1.0}
    found = read("all", msgspec.json.encode([{**item, "timestamp": 7}, item]))
    assert said(found) == [{**item, "timestamp": 7}, {**item, "timestamp": NOW}]
    assert not found.timed
    assert said(read("all", "[]")) == []


@pytest.mark.parametrize(
    ("topic", "payload", "reason"),
    [
        ("sensors/a", "1", "topic"),
        ("sensors/a/b/c", "1", "topic"),
        ("", "1", "topic"),
        ("all", "1", "payload"),
        ("sensors/e/m", "", "payload"),
        ("sensors/e/m", "on", "payload"),
        ("sensors/e/m", "true", "payload"),
        ("sensors/e/m", "null", "payload"),
        ("sensors/e/m", "NaN", "payload"),
        ("sensors/e/m", "1" * 400, "payload"),
        ("sensors/e/m", '"hunter2"', "payload"),
        ("sensors/e/m", '{"val": "hunter2"}', "payload"),
        ("sensors/e/m", '{"val": 1, "entityID": "hunter2"}', "payload"),
        ("sensors/e/m", '{"val": 1, "timestamp": -1}', "payload"),
        ("sensors//m", "1", "payload"),
        ("sensors/e/m", "[" * 100_000, "payload"),
        ("sensors/e/m", b"\xff", "payload"),
        ("plant/l/x/m", '{"val": 1, "entityID": "e", "labels": {"line": "k"}}', "payload"),
        ("plant/l/x/m", '{"val": 1, "entityID": "e", "labels": 5}', "payload"),
    ],
)
def test_bad_messages_are_told_without_their_content(
    topic: str, payload: str | bytes, reason: str
) -> None:
    with pytest.raises(BadMessageError) as raised:
        read(topic, payload)
    assert raised.value.reason == reason
    assert str(raised.value)
    assert "hunter2" not in str(raised.value)


@settings(max_examples=50)
@given(
    st.binary(max_size=30)
    | st.recursive(
        st.none()
        | st.booleans()
        | st.floats(allow_nan=False)
        | st.integers()
        | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["val", "timestamp", "labels", "x"]), inner, max_size=3
            )
        ),
    ).map(msgspec.json.encode)
)
def test_whatever_comes_is_read_or_refused(payload: bytes) -> None:
    try:
        found = read("plant/l/x/m", payload)
    except BadMessageError:
        return
    assert all(item.metricID == "m" for item in found.items)


@pytest.mark.parametrize(
    "topics",
    ["a/{entity}", "a/{entityID}/{entityID}", "a/b{entityID}", "a//b", "", "#", "{labels.}", "a,"],
)
def test_bad_templates_are_refused(topics: str) -> None:
    with pytest.raises(ValueError, match="mqtt_topics"):
        AgentSettings(mqtt_topics=topics)


@pytest.mark.parametrize(
    "url", ["broker:1883", "http://broker", "mqtt://", "mqtt://b:0", "mqtt://b/x"]
)
def test_bad_addresses_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="mqtt://user:password@host:port") as raised:
        AgentSettings(mqtt_url=url)
    assert url not in str(raised.value).replace("mqtt://user", "")
