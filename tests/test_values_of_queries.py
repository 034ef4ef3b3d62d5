"""The values of queries over a few points, calculated by hand."""

import json
import math
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from analytics.plan.nodes import Plan
from analytics_enabler.optimizer import optimize
from analytics_enabler.semantics import check
from analytics_worker.evaluate.composition import compose
from analytics_worker.stateful.state_table import StateTable
from tests.analytics_enabler.support import plan_of
from tests.oracle.sql import POINTS as POINTS_OF_ORACLE
from tests.oracle.sql import answers, opened
from tests.support.points import Row, points
from tests.support.windows import windows_of

HOUR_MS = 3_600_000
VALUES = {
    ("x", "e1", "north"): (1.0, 2.0, 6.0),
    ("x", "e2", "south"): (4.0, 4.0, 10.0),
    ("y", "e1", "north"): (2.0, 4.0, 12.0),
    ("y", "e2", "south"): (5.0, 5.0, 11.0),
}
LABELS: dict[str, dict[str, float | bool]] = {"e1": {"spare": True}, "e2": {"rack": 7.0}}
POINTS = points(
    [
        Row(
            metric=metric,
            entity=entity,
            ts=1000 * second + 500,
            value=value,
            attributes={"region": region, "entity": entity, **LABELS[entity]},
        )
        for (metric, entity, region), values in VALUES.items()
        for second, value in enumerate(values)
    ]
)
NORTH, SOUTH = '{"region":"north"}', '{"region":"south"}'
ALL = "{}"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SDEV(x, 3 s)", {ALL: math.sqrt((1 + 4 + 36 + 16 + 16 + 100) / 6 - (27 / 6) ** 2)}),
        ("VARIANCE(x, 3 s) BY region", {NORTH: 14 / 3, SOUTH: 8.0}),
        ("MEDIAN(x, 3 s)", {ALL: 4.0}),
        ("MODE(x, 3 s)", {ALL: 4.0}),
        ("GEOMETRIC_MEAN(x, 3 s) BY region", {NORTH: 12 ** (1 / 3), SOUTH: 160 ** (1 / 3)}),
        ("CORRELATION(x, y, 3 s) BY region", {NORTH: 1.0, SOUTH: 1.0}),
        ("PERCENTILE[25](x, 3 s) BY region", {NORTH: 1.5, SOUTH: 4.0}),
        ("x BY region", {NORTH: 6.0, SOUTH: 10.0}),
        ("x WHEN region == 'north'", {ALL: 6.0}),
        ("AVG(x, 1 s, 2 s)", {ALL: 2.5}),
        ("SUM(x, 1 s, 1500 ms)", {ALL: 6.0}),
        ("SUM(x, 3 s) BY region / COUNT(x, 3 s) BY region", {NORTH: 3.0, SOUTH: 6.0}),
        ("SUM(x, 3 s) BY region / SUM(x, 3 s)", {NORTH: 9 / 27, SOUTH: 18 / 27}),
        ("MIN(SUM(x, 3 s) BY region - COUNT(x, 3 s) BY region)", {ALL: 6.0}),
        ("SUM(x) BY region WHEN > AVG(y) BY region", {}),
        ("SUM(x, 3 s) BY region WHEN > AVG(y) BY region", {SOUTH: 18.0}),
        ("SUM(x) WHEN region == north", {ALL: 6.0}),
        ("SUM(x WHEN region != north) BY region", {SOUTH: 10.0}),
        ("SUM(x) BY region WHEN region IN (south, west)", {SOUTH: 10.0}),
        ("MEDIAN(SUM(x), 3 s)", {ALL: 6.0}),
        ("MAX(SUM(x) BY region, 3 s)", {ALL: 10.0}),
        ("COUNT(SUM(x) WHEN > 5, 3 s)", {ALL: 2.0}),
        ("CORRELATION(SUM(x), SUM(y), 3 s)", {ALL: 0.9994664294862463}),
        ("EWMA(x) BY region", {NORTH: 0.3 * 6 + 0.7 * 1.3, SOUTH: 0.3 * 10 + 0.7 * 4}),
        ("MAX(x) - MAX(x, 1 s, 1 s) BY region", {NORTH: 4.0, SOUTH: 6.0}),
        ("MAX(AVG(x, 3 s) BY region)", {ALL: 6.0}),
        ("COUNT(SUM(x) BY entity) BY region", {NORTH: 1.0, SOUTH: 1.0}),
        ("AVG((SUM(x, 3 s) BY region WHEN > 10))", {ALL: 18.0}),
        ("(SUM(x, 3 s) BY region) / SUM(x, 3 s)", {NORTH: 9 / 27, SOUTH: 18 / 27}),
        ("SUM(x) - (MIN(x) BY region)", {NORTH: 10.0, SOUTH: 6.0}),
        ("SUM(x) BY region WHEN > AVG(SUM(x))", {}),
        ("SUM(x) BY region WHEN >= MAX(SUM(x) BY region)", {NORTH: 6.0, SOUTH: 10.0}),
        ("(SUM(x) WHEN region == 'north') / SUM(y)", {ALL: 6 / 23}),
        ("SQRT(MAX(x)) + ABS(-MIN(y)) + SQR(2) * LOG(EXP(COUNT(x)))",
         {ALL: math.sqrt(10) + 11 + 4 * 2}),
        ("MAX(SUM(x) BY region) WHEN > 3", {ALL: 10.0}),
        ("SQRT(-MAX(x))", {}),
        ("LOG(SUM(x) - 16)", {}),
        ("RUNNING_COUNT(x) + RUNNING_MEAN(x)", {ALL: 6 + 27 / 6}),
        ("RUNNING_MAX(x) - RUNNING_MIN(x) BY region", {NORTH: 5.0, SOUTH: 6.0}),
        ("RUNNING_SDEV(x) / SDEV(x, 3 s)", {ALL: 1.0}),
        ("EWMA[0.5](x) BY region", {NORTH: 3.75, SOUTH: 7.0}),
        ("PEWMA[0.5](x) BY region", {NORTH: 3.0, SOUTH: 6.0}),
        ("DIFF(x WHEN > 1) BY region", {NORTH: 4.0, SOUTH: 6.0}),
        ("DIFF(x)", {ALL: 10.0 - 6.0}),
        ("x BY region WHEN > RUNNING_MEAN(x) + 3", {SOUTH: 10.0}),
    ],
)  # fmt: skip
def test_value_at_the_last_tick(query: str, expected: dict[str, float]) -> None:
    assert {row["key"]: row["value"] for row in last_results(query)} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("GEOHASH[4](x, y) BY region", {NORTH: "s30d", SOUTH: "s1zb"}),
        ("GEOHASH[3](x * 10, y) BY region", {NORTH: "u68"}),  # 100 degrees are none of latitude
        ("GEOHASH[3]((x BY region), y)", {NORTH: "s30", SOUTH: "s3b"}),
        ("GEOHASH[4](x, y) BY region WHEN == 's30d'", {NORTH: "s30d"}),
        ("GEOHASH[4](x, y) BY region WHEN NOT IN ('s30d', 'u33d')", {SOUTH: "s1zb"}),
    ],
)
def test_text_at_the_last_tick(query: str, expected: dict[str, str]) -> None:
    rows = last_results(query)
    assert {row["key"]: row["text"] for row in rows} == expected
    assert all(row["value"] is None for row in rows)


