import json
from typing import Any

import pyarrow as pa
import pytest

from analytics.plan.feeds import Feed
from analytics_worker.panes.stream_points import to_points

NAN = float("nan")
WIDE = pa.table(
    {
        "ts": [1, 2, None, 4],
        "station": pa.array(["a", "b", "a", None]).dictionary_encode(),
        "temp": [1.5, None, 2.0, NAN],
        "rain": pa.array([1, 2, 3, 4], pa.int32()),
        "dry": [True, False, None, True],
        "odd": [[1], [2], [3], [4]],
    }
)
LONG = pa.table(
    {
        "at": pa.array([1000, 2000], pa.timestamp("us", tz="Europe/Berlin")),
        "what": ["temp", "rain"],
        "number": [7, 8],
        "weight": [NAN, 0.5],
    }
)


def points_of(rows: pa.Table, feed: Feed, *metrics: str) -> list[Any]:
    points = to_points(rows, feed, metrics, 9).to_pylist()
    assert {point["horizon"] for point in points} <= {9}
    return [
        (p["metric"], p["entity"], p["ts"], p["value"], json.loads(p["attributes"])) for p in points
    ]


def test_each_numeric_column_is_a_metric() -> None:
    assert points_of(WIDE, Feed("w"), "temp", "rain", "ts", "none") == [
        ("temp", "w", 1, 1.5, {"entityID": "w", "station": "a", "dry": True}),
        ("rain", "w", 1, 1.0, {"entityID": "w", "station": "a", "dry": True}),
        ("rain", "w", 2, 2.0, {"entityID": "w", "station": "b", "dry": False}),
        ("rain", "w", 4, 4.0, {"entityID": "w", "dry": True}),
    ]
    by_station = Feed("w", entity="station", attributes=("dry", "temp", "odd"))
    assert points_of(WIDE, by_station, "temp", "rain") == [
        ("temp", "a", 1, 1.5, {"entityID": "a", "dry": True, "temp": 1.5}),
        ("rain", "a", 1, 1.0, {"entityID": "a", "dry": True, "temp": 1.5}),
        ("rain", "b", 2, 2.0, {"entityID": "b", "dry": False}),
        ("rain", "", 4, 4.0, {"entityID": "", "dry": True}),
    ]


def test_integers_beyond_the_range_of_floats_and_times_fail_nothing() -> None:
    """One such row once failed all insights over the stream for as long as it was stored."""
    rows = pa.table(
        {
            "ts": pa.array([1, 2**64 - 1], pa.uint64()),
            "at": [2**53 + 1, 1_795_262_400_123_456_789],
            "count": pa.array([2**64 - 1, 2**63], pa.uint64()),
        }
    )
    labels = {"entityID": "w", "at": 2.0**53}
    feed = Feed("w", attributes=("at",))
    assert points_of(rows, feed, "count") == [("count", "w", 1, 2.0**64, labels)]
    assert [value for _, _, _, value, _ in points_of(rows, feed, "at")] == [2.0**53]
    long = Feed("w", metric="what", value="at")
    rows = rows.append_column("what", pa.array(["a", "b"]))
    assert points_of(rows, long, "a") == [("a", "w", 1, 2.0**53, {"entityID": "w"})]
    times = [-(2**63), -1, 0, 253402300799999, 253402300800000, 2**63 - 1]
    odd = pa.table({"ts": pa.array(times, pa.int64()), "n": range(6)})
    assert [each[2] for each in points_of(odd, Feed("w"), "n")] == [0, 253402300799999]


def test_a_column_names_the_metric() -> None:
    feed = Feed("l", time="at", metric="what", value="number", attributes=("weight",))
    assert points_of(LONG, feed, "rain") == [
        ("rain", "l", 2, 8.0, {"entityID": "l", "weight": 0.5})
    ]
    assert points_of(LONG, feed, "temp", "rain")[0] == ("temp", "l", 1, 7.0, {"entityID": "l"})


def test_a_row_whose_entity_is_no_text_is_left_out() -> None:
    rows = pa.table({"ts": [1, 2, 3], "id": [b"a", b"\xff", None], "x": [1.0, 2.0, 3.0]})
    for entities in (rows, rows.set_column(1, "id", rows["id"].dictionary_encode())):
        assert points_of(entities, Feed("w", entity="id"), "x") == [
            ("x", "a", 1, 1.0, {"entityID": "a"}), ("x", "", 3, 3.0, {"entityID": ""}),
        ]  # fmt: skip


def test_attributes_have_the_names_that_queries_have_for_them() -> None:
    rows = pa.table({"ts": [1], "x": [1.0], "node_id": ["n"], "entity": ["e"], "groupName": ["g"]})
    named = {"entityID": "e", "node": "n", "group": "g"}
    assert points_of(rows, Feed("w"), "x") == [("x", "w", 1, 1.0, named)]
    by_entity = Feed("w", entity="entity", attributes=("entity", "node_id"))
    assert points_of(rows, by_entity, "x") == [("x", "e", 1, 1.0, {"entityID": "e", "node": "n"})]
    with pytest.raises(
        ValueError, match="several columns for the attribute `entityID`: node_id, entity"
    ):
        points_of(rows, Feed("w", entity="node_id"), "x")


def test_missing_column_is_reported() -> None:
    with pytest.raises(ValueError, match="the stream w has no column at, m"):
        to_points(WIDE, Feed("w", time="at", metric="m", value="rain"), ["x"], 0)
