"""Warnings about the value of one entity among several, and about sums of levels."""

import pytest

from analytics_enabler.semantics import check
from analytics_enabler.semantics.checks.context import MAX_POINTS, PointAttributes, Points

POINTS = {
    "delay": [
        {"entityID": bus, "region": region, "site": "depot"}
        for bus, region in [("bus-1", "west"), ("bus-2", "west"), ("bus-3", "east")]
    ]
}
UNITS = {"delay": "s", "cpu": "%", "riders": "people"}


def warnings(text: str, points: Points = POINTS) -> list[str]:
    checked = check(
        f"a = COMPUTE {text}",
        metrics=frozenset(["delay", "cpu", "riders"]),
        points=points,
        units=UNITS,
    )
    assert checked.ok, checked.problems
    return [problem.message for problem in checked.problems]


def test_value_of_one_of_several_entities_causes_a_warning_with_the_largest_key() -> None:
    (warning,) = warnings("delay BY region EVERY 5 s")
    assert warning == (
        "`delay` without a function is the latest value of a single entity, and there are 2 with "
        "`region=west`"
    )
    (warning,) = warnings("ABS(delay) EVERY 5 s")
    assert warning.endswith("a single entity, and there are 3")


@pytest.mark.parametrize(
    ("buses", "number"), [(MAX_POINTS - 1, f"{MAX_POINTS - 1}"), (MAX_POINTS, "at least 500")]
)
def test_count_of_entities_is_a_minimum_if_there_may_be_more(buses: int, number: str) -> None:
    lines = 1 if buses < MAX_POINTS else 2
    points = [{"entityID": f"bus-{each}", "line": f"{each % lines}"} for each in range(buses)]
    (warning,) = warnings("delay BY line EVERY 5 s", {"delay": points})
    assert warning.endswith(f"of a single entity, and there are {number} with `line=0`")


@pytest.mark.parametrize(
    ("key", "words"),
    [({}, "no `line`"), ({"line": True}, "`line=true`"), ({"line": 7.0}, "`line=7`")],
)
def test_key_is_written_as_in_the_language(key: PointAttributes, words: str) -> None:
    points = [{"entityID": bus, **key} for bus in ("bus-1", "bus-2")]
    found = warnings("delay BY line EVERY 5 s", {"delay": points})
    (warning,) = [each for each in found if "single entity" in each]
    assert warning.endswith(f"there are 2 with {words}")


def test_repeated_value_causes_one_warning() -> None:
    assert len(warnings("delay - 2 * delay BY site EVERY 5 s")) == 1


@pytest.mark.parametrize(
    "text",
    [
        "delay BY entityID EVERY 5 s",
        "delay BY region, entityID EVERY 5 s",
        "SUM(delay BY entityID) BY region EVERY 5 s",
        "AVG(delay, 1 MINUTE) BY region EVERY 5 s",
        "riders BY region EVERY 5 s",
        "delay",  # a value for each point
        'delay FROM ("bus-1") EVERY 5 s',
        'delay WHEN entityID == "bus-1" EVERY 5 s',
        'delay BY region WHEN region == "east" EVERY 5 s',
        'delay WHEN entityID IN ("bus-1") EVERY 5 s',
        'delay WHEN site != "mast" EVERY 5 s',  # unclear
    ],
)
def test_value_of_one_entity_causes_no_warning(text: str) -> None:
    assert [each for each in warnings(text) if "single entity" in each] == []


def test_argument_of_an_unknown_function_causes_no_warning() -> None:
    checked = check(
        "a = COMPUTE AVGG(delay, 5 s) EVERY 5 s", metrics=frozenset(["delay"]), points=POINTS
    )
    assert [each.message for each in checked.problems] == ["there is no function `AVGG`"]


def test_sum_of_a_gauge_over_time_causes_a_warning() -> None:
    (warning,) = warnings("SUM(cpu, 1 MINUTE) BY node EVERY 5 s")
    assert warning == (
        "SUM adds all points of its window, and `cpu` is a gauge, in `%`: the sum grows with the "
        "number of points"
    )


@pytest.mark.parametrize(
    "text", ["SUM(riders, 1 MINUTE)", "SUM(cpu BY node)", "AVG(cpu, 1 MINUTE)", "COUNT(cpu, 1 h)"]
)
def test_sum_of_what_may_be_an_amount_causes_no_warning(text: str) -> None:
    assert warnings(f"{text} EVERY 5 s") == []