@pytest.mark.parametrize(
    "condition",
    [
        "GEOHASH[4](x, y) == 's30d'",
        "GEOHASH[4](x, y) != GEOHASH[4](y, x) AND GEOHASH[2](x, y) != region AND < 10",
        "GEOHASH[1](50, x) == 'u' AND GEOHASH[3](x, 1) IN ('s10', 's0b')",
    ],
)
def test_conditions_on_texts(condition: str) -> None:
    assert [row["key"] for row in last_results(f"x BY region WHEN {condition}")] == [NORTH]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("region WHEN x > RUNNING_MEAN(x) + RUNNING_SDEV(x)", [(2500, ALL, "south")]),
        ("region WHEN x < 3", []),  # at each moment, the latest and greatest is above
        ("region BY entity WHEN x < 3",
         [(500, '{"entityID":"e1"}', "north"), (1500, '{"entityID":"e1"}', "north")]),
        ("rack WHEN x > 9", [(2500, ALL, "7")]),
        ("spare WHEN x FROM (e1) > 5", [(2500, ALL, "true")]),
        ("spare WHEN x > 9", []),  # that point has no such attribute
        ("region WHEN x < 9 AND y > 4 AND region == 'north' EVERY 1 s",
         [(3000, ALL, "north")]),
        ("region BY region WHEN AVG(x, 3 s) > 5 EVERY 1 s", [(3000, SOUTH, "south")]),
        ("region EVERY 3 s WITH ALLOW WHEN x < 9", [(3000, ALL, "north")]),
        ("rack EVERY 3 s WITH ALLOW WHEN x == MAX(x)", [(3000, ALL, "7")]),
    ],
)  # fmt: skip
def test_attribute_of_the_latest_point(query: str, expected: list[tuple[int, str, str]]) -> None:
    rows = results_of(f"q = COMPUTE {query}", frozenset({"x", "y"}))
    found = [(row["ts"], row["key"], row["text"]) for row in rows if row["ts"] <= 3000]
    assert found == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SUM(x) WHEN x > 5", {ALL: 16.0}),
        ("SUM(x) BY region WHEN y > x", {NORTH: 6.0, SOUTH: 10.0}),
        ("SUM(x) BY region WHEN y > 11 AND region != 'south'", {NORTH: 6.0}),
        ("COUNT((SUM(x) BY region WHEN x > 6))", {ALL: 1.0}),
        ("SUM(x) WHEN rack == 7", {ALL: 10.0}),
        ("z WHEN z > 1", {}),
    ],
)
def test_metrics_by_themselves_in_conditions(query: str, expected: dict[str, float]) -> None:
    rows = results_of(f"q = COMPUTE {query} EVERY 1 s", frozenset({"x", "y"}))
    assert {row["key"]: row["value"] for row in rows if row["ts"] == 3000} == expected


