"""Warnings about values that no recent point of a metric has."""

from collections.abc import Collection

import pytest

from analytics.plan.expressions import Scalar
from analytics_enabler.semantics import check

VALUES: dict[str, dict[str, list[Scalar]]] = {
    "disease": {
        "diagnosis": ["flu", "cold"],
        "site": ["n1"],
        "age": ["old", 17],
        "port": ["8080", "9090"],
        "code": [500.0, 404],
        "urgent": [True],
    }
}


def warnings(text: str, attributes: Collection[str] = ()) -> list[str]:
    checked = check(
        f"a = COMPUTE {text}",
        metrics=frozenset(["disease", "x"]),
        attributes=frozenset(attributes),
        values=VALUES,
    )
    assert checked.ok, checked.problems
    return [problem.message for problem in checked.problems]


@pytest.mark.parametrize(
    "text",
    [
        'COUNT(disease, 10 s) WHEN diagnosis == "malaria" EVERY 5 s',
        'COUNT(disease WHEN diagnosis == "malaria" AND > 5, 10 s) EVERY 5 s',
    ],
)
def test_text_that_no_point_has_causes_a_warning_with_the_values_seen(text: str) -> None:
    (warning,) = warnings(text)
    assert warning == (
        "no recent point of `disease` has the diagnosis `malaria`; values seen: cold, flu"
    )


def test_membership_in_texts_that_no_point_has_causes_a_warning() -> None:
    (warning,) = warnings('COUNT(disease, 10 s) WHEN diagnosis IN ("malaria", "typhus") EVERY 5 s')
    assert "has the diagnosis `malaria` or `typhus`" in warning


@pytest.mark.parametrize(
    "condition",
    [
        'diagnosis == "flu"',
        'diagnosis != "malaria"',
        'diagnosis IN ("malaria", "flu")',
        'diagnosis == "malaria" OR diagnosis == "flu"',
        'ward == "malaria"',
        'site == "n1"',
    ],
)
def test_condition_that_points_may_satisfy_causes_no_warning(condition: str) -> None:
    assert warnings(f"COUNT(disease, 10 s) WHEN {condition} EVERY 5 s") == []
    assert warnings('COUNT(x, 10 s) WHEN diagnosis == "malaria" EVERY 5 s') == []


@pytest.mark.parametrize(
    "text",
    [
        "COUNT(disease WHEN diagnosis < 5, 10 s) EVERY 5 s",
        "COUNT(disease) EVERY 5 s WITH ALLOW WHEN disease < diagnosis",
        "COUNT(disease) EVERY 5 s WITH ALLOW WHEN diagnosis == disease AND disease > 2",
        "COUNT(disease) EVERY 5 s WITH ALLOW WHEN MAX(disease) >= diagnosis",
        "COUNT(disease) EVERY 5 s WITH ALLOW WHEN diagnosis > 7",
    ],
)
def test_number_that_is_compared_with_texts_causes_a_warning(text: str) -> None:
    found = [each for each in warnings(text, attributes={"diagnosis"}) if "recent" in each]
    assert found == [
        "no recent point of `disease` has a number as its diagnosis; values seen: cold, flu (texts)"
    ]


@pytest.mark.parametrize(
    ("condition", "message", "hint"),
    [
        (
            "port == 8080",
            "has a number as its port; values seen: 8080, 9090 (texts)",
            'A number and a text are never equal: write the text, `"8080"`.',
        ),
        (
            "port IN (8080, 1)",
            "has a number as its port; values seen: 8080, 9090 (texts)",
            'A number and a text are never equal: write the text, `"8080"`.',
        ),
        (
            'code == "500"',
            "has the code `500`; values seen: 404, 500 (numbers)",
            "A text never equals a value of another type: without quotes, write `500`.",
        ),
        (
            'urgent == "true"',
            "has the urgent `true`; values seen: true (booleans)",
            "A text never equals a value of another type: without quotes, write `true`.",
        ),
        (
            "port > 80",
            "has a number as its port; values seen: 8080, 9090 (texts)",
            "A number and a text are never compared: the insight has no values until such points "
            "come in.",
        ),
        ("urgent == 1", "has a number as its urgent; values seen: true (booleans)", None),
    ],
)
def test_comparison_with_a_value_of_another_type_causes_a_warning(
    condition: str, message: str, hint: str | None
) -> None:
    text = f"a = COMPUTE COUNT(disease, 10 s) WHEN {condition} EVERY 5 s"
    checked = check(
        text, metrics=frozenset(["disease"]), attributes=frozenset(VALUES["disease"]), values=VALUES
    )
    (problem,) = checked.problems
    assert problem.message == f"no recent point of `disease` {message}"
    assert hint is None or problem.hint == hint


@pytest.mark.parametrize(
    "condition", ['port == "8080"', "code == 500", "code IN (500, 1)", "age > 3", "code != 7"]
)
def test_comparison_with_a_value_of_the_same_type_causes_no_warning(condition: str) -> None:
    text = f"COUNT(disease, 10 s) WHEN {condition} EVERY 5 s"
    assert warnings(text, attributes=VALUES["disease"]) == []


def test_text_in_allow_that_no_point_has_causes_a_warning() -> None:
    (warning,) = warnings('COUNT(disease) EVERY 5 s WITH ALLOW WHEN diagnosis == "malaria"')
    assert "has the diagnosis `malaria`" in warning


def test_comparison_with_attributes_that_can_be_numbers_causes_no_warning() -> None:
    allow = "EVERY 5 s WITH ALLOW WHEN"
    assert warnings(f"COUNT(disease) {allow} ward <= 4", attributes={"ward"}) == []
    assert warnings(f"COUNT(disease) {allow} disease < age", attributes={"age"}) == []
    either = f"COUNT(disease) {allow} (disease < 3 OR diagnosis > 3)"
    assert warnings(either, attributes={"diagnosis"}) == []


def test_similar_text_is_suggested() -> None:
    text = 'a = COMPUTE COUNT(disease, 10 s) WHEN diagnosis == "colt" EVERY 5 s'
    checked = check(text, metrics=frozenset(["disease"]), values=VALUES)
    assert [problem.hint for problem in checked.problems] == ["Did you mean `cold`?"]


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


@pytest.mark.parametrize(
    ("text", "attributes", "expected"),
    [
        ("COUNT(x) EVERY 5 s WITH ALLOW WHEN x == nowhere", {"rack"}, ["nowhere"]),
        ("COUNT(x WHEN < nowhere) EVERY 5 s", {"rack"}, ["nowhere"]),
        ("COUNT(x) EVERY 5 s WITH ALLOW WHEN x == rack", {"rack"}, []),
        ("COUNT(x) EVERY 5 s WITH ALLOW WHEN x == node", {"rack"}, []),
        ("COUNT(x) BY limit WHEN > limit EVERY 5 s", {"rack"}, []),
    ],
)
def test_unknown_attribute_that_is_compared_with_a_value_causes_a_warning(
    text: str, attributes: set[str], expected: list[str]
) -> None:
    found = [each for each in warnings(text, attributes) if "interpreted" in each]
    assert found == [
        f"`{name}` is interpreted as an attribute: no point of a metric of this name has arrived "
        "yet"
        for name in expected
    ]
