"""Labels of random points, compared with DuckDB; geohashes, compared with a bitwise computation."""

import json
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.plan.nodes import Plan
from analytics_enabler.optimizer import optimize
from analytics_enabler.semantics import check
from analytics_worker.evaluate.composition import compose
from analytics_worker.stateful.state_table import StateTable
from tests.support.points import Row, points
from tests.support.windows import windows_of

_labels = st.fixed_dictionaries(
    {"region": st.sampled_from(["n", "s"])},
    optional={"rack": st.sampled_from(["a", "b", 7.0, 2.5, True])},
)
_rows = st.lists(
    st.builds(
        Row,
        metric=st.sampled_from(["x", "y"]),
        entity=st.sampled_from(["e1", "e2"]),
        ts=st.integers(1, 40).map(lambda step: 100 * step),
        value=st.integers(-3, 9).map(float),
        attributes=_labels,
    ),
    min_size=1,
    max_size=25,
)
_LATEST = """
    select t, region, rack from (
        select t, region, rack, value, row_number() over (
            partition by t, region order by ts desc, value desc, rack nulls last) as place
        from ({times}) join given using (region) where metric = 'x' and ts <= t)
    where place = 1 and value > 2 and rack is not null"""
_TICKS = "select distinct t, region from range(1000, 4001, 1000) as x(t), given"
_POINTS = "select distinct ts as t, region from given where metric = 'x'"


def results(query: str, rows: list[Row]) -> list[dict[str, Any]]:
    attributes = frozenset({"rack", "region", "zone"})
    checked = check(f"q = COMPUTE {query}", frozenset({"x", "y"}), attributes=attributes)
    assert checked.ok, checked.problems
    plan = optimize(Plan(insights=tuple(one.deployed("q", 0) for one in checked.definitions))).plan
    answers: list[dict[str, Any]] = compose(
        windows_of(points(rows), plan), plan, StateTable()
    ).to_pylist()
    return [row for row in answers if row["ts"] <= 4000]


def by_region(answers: list[dict[str, Any]]) -> dict[tuple[int, str], str]:
    return {(row["ts"], json.loads(row["key"])["region"]): row["text"] for row in answers}


@pytest.mark.parametrize(("every", "times"), [(" EVERY 1 s", _TICKS), ("", _POINTS)])
@settings(max_examples=15, deadline=None)
@given(_rows)
def test_labels_are_those_of_the_latest_points(every: str, times: str, rows: list[Row]) -> None:
    written: dict[object, object] = {7.0: "7", 2.5: "2.5", True: "true"}
    given = pa.Table.from_pylist(
        [
            {"metric": row.metric, "ts": row.ts, "value": row.value,
             "region": row.attributes["region"],
             "rack": written.get(rack := row.attributes.get("rack"), rack)}
            for row in rows
        ],
        pa.schema([("metric", pa.string()), ("ts", pa.int64()), ("value", pa.float64()),
                   ("region", pa.string()), ("rack", pa.string())]),
    )  # fmt: skip
    with duckdb.connect() as connection:
        connection.register("given", given)
        wanted = connection.execute(_LATEST.format(times=times)).fetchall()
    found = by_region(results(f"rack BY region WHEN x > 2{every}", rows))
    assert found == {(t, region): rack for t, region, rack in wanted}


@settings(max_examples=15, deadline=None)
@given(_rows, st.integers(1, 12))
def test_geohashes_are_those_calculated_bit_by_bit(rows: list[Row], size: int) -> None:
    query = f"GEOHASH[{size}](x * 11, y) BY region EVERY 1 s"
    numbers = {
        metric: {
            (row["ts"], json.loads(row["key"])["region"]): row["value"]
            for row in results(f"{metric} BY region EVERY 1 s", rows)
        }
        for metric in ("x", "y")
    }
    wanted = {
        place: geohash(11 * x, numbers["y"][place], size)
        for place, x in numbers["x"].items()
        if place in numbers["y"] and abs(11 * x) <= 90
    }
    assert by_region(results(query, rows)) == wanted


_TIED: tuple[tuple[dict[str, str | float | bool], str, bool], ...] = (
    ({"e1": 1.0, "e2": "r"}, "rack <= COUNT(x, 1 s)", True),
    ({"e1": "0", "e2": 2.0}, "rack <= COUNT(x, 1 s)", False),
    ({"e1": "2", "e2": 2.0}, "rack <= COUNT(x, 1 s)", True),
    ({"e1": "2", "e2": 2.0}, '(rack == "2" OR MAX(x, 1 s) < 0)', False),
    ({"e1": "r", "e2": "q"}, '(rack == "q" OR MAX(x, 1 s) < 0)', True),
    ({"e1": 2.0, "e2": 2.0}, '(rack == "2" OR MAX(x, 1 s) < 0)', False),
    ({"e1": 2.0, "e2": 2.0}, '(rack IN (1, "r", 2) OR MAX(x, 1 s) < 0)', True),
    ({"e1": "r", "e2": "r"}, '(rack IN (1, "r", true) OR MAX(x, 1 s) < 0)', True),
    ({"e1": True, "e2": "true"}, "(rack == true OR MAX(x, 1 s) < 0)", True),
    ({"e1": "true", "e2": "true"}, "(rack == true OR MAX(x, 1 s) < 0)", False),
    ({"e1": True, "e2": True}, "(rack IN (2, true) OR MAX(x, 1 s) < 0)", True),
    ({"e1": "z", "e2": "z"}, "(rack == zone OR MAX(x, 1 s) < 0)", True),
    ({"e1": 1.0, "e2": 1.0}, "(rack == zone OR MAX(x, 1 s) < 0)", False),
    ({"e1": "z", "e2": "z"}, "(rack != zone OR MAX(x, 1 s) < 0)", False),
    ({"e1": 1.0, "e2": 1.0}, "(rack != zone OR MAX(x, 1 s) < 0)", False),
)


@pytest.mark.parametrize("every", [" EVERY 1 s", ""])
@pytest.mark.parametrize(("racks", "condition", "holds"), _TIED)
def test_allow_reads_the_first_text_of_tied_points_in_its_own_type(
    racks: dict[str, str | float | bool], condition: str, holds: bool, every: str
) -> None:
    rows = [
        Row(metric="x", entity=entity, ts=900, value=3.0, attributes={"rack": rack, "zone": "z"})
        for entity, rack in racks.items()
    ]
    query = f"COUNT(x, 1 s){every} WITH ALLOW WHEN {condition}"
    for ordered in (rows, rows[::-1]):
        assert [row["value"] for row in results(query, ordered)] == [2.0] * holds


def geohash(latitude: float, longitude: float, size: int) -> str:
    ranges = [[-180.0, 180.0], [-90.0, 90.0]]
    bits = ""
    for place in range(5 * size):
        degrees, half = (longitude, latitude)[place % 2], ranges[place % 2]
        middle = sum(half) / 2
        bits += str(int(degrees >= middle))
        half[degrees < middle] = middle
    letters = "0123456789bcdefghjkmnpqrstuvwxyz"
    return "".join(letters[int(bits[at : at + 5], 2)] for at in range(0, len(bits), 5))