def test_oracle_refuses_allow_of_a_metric_that_is_not_read() -> None:
    rows = [
        {"metric": metric, "entity": "e", "attributes": "{}", "ts": 500, "value": 1.0, "horizon": 0}
        for metric in ("x", "cost")
    ]
    text = "q = COMPUTE SUM(x) EVERY 1 s WITH ALLOW WHEN {} < 10"
    with opened(pa.Table.from_pylist(rows, POINTS_OF_ORACLE)) as connection:
        found = answers(text.format("x"), connection, 0, 1000)
        assert [answer.value for answer in found.values()] == [1.0]
        with pytest.raises(ValueError, match="ALLOW names cost"):
            answers(text.format("cost"), connection, 0, 1000)


def test_several_values_and_their_bounds() -> None:
    (top,) = last_results("TOP_K[3](x, 3 s)")
    assert (top["value"], top["values"]) == (4.0, [10.0, 6.0, 4.0])
    (bins,) = last_results("HISTOGRAM[3](x, 3 s)")
    assert (bins["value"], bins["values"]) == (6.0, [2.0, 3.0, 1.0])
    assert (bins["low"], bins["high"]) == (1.0, 10.0)
    (odd,) = last_results("OUTLIER_DETECTION(x, 3 s)", " WITH ALGORITHM pmcod AND K=1 AND R=1")
    assert (odd["value"], odd["values"]) == (2.0, [6.0, 10.0])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("AVG(x, 1500 ms) BY entity", [("e1", 500, 1.0), ("e1", 1500, 1.5), ("e1", 2500, 4.0),
                                     ("e2", 500, 4.0), ("e2", 1500, 4.0), ("e2", 2500, 7.0)]),
        ("x BY entity WHEN > 5", [("e1", 2500, 6.0), ("e2", 2500, 10.0)]),
        ("x - AVG(x, 2 s) WHEN entity == 'e1'", [("", 500, 0.0), ("", 1500, 0.5), ("", 2500, 2.0)]),
        ("COUNT(x FROM (e1), 1 s) + COUNT(y, 1 s)", [("", 500, 3), ("", 1500, 3), ("", 2500, 3)]),
        ("EWMA[0.5](x) BY entity", [("e1", 500, 1.0), ("e1", 1500, 1.5), ("e1", 2500, 3.75),
                                    ("e2", 500, 4.0), ("e2", 1500, 4.0), ("e2", 2500, 7.0)]),
        ("x WHEN > RUNNING_MEAN(x)", [("", 500, 4.0), ("", 1500, 4.0), ("", 2500, 10.0)]),
        ("DIFF(x FROM (e1))", [("", 1500, 1.0), ("", 2500, 4.0)]),
        ("MAX(x, 1 s) - MAX(x, 1 s, 1 s)", [("", 1500, 0.0), ("", 2500, 6.0)]),
        ("CORRELATION(x, y, 3 s)", [("", 500, 1.0), ("", 1500, 6 / math.sqrt(6.75 * 6)),
                                    ("", 2500, 56.5 / math.sqrt(51.5 * 81.5))]),
        ("COUNT(x, 9 s) BY entity EVERY 2 POINTS", [("e1", 1500, 2.0), ("e2", 1500, 2.0)]),
        ("SUM(x, 9 s) EVERY 3 POINTS", [("", 1500, 11.0), ("", 2500, 27.0)]),
        ("COUNT(x WHEN > 3, 9 s) + COUNT(x, 9 s) EVERY 5 POINTS", [("", 2500, 10.0)]),
        ("COUNT(x, 9 s) + COUNT(y, 9 s) EVERY 8 POINTS", [("", 1500, 8.0)]),
        ("RUNNING_COUNT(x) EVERY 4 POINTS", [("", 1500, 4.0)]),
        ("x BY entity WHEN < 3 EVERY 2 POINTS", [("e1", 1500, 2.0)]),
        ("(COUNT(x, 9 s) BY entity) / COUNT(x, 9 s) EVERY 3 POINTS",
         [("e1", 2500, 0.5), ("e2", 2500, 0.5)]),
    ],
)  # fmt: skip
def test_values_at_each_point(query: str, expected: list[tuple[str, int, float]]) -> None:
    found = [
        (json.loads(row["key"]).get("entityID", ""), row["ts"], row["value"])
        for row in results_of(f"q = COMPUTE {query}")
    ]
    assert sorted((who, ts) for who, ts, _ in found) == [(who, ts) for who, ts, _ in expected]
    values = [value for _, _, value in sorted(found)]
    assert values == pytest.approx([value for _, _, value in expected], abs=1e-3)


