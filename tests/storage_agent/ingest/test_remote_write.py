"""Prometheus remote write: stored points, and rejected points."""

import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import cramjam
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mistbow.auth.callers import Caller, on_behalf_of
from mistbow.client.agent import AgentClient
from mistbow.streams.json_numbers import STALE, to_json
from mistbow.streams.schemas import RAW
from mistbow.timestamps import likely_unit
from storage_agent.ingest.point_batch import PointBatch
from storage_agent.ingest.protocol import remote_v1_pb2 as v1
from storage_agent.ingest.protocol import remote_v2_pb2 as v2
from tests.storage_agent.ingest.conftest import counted, stored

NOW = 1_795_262_400_000
V1 = "application/x-protobuf"
V2 = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
WRITTEN = "x-prometheus-remote-write-samples-written"

Samples = Sequence[tuple[float, int]]


def series(labels: Mapping[str, str], *samples: tuple[float, int], **more: Any) -> v1.TimeSeries:
    return v1.TimeSeries(
        labels=[v1.Label(name=name, value=value) for name, value in labels.items()],
        samples=[v1.Sample(value=value, timestamp=time) for value, time in samples],
        **more,
    )


def send(url: str, message: v1.Request | v2.Request | bytes, **headers: str) -> httpx.Response:
    body = message if isinstance(message, bytes) else message.SerializeToString()
    of = V2 if isinstance(message, v2.Request) else V1
    given = {"Content-Type": of, "Content-Encoding": "snappy", **headers}
    packed = bytes(cramjam.snappy.compress_raw(body))
    return httpx.post(f"{url}/api/v1/write", content=packed, headers=given)


def test_labels_are_stored_as_series_and_attributes(url: str, client: AgentClient) -> None:
    labels = {"__name__": "a_up", "instance": "host-7:9100", "job": "node", "zone": "z", "x": ""}
    message = v1.Request(
        timeseries=[series(labels, (1, NOW), (0, NOW + 1)), series({"__name__": "a_no"}, (2, NOW))]
    )
    answer = send(url, message)
    assert (answer.status_code, answer.content, answer.headers[WRITTEN]) == (204, b"", "3")
    assert stored(client, "a_up", "a_no") == {
        ("a_up", "host-7:9100"): [(NOW, 1), (NOW + 1, 0)],
        ("a_no", "n1"): [(NOW, 2)],
    }
    [found] = client.get("a_up")[0].data
    assert found.group == "node"
    rows = client.read(RAW, match={"metric": "a_up"}).table
    assert json.loads(rows["attributes"][0].as_py()) == {
        "entityID": "host-7:9100",
        "group": "node",
        "instance": "host-7:9100",
        "job": "node",
        "node": "n1",
        "site": "n1",
        "zone": "z",
    }


def test_invalid_points_are_named_and_valid_ones_stored(url: str, client: AgentClient) -> None:
    good = {"__name__": "b_good", "instance": "e"}
    message = v1.Request(
        timeseries=[
            series(good, (1, NOW), (2, -1), (3, 2**62)),
            series({"instance": "nameless"}, (1, NOW)),
            series({"__name__": "b_labels", "big": "x" * 5000}, (1, NOW), (2, NOW)),
            v1.TimeSeries(labels=[v1.Label(name="__name__", value="b")] * 2, samples=[v1.Sample()]),
            series({"__name__": "b_h"}, histograms=[v1.Counted()] * 3),
            series(good, (4, NOW + 1)),
        ]
    )
    refused = counted(
        url, "mistbow_agent_refused_points_total", source="remote write", reason="series"
    )
    answer = send(url, message)
    assert answer.status_code == 400
    assert answer.headers[WRITTEN] == "2"
    first, *rejected = answer.text.splitlines()
    assert first.startswith(
        '9 of 11 points are not stored: timeseries[0].samples[1] (b_good{instance="e"}): the time'
    )
    assert [line.rpartition("): ")[0] for line in rejected] == [
        *(f'timeseries[0].samples[{n}] (b_good{{instance="e"}}' for n in (1, 2)),
        'timeseries[1] ({instance="nameless"}',
        'timeseries[2] (b_labels{big="' + "x" * 186,
        "timeseries[3] (b{}",
        "timeseries[4].histograms (b_h{}",
    ]
    assert stored(client, "b_good", "b_labels", "b_h", "b") == {
        ("b_good", "e"): [(NOW, 1), (NOW + 1, 4)]
    }
    after = counted(
        url, "mistbow_agent_refused_points_total", source="remote write", reason="series"
    )
    assert after - refused == 4


