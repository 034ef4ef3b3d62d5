"""Bodies of ingest protocols that are small, and would take much memory or time."""

import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mistbow.errors import TooLargeError
from storage_agent.ingest.entity_label import EntityLabel
from storage_agent.ingest.line_protocol import LineFormat, parse_lines, split_lines
from storage_agent.ingest.message_parts import PART_BYTES, split_message
from storage_agent.ingest.point_batch import PointBatch
from storage_agent.ingest.protocol import remote_v1_pb2 as v1
from storage_agent.ingest.protocol import remote_v2_pb2 as v2
from storage_agent.ingest.remote_write import parse_request

NOW = 1_795_262_400_000
MIB = 2**20


def lines_of(body: bytes) -> PointBatch:
    batch = PointBatch(100_000, lambda _: True)
    parse_lines(body, LineFormat(EntityLabel("host", "n1"), NOW, 10**6), batch)
    return batch


def series_of(message: v1.Request | v2.Request) -> PointBatch:
    batch = PointBatch(100_000, lambda _: True)
    version = "1.0" if isinstance(message, v1.Request) else "2.0"
    parse_request(message.SerializeToString(), version, EntityLabel("instance", "n1"), batch)
    return batch


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


def test_line_of_many_tags_is_rejected_before_it_takes_the_parser_seconds() -> None:
    """The parser took 8 s for this line, hours for one of 8 MiB, and no other thread ran."""
    tags = b"".join(b",t%d=1" % number for number in range(30_000))
    begin = time.process_time()
    batch = lines_of(b"many" + tags + b" v=1\nfew,t=1 v=2\n")
    assert time.process_time() - begin < 2
    assert "line has more than" in batch.rejected_points[0].what
    assert [(point.metric, point.value) for point in batch.points] == [("few_v", 2)]


def test_line_of_a_thousand_tags_within_the_maximum_length_is_rejected() -> None:
    tags = b"".join(b",t%d=1" % number for number in range(1001))
    batch = lines_of(b"a" + tags + b" v=1\nb v=1" + b"".join(b",f%d=1" % n for n in range(1100)))
    [rejected] = batch.rejected_points
    assert rejected.what == "unable to parse: the line has more than 1000 tags"
    assert len(batch.points) == 1101


def test_long_line_is_rejected_and_others_are_stored() -> None:
    batch = lines_of(b'a text="' + b"x\n" * 100_000 + b'",n=1\nb v=2')
    [rejected] = batch.rejected_points
    assert rejected.what == "unable to parse: the line has more than 131072 bytes"
    assert [(point.metric, point.value) for point in batch.points] == [("b_v", 2)]


@pytest.mark.parametrize("body", [b"\n" * MIB, b'a t="' + b"\n" * MIB])
def test_body_of_many_lines_takes_little_memory(body: bytes) -> None:
    with memory_below(3 * MIB), suppress(TooLargeError):
        lines_of(body)


@given(st.text('a=, "\\\n#', max_size=30))
def test_lines_of_a_body_are_all_of_its_bytes(text: str) -> None:
    lines = list(split_lines(text.encode()))
    assert b"\n".join(line for _, line in lines) == text.encode()
    number = 1
    for found, line in lines:
        assert found == number
        number += 1 + line.count(b"\n")


def test_rejected_series_is_named_without_its_long_labels() -> None:
    """References to one long symbol made a text of gigabytes."""
    refs = v2.TimeSeries(labels_refs=[1, 1] * 400, samples=[v2.Sample(value=1, timestamp=NOW)])
    with memory_below(20 * MIB):
        batch = series_of(v2.Request(symbols=["", "x" * MIB], timeseries=[refs]))
    assert batch.rejected_points[0].what == "the series has several labels with the same name"
    assert len(batch.rejected_points[0].series) <= 200


def test_empty_name_of_a_label_is_named() -> None:
    labels = [v1.Label(name="__name__", value="m"), v1.Label(name="", value="x")]
    sample = v1.Sample(value=1, timestamp=NOW)
    batch = series_of(v1.Request(timeseries=[v1.TimeSeries(labels=labels, samples=[sample])]))
    what = batch.rejected_points[0].what
    assert what == "a name in labels: Expected `str` of length >= 1"


EMPTY: list[Callable[[int], v1.Request | v2.Request]] = [
    lambda n: v1.Request(timeseries=[v1.TimeSeries()] * n),
    lambda n: v1.Request(timeseries=[v1.TimeSeries(labels=[v1.Label()] * n)]),
    lambda n: v1.Request(timeseries=[v1.TimeSeries(samples=[v1.Sample()] * n)]),
    lambda n: v2.Request(timeseries=[v2.TimeSeries()] * n),
    lambda n: v2.Request(symbols=["ab"] * 3 * n),
]


@pytest.mark.parametrize("make", EMPTY)
def test_body_of_many_empty_messages_is_rejected(
    make: Callable[[int], v1.Request | v2.Request],
) -> None:
    with pytest.raises(TooLargeError, match="more than 100000 points"):
        series_of(make(200_000))


def test_series_of_many_labels_is_rejected_and_others_are_stored() -> None:
    labels = [v1.Label(name=f"l{number}") for number in range(1001)]
    sample = v1.Sample(value=1, timestamp=NOW)
    good = v1.TimeSeries(labels=[v1.Label(name="__name__", value="good")], samples=[sample])
    many = v1.TimeSeries(labels=labels, samples=[sample])
    batch = series_of(v1.Request(timeseries=[many, good]))
    assert [point.metric for point in batch.points] == ["good"]
    assert batch.rejected_points[0].what == "the series has more than 1000 labels"


@given(st.lists(st.integers(0, 40), max_size=30), st.binary(max_size=5))
def test_parts_of_a_message_are_all_of_its_bytes_and_hold_whole_fields(
    sizes: list[int], rest: bytes
) -> None:
    names = ["x" * (size * 1000) for size in sizes]
    message = v2.Request(symbols=names, timeseries=[v2.TimeSeries(labels_refs=[1, 2])])
    body = message.SerializeToString()
    parts = list(split_message(body, 5, 100))
    found = [each for part in parts for each in v2.Request.FromString(part).symbols]
    assert (b"".join(parts), found) == (body, names)
    assert all(len(part) <= 2 * PART_BYTES for part in parts)
    assert b"".join(split_message(body + rest, 5, 100)) == body + rest