def test_a_day_ends_by_the_clocks_of_its_zone() -> None:
    # Where 23:30 and then 22:30 of UTC are half an hour after midnight.
    begin = round(datetime(2026, 3, 27, tzinfo=UTC).timestamp() * 1000)
    hourly = points([Row(metric="x", ts=begin + hour * HOUR_MS, value=hour) for hour in range(96)])
    query = 'q = COMPUTE MAX(x, 1 DAY) - MIN(x, 1 DAY) EVERY 1 DAYS AT 00:30 "Europe/Berlin"'
    plan = optimize(plan_of(query)).plan
    rows = compose(windows_of(hourly, plan), plan, StateTable()).to_pylist()
    found = [((row["ts"] - begin) / HOUR_MS, row["value"]) for row in rows]
    assert sorted(found) == [(23.5, 23), (47.5, 23), (70.5, 23), (94.5, 23), (118.5, 0)]


def last_results(query: str, options: str = "") -> list[dict[str, Any]]:
    rows = results_of(f"q = COMPUTE {query} EVERY 1 s{options}")
    return [row for row in rows if row["ts"] == 3000]


def results_of(text: str, metrics: frozenset[str] | None = None) -> list[dict[str, Any]]:
    checked = check(text, metrics)
    assert checked.ok, checked.problems
    plan = optimize(Plan(insights=tuple(one.deployed("q", 0) for one in checked.definitions))).plan
    rows: list[dict[str, Any]] = compose(windows_of(POINTS, plan), plan, StateTable()).to_pylist()
    return rows