def test_at_most_twenty_rejected_points_are_named(url: str) -> None:
    samples = [(1.0, -1 - number) for number in range(50)]
    answer = send(url, v1.Request(timeseries=[series({"__name__": "c"}, *samples)]))
    first, *rejected = answer.text.splitlines()
    assert first.startswith("50 of 50 points")
    assert len(rejected) == 20


def test_exemplars_are_accepted_and_not_stored(url: str, client: AgentClient) -> None:
    name = "mistbow_agent_remote_write_skipped_total"
    before = counted(url, name, kind="exemplar")
    exemplified = series({"__name__": "d"}, (1, NOW), exemplars=[v1.Counted()] * 3)
    answer = send(url, v1.Request(timeseries=[exemplified]))
    assert (answer.status_code, answer.headers[WRITTEN]) == (204, "1")
    assert stored(client, "d") == {("d", "n1"): [(NOW, 1)]}
    assert counted(url, name, kind="exemplar") - before == 3


def test_nan_infinities_and_markers_are_stored_to_the_bit(url: str, client: AgentClient) -> None:
    values = [1.5, STALE, math.nan, math.inf, -math.inf, -0.0]
    samples = [(value, NOW + number) for number, value in enumerate(values)]
    for version in (v1, v2):
        metric = f"n_{version.__name__[-7:-4]}"
        answer = send(url, _request(version, metric, samples))
        assert (answer.status_code, answer.headers[WRITTEN]) == (204, "6")
        rows = client.read(RAW, match={"metric": metric}).table["value"].to_pylist()
        assert [struct.pack(">d", each) for each in rows] == [
            struct.pack(">d", each) for each in values
        ]
        answer = httpx.post(f"{url}/get", json={"metricID": metric, "latest": False})
        [found] = answer.json()["monitoring"][0]["data"]
        texts = [1.5, "stale", "NaN", "+Inf", "-Inf", -0.0]
        assert [each["val"] for each in found["values"]] == texts


def _request(version: Any, metric: str, samples: Samples) -> v1.Request | v2.Request:
    if version is v1:
        return v1.Request(timeseries=[series({"__name__": metric}, *samples)])
    points = [v2.Sample(value=value, timestamp=time) for value, time in samples]
    described = v2.TimeSeries(labels_refs=[1, 2], samples=points)
    return v2.Request(symbols=["", "__name__", metric], timeseries=[described])


def test_version_2_resolves_symbols_and_metadata(url: str, client: AgentClient) -> None:
    symbols = ["", "__name__", "e_heat", "instance", "oven", "the heat", "celsius"]
    message = v2.Request(
        symbols=symbols,
        timeseries=[
            v2.TimeSeries(
                labels_refs=[1, 2, 3, 4],
                samples=[v2.Sample(value=90, timestamp=NOW)],
                metadata=v2.Metadata(help_ref=5, unit_ref=6),
            ),
            v2.TimeSeries(labels_refs=[1, 7], samples=[v2.Sample(value=1, timestamp=NOW)]),
            v2.TimeSeries(labels_refs=[1], samples=[v2.Sample(value=1, timestamp=NOW)]),
        ],
    )
    answer = send(url, message)
    assert answer.status_code == 400
    headers = [
        answer.headers[f"x-prometheus-remote-write-{what}-written"]
        for what in ("samples", "histograms", "exemplars")
    ]
    assert headers == ["1", "0", "0"]
    problems = [line.rpartition("): ")[2] for line in answer.text.splitlines()[1:]]
    assert problems == [
        "a reference exceeds the number of symbols",
        "labels_refs: the number of references is odd, but must be even",
    ]
    [found] = client.get("e_heat")[0].data
    assert (found.entity, found.desc, found.units) == ("oven", "the heat", "celsius")
    del message.timeseries[1:]
    assert send(url, message).status_code == 204


def test_repeated_body_stores_nothing(url: str, client: AgentClient) -> None:
    message = v1.Request(timeseries=[series({"__name__": "f"}, (1, NOW))])
    for _ in range(3):
        assert send(url, message).status_code == 204
    assert stored(client, "f") == {("f", "n1"): [(NOW, 1)]}


