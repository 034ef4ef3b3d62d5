"""Warnings about positions and geohashes that no recent point can have."""

import pytest

from analytics_enabler.semantics import check


@pytest.mark.parametrize(("seen", "expected"), [(["ward 3", "home"], 1), (["home", "35.1,33"], 0)])
def test_geohash_of_texts_that_are_no_positions_causes_a_warning(
    seen: list[str], expected: int
) -> None:
    checked = check(
        "a = COMPUTE GEOHASH[5](place) BY node EVERY 5 s",
        metrics=frozenset(["place"]),
        values={"place": {"place": seen}},
    )
    assert checked.ok
    found = [each.message for each in checked.problems if "has a position" in each.message]
    assert len(found) == expected
    assert all("values seen: home, ward 3" in message for message in found)


@pytest.mark.parametrize("text", ["u33", "u33dc1", "ail00", "U33DC"])
@pytest.mark.parametrize("is_left", [False, True])
def test_comparison_with_a_text_that_is_no_geohash_causes_a_warning(
    text: str, is_left: bool
) -> None:
    sides = f'"{text}" != GEOHASH[5](place)' if is_left else f'GEOHASH[5](place) == "{text}"'
    checked = check(f"a = COMPUTE AVG(cpu) BY node WHEN {sides} EVERY 5 s")
    (problem,) = checked.problems
    assert problem.message == f"no position has the geohash `{text}` of 5 characters"


def test_comparison_with_a_geohash_causes_no_warning() -> None:
    text = 'a = COMPUTE AVG(cpu) BY node WHEN GEOHASH[5](place) == "u33dc" EVERY 5 s'
    assert check(text).problems == ()


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("a = COMPUTE GEOHASH[5](cpu) BY node EVERY 5 s", ["cpu"]),
        (
            'here: STREAM FROM position(metric="cpu", latitude="lat", longitude="lng");'
            " a = COMPUTE GEOHASH[5](here) BY node EVERY 5 s",
            ["lng"],
        ),
    ],
)
def test_position_in_attributes_that_no_point_has_causes_a_warning(
    text: str, unknown: list[str]
) -> None:
    points = {"cpu": [{"entityID": "n1", "lat": 35.0, "lon": 33.0}]}
    checked = check(text, metrics=frozenset(["cpu"]), points=points)
    assert [each.message for each in checked.problems] == [
        f"no recent point of `cpu` has the attribute `{name}`" for name in unknown
    ]
