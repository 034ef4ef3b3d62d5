"""Bodies that are decoded leniently: texts that are no numbers, and deep nesting."""

import msgspec
import pytest

from mistbow.errors import InvalidRequestError
from mistbow.http.field_conversion import convert_items, convert_read
from mistbow.timestamps import Timestamps
from storage_agent.http.deletions import DeleteBody, decode_deletion
from storage_agent.http.points import GetBody, PutBody
from storage_agent.http.timed_bodies import decode_timed

PUT = msgspec.json.Decoder(PutBody)
GET = msgspec.json.Decoder(GetBody)
DELETE = msgspec.json.Decoder(DeleteBody)


def put(item: str) -> PutBody:
    body = f'{{"monitoring":[{item}]}}'.encode()
    return decode_timed(PUT, body, Timestamps(), convert_items)


@pytest.mark.parametrize("time", ["1e999", "-1e999", "9" * 5000, "1e400"])
def test_deletion_refuses_a_time_beyond_the_range_of_numbers(time: str) -> None:
    body = msgspec.json.encode({"metricID": ["m"], "from": time})
    with pytest.raises(InvalidRequestError, match=r"^from: "):
        decode_deletion(DELETE, body, Timestamps())


def test_read_with_an_unknown_field_that_is_not_utf8_is_no_internal_error() -> None:
    body = b'{"metricID": "m", "from": -1, "\xff": 1}'
    with pytest.raises(InvalidRequestError):
        decode_timed(GET, body, Timestamps(), convert_read)
    body = b'{"metricID": "m", "from": 1795262400, "\xff": 1}'
    with pytest.raises(InvalidRequestError):
        decode_timed(GET, body, Timestamps("auto"), convert_read)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b'{"metricID": "a", "metricID": "b"}', "metricID: the field is repeated"),
        (b'{"metricID": "a", "entityID": ["x"], "entityID": ["y"]}', "entityID: the field"),
        (b'{"metricID": true}', "metricID: Expected"),
        (b'{"metricID": ["a", true]}', r"metricID\[1\]: Expected"),
    ],
)
def test_deletion_refuses_a_repeated_field_and_booleans(body: bytes, problem: str) -> None:
    with pytest.raises(InvalidRequestError, match=problem):
        decode_deletion(DELETE, body, Timestamps())


def test_hint_of_a_deletion_names_no_field_that_a_deletion_refuses() -> None:
    with pytest.raises(InvalidRequestError) as raised:
        decode_deletion(DELETE, b'{"metricID": "a", "labels": {"a": 1}}', Timestamps())
    assert "latest" not in str(raised.value.hint)
    assert "nodes" not in str(raised.value.hint)


@pytest.mark.parametrize("depth", [10, 300, 450, 900])
def test_deep_pod_of_an_invalid_point_is_no_internal_error(depth: int) -> None:
    pods = '{"pod":' * depth + "1" + "}" * depth
    with pytest.raises(InvalidRequestError):
        put(f'{{"entityID":7,"val":1,"pod":{pods}}}')


def test_fields_of_a_pod_are_converted() -> None:
    [point] = put(
        '{"entityID":7,"metricID":"m","timestamp":5,"val":"2","pod":{"uuid":9}}'
    ).monitoring
    assert (point.entity, point.value) == ("7", 2)
    assert point.pod is not None
    assert point.pod.uuid == "9"


def test_value_that_is_no_number_is_refused_in_plain_words() -> None:
    with pytest.raises(InvalidRequestError) as refused:
        put('{"entityID":"e","metricID":"m","timestamp":5,"val":"6,5"}')
    assert refused.value.message == (
        "monitoring[0].val: Expected a number, or the text NaN, +Inf, -Inf or stale"
    )


@pytest.mark.parametrize("field", ["val", "timestamp", "minVal"])
def test_number_beyond_the_range_is_named_beside_a_numeric_id(field: str) -> None:
    item = '{"entityID":7,"metricID":"m","val":1,"timestamp":1795262400000,"FIELD":-1e309}'
    with pytest.raises(InvalidRequestError, match=rf"^monitoring\[0\]\.{field}: Number out of"):
        put(item.replace("FIELD", field))
