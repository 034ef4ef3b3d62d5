"""Repeated names of fields in line protocol, and repeated keys in JSON."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_agent.http.points import PutBody
from storage_agent.ingest.entity_label import EntityLabel
from storage_agent.ingest.line_protocol import LineFormat, parse_lines
from storage_agent.ingest.point_batch import PointBatch

NOW = 1_795_262_400_000
NAMES = ["a", "b", "c", "value", "é", '"a', "\\a", r"a\=b", r"a\,b", r"a\ b"]
TEXTS = ["", "a", " ", "b=1", ",a=1", r"\"", r"\\", "é", r",a=\"x\","]
HEADS = ["m", r"m\ x", "m,t=1", r"m,t=\=,u=a\ b", 'm,t="q', "m "]
VALUES = st.one_of(
    st.sampled_from(["1", "1i", "2u", "true", "-0.5"]),
    st.lists(st.sampled_from(TEXTS), max_size=4).map(lambda texts: f'"{"".join(texts)}"'),
)
FIELDS = st.lists(st.tuples(st.sampled_from(NAMES), VALUES), min_size=1, max_size=5)


def parsed(line: str) -> PointBatch:
    batch = PointBatch(100, lambda _: True)
    parse_lines(line.encode(), LineFormat(EntityLabel("host", "n1"), NOW, 10**6), batch)
    return batch


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("m value=1,value=2", "value"),
        ('m,t=1 a=1,b="x, a=2",a=3 5', "a"),
        (r'm a\=b=1,c="\",d=1",a\=b=1', r"a\=b"),
    ],
)
def test_line_with_repeated_field_is_rejected(line: str, name: str) -> None:
    batch = parsed(line)
    assert batch.points == []
    (rejected,) = batch.rejected_points
    assert rejected.where == "line 1"
    assert f"the field {name} is repeated" in rejected.what


@given(head=st.sampled_from(HEADS), fields=FIELDS, time=st.sampled_from(["", " 5"]))
def test_line_is_rejected_exactly_if_a_field_is_repeated(
    head: str, fields: list[tuple[str, str]], time: str
) -> None:
    batch = parsed(f"{head} {','.join(f'{name}={value}' for name, value in fields)}{time}")
    names = [name for name, _ in fields]
    problems = [each.what for each in batch.rejected_points]
    assert any("is repeated" in each for each in problems) == (len(set(names)) < len(names))
    assert not any("unable" in each and "repeated" not in each for each in problems)


def test_last_of_repeated_keys_counts_in_put() -> None:
    body = (
        b'{"monitoring":[],"monitoring":[{"entityID":"e","metricID":"m","timestamp":5,'
        b'"val":1,"labels":{"cpu":"0","cpu":"1"},"val":2}]}'
    )
    (item,) = msgspec.json.decode(body, type=PutBody).monitoring
    assert (item.value, item.labels) == (2, {"cpu": "1"})