def test_body_of_the_other_version_is_refused(url: str) -> None:
    """Its fields would be skipped, and the answer be a success although nothing is stored."""
    first = v1.Request(timeseries=[series({"__name__": "o"}, (1, NOW))])
    second = v2.Request(symbols=["", "__name__", "o"], timeseries=[v2.TimeSeries()])
    for message, stated in ((first, V2), (second, V1)):
        answer = send(url, message, **{"Content-Type": stated})
        assert (answer.status_code, "of the other version" in answer.text) == (400, True)


GOOD = v1.Request(timeseries=[series({"__name__": "g"}, (1, NOW))])


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({"Content-Type": "application/json"}, "Content-Type"),
        ({"Content-Type": "application/x-protobuf;proto=other.Message"}, "other.Message"),
        ({"Content-Encoding": "gzip"}, "Content-Encoding"),
        ({"Content-Encoding": ""}, "Content-Encoding: the header is missing"),
    ],
)
def test_unsupported_type_is_answered_415(url: str, headers: dict[str, str], named: str) -> None:
    answer = send(url, GOOD, **headers)
    assert answer.status_code == 415
    assert named in answer.text
    assert answer.headers["Content-Type"].startswith("text/plain")


HEADERS = {"Content-Type": V1, "Content-Encoding": "snappy"}


@pytest.mark.parametrize(
    ("packed", "status", "named"),
    [
        (b"", 400, "snappy"),
        (b"\xff" * 20, 400, "snappy"),
        # The preamble claims 4 GB, and nothing is decompressed.
        (b"\xff\xff\xff\xff\x0f" + b"x" * 100, 413, "the decompressed body has more than"),
        (
            bytes(cramjam.snappy.compress_raw(b"\0" * (8 * 2**20 + 1))),
            413,
            "the decompressed body has more than",
        ),
        (bytes(cramjam.snappy.compress_raw(b"not a message")), 400, "not a message"),
    ],
)
def test_bad_bodies_are_refused(url: str, packed: bytes, status: int, named: str) -> None:
    answer = httpx.post(f"{url}/api/v1/write", content=packed, headers=HEADERS)
    assert answer.status_code == status
    assert named in answer.text


def test_body_with_too_many_points_is_rejected(url: str, client: AgentClient) -> None:
    samples = [(1.0, NOW + number) for number in range(1001)]
    answer = send(url, v1.Request(timeseries=[series({"__name__": "h"}, *samples)]))
    assert answer.status_code == 413
    assert stored(client, "h") == {}


def test_token_with_entity_prefix_writes_only_its_entities() -> None:
    batch = PointBatch(10, lambda _: True)
    with on_behalf_of(Caller("buses", frozenset({"ingest"}), "bus-")):
        assert batch.describe({"metricID": "m", "entityID": "bus-7"}).entity == "bus-7"
        with pytest.raises(ValueError, match="'tram-1' does not begin with 'bus-'"):
            batch.describe({"metricID": "m", "entityID": "tram-1"})


VALUES = st.one_of(st.floats(width=64), st.just(STALE))
TIMES = st.one_of(st.integers(NOW - 10**6, NOW), st.integers(-(2**63), 2**63 - 1))
LABELS = st.dictionaries(
    st.sampled_from(["instance", "job", "zone", "__name__"]), st.text(max_size=8), max_size=4
)
SERIES = st.tuples(LABELS, st.booleans(), st.lists(st.tuples(VALUES, TIMES), max_size=4))
run = iter(range(10**6))


@settings(max_examples=40)
@given(st.lists(SERIES, max_size=5))
def test_every_valid_point_of_a_body_is_stored(
    url: str, client: AgentClient, drawn: list[tuple[dict[str, str], bool, Samples]]
) -> None:
    name = f"p_{next(run)}"
    message = v1.Request()
    expected: list[tuple[str, int, str]] = []
    bad = 0
    for labels, named, samples in drawn:
        given_labels = {**labels, "__name__": name} if named else {**labels, "__name__": ""}
        message.timeseries.append(series(given_labels, *samples))
        for value, time in samples:
            unit = likely_unit(time)
            is_ms = unit is None or unit.name == "milliseconds"
            if named and is_ms and 0 <= time <= 253_402_300_799_999:
                expected.append((labels.get("instance") or "n1", time, str(to_json(value))))
            else:
                bad += 1
    answer = send(url, message)
    assert answer.status_code == (400 if bad else 204), answer.text
    found = [
        (entity, time, str(to_json(value)))
        for (_, entity), values in stored(client, name).items()
        for time, value in values
    ]
    assert sorted(found) == sorted(expected)
