"""Parsing of MQTT messages, and rejection of invalid messages."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage_agent.ingest.payloads import BadMessageError, MessagePoints, parse_message
from storage_agent.mqtt_topics import template_of
from storage_agent.settings import AgentSettings
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.points import PointEncoder

NOW = 1_795_262_400_000
TEMPLATES = [
    template_of(text)
    for text in ("sensors/{entityID}/{metricID}", "plant/{labels.line}/+/{metricID}", "all")
]
ENCODER = PointEncoder(AgentSettings(), Catalogue())


def read(topic: str, payload: str | bytes) -> MessagePoints:
    data = payload.encode() if isinstance(payload, str) else payload
    return parse_message(topic, data, TEMPLATES, NOW, accepts_attributes=ENCODER.accepts_attributes)


def fields_of(message: MessagePoints) -> list[dict[str, Any]]:
    known = [msgspec.to_builtins(item) for item in message.points]
    return [{name: v for name, v in item.items() if v is not None} for item in known]


def test_number_is_value_of_now() -> None:
    found = read("sensors/oven/heat", "21.5")
    point = {"entityID": "oven", "metricID": "heat", "val": 21.5, "timestamp": NOW}
    assert fields_of(found) == [point]
    assert not found.timed


@pytest.mark.parametrize(("payload", "value"), [('"21.5"', 21.5), ('"-7"', -7), ('"+Inf"', "+Inf")])
def test_text_that_is_a_number_is_value_of_now(payload: str, value: Any) -> None:
    point = {"entityID": "oven", "metricID": "heat", "val": value, "timestamp": NOW}
    assert fields_of(read("sensors/oven/heat", payload)) == [point]


def test_object_has_fields_of_point() -> None:
    payload = '{"val": 1, "timestamp": 5, "units": "C", "entityID": "e", "labels": {"a": 1}}'
    found = read("plant/line-1/ignored/heat", payload)
    assert fields_of(found) == [
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


def test_texts_and_numbers_are_converted_as_in_put() -> None:
    found = read("sensors/7/heat", '{"val": "21.5", "timestamp": "5", "entityID": 7}')
    point = {"entityID": "7", "metricID": "heat", "val": 21.5, "timestamp": 5}
    assert fields_of(found) == [point]


def test_list_has_one_point_per_object() -> None:
    item = {"entityID": "e", "metricID": "m", "val": 1.0}
    found = read("all", msgspec.json.encode([{**item, "timestamp": 7}, item]))
    assert fields_of(found) == [{**item, "timestamp": 7}, {**item, "timestamp": NOW}]
    assert not found.timed
    assert fields_of(read("all", "[]")) == []


def test_invalid_points_of_list_are_rejected_and_others_read() -> None:
    item = {"entityID": "e", "metricID": "m", "timestamp": NOW}
    others = [
        {**item, "val": "x"},
        {**item, "val": 1, "timestamp": NOW // 1000},
        5,
        {**item, "val": 1, "timestamp": NOW + 0.5},
        {**item, "val": 1, "labels": dict.fromkeys("abc", "x" * 4000)},
    ]
    found = read("all", msgspec.json.encode([{**item, "val": 1}, *others, {**item, "val": 2}]))
    assert [point["val"] for point in fields_of(found)] == [1, 2]
    reasons = [error.reason for error in found.rejected]
    assert reasons == ["payload", "time", "payload", "time", "payload"]
    assert str(found.rejected[-1]) == "the labels are too large"
    assert found.timed is False


def test_timestamp_without_a_fraction_is_an_integer() -> None:
    [point] = read("sensors/e/m", f'{{"val": 1, "timestamp": {NOW}.0}}').points
    assert (point.ts, type(point.ts)) == (NOW, int)


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
def test_rejection_does_not_quote_payload(topic: str, payload: str | bytes, reason: str) -> None:
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
def test_any_payload_is_parsed_or_rejected(payload: bytes) -> None:
    try:
        found = read("plant/l/x/m", payload)
    except BadMessageError:
        return
    assert all(item.metric == "m" for item in found.points)


@pytest.mark.parametrize(
    "topics",
    ["a/{entity}", "a/{entityID}/{entityID}", "a/b{entityID}", "a//b", "", "#", "{labels.}", "a,"],
)
def test_invalid_template_is_rejected(topics: str) -> None:
    with pytest.raises(ValueError, match="mqtt_topics"):
        AgentSettings(mqtt_topics=topics)


@pytest.mark.parametrize(
    "url", ["broker:1883", "http://broker", "mqtt://", "mqtt://b:0", "mqtt://b/x"]
)
def test_invalid_broker_url_is_rejected_without_quoting_it(url: str) -> None:
    with pytest.raises(ValueError, match="mqtt://user:password@host:port") as raised:
        AgentSettings(mqtt_url=url)
    assert url not in str(raised.value).replace("mqtt://user", "")


@pytest.mark.parametrize(
    "payload", ["[" + '{"val":1},' * 10 + '{"val":1}]', "[" + "[[[[[[]]]]]]," * 10 + "1]"]
)
def test_message_of_too_many_points_is_rejected(payload: str) -> None:
    with pytest.raises(BadMessageError, match="more than 10 points") as caught:
        parse_message("sensors/e/m", payload.encode(), TEMPLATES, NOW, max_points=10)
    assert caught.value.reason == "payload"
    assert len(read("sensors/e/m", '[{"val":1},{"val":2}]').points) == 2
