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
        "ward": [],
        "entityID": ["p1", "p2"],
        "region": ["east"],
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


NEVER = (
    "A comparison of values of different types is never true. The insight has no values until such "
    "points come in."
)


@pytest.mark.parametrize(
    ("condition", "message", "hint"),
    [
        (
            "port == 8080",
            "has a number as its port; values seen: 8080, 9090 (texts)",
            'Values of different types are never equal: write the text, `"8080"`.',
        ),
        (
            "port IN (1, 8080)",
            "has a number as its port; values seen: 8080, 9090 (texts)",
            'Values of different types are never equal: write the text, `"8080"`.',
        ),
        (
            'code == "500"',
            "has a text as its code; values seen: 404, 500 (numbers)",
            "Values of different types are never equal: without quotes, write `500`.",
        ),
        (
            'urgent == "true"',
            "has a text as its urgent; values seen: true (booleans)",
            "Values of different types are never equal: without quotes, write `true`.",
        ),
        ("port > 80", "has a number as its port; values seen: 8080, 9090 (texts)", NEVER),
        ("urgent == 1", "has a number as its urgent; values seen: true (booleans)", NEVER),
        ('code != "7"', "has a text as its code; values seen: 404, 500 (numbers)", NEVER),
        ("port NOT IN (7)", "has a number as its port; values seen: 8080, 9090 (texts)", NEVER),
        ("code == true", "has a boolean as its code; values seen: 404, 500 (numbers)", NEVER),
        (
            'urgent IN (1, "x")',
            "has a number or a text as its urgent; values seen: true (booleans)",
            NEVER,
        ),
        (
            'port IN (8080, "x")',
            "has the port `x`; values seen: 8080, 9090",
            "The insight has no values until such points come in.",
        ),
    ],
)
def test_comparison_that_no_point_satisfies_causes_a_warning(
    condition: str, message: str, hint: str
) -> None:
    for by in ("", "BY port, code, urgent "):
        text = f"a = COMPUTE COUNT(disease, 10 s) {by}WHEN {condition} EVERY 5 s"
        checked = check(
            text,
            metrics=frozenset(["disease"]),
            attributes=frozenset(VALUES["disease"]),
            values=VALUES,
        )
        (problem,) = checked.problems
        assert problem.message == f"no recent point of `disease` {message}"
        assert problem.hint == hint


@pytest.mark.parametrize(
    "condition", ['port == "8080"', "code == 500", "code IN (500, 1)", "age > 3", "code != 7"]
)
def test_comparison_with_a_value_of_the_same_type_causes_no_warning(condition: str) -> None:
    text = f"COUNT(disease, 10 s) WHEN {condition} EVERY 5 s"
    assert warnings(text, attributes=VALUES["disease"]) == []


def test_entity_that_no_point_has_causes_a_warning() -> None:
    (warning,) = warnings("AVG(disease FROM (p9)) EVERY 5 s")
    assert warning == (
        "no recent point of `disease` belongs to the entity `p9`; values seen: p1, p2"
    )
    assert warnings("AVG(disease FROM (p9, p2)) EVERY 5 s") == []


@pytest.mark.parametrize(
    ("condition", "hint"),
    [
        ('regoin == "east"', "Did you mean `region`?"),
        ("coda == 5", "Did you mean `code`?"),
        ("coda > 5", "Did you mean `code`?"),
        ('stop == "x"', "The points have the attributes `age`, `code`, `diagnosis`, `entityID`"),
        ("cost > 5", "If the metric of this name is meant, name it in a function: `MAX(cost)`."),
        ("level < 3 OR code == 3", "The points have the attributes"),
        ('disease == "flu"', "The points have the attributes"),
    ],
)
def test_attribute_that_no_point_has_causes_a_warning(condition: str, hint: str) -> None:
    checked = check(
        f"a = COMPUTE COUNT(disease WHEN {condition}, 10 s) EVERY 5 s",
        metrics=frozenset(["disease", "cost"]),
        attributes=frozenset(VALUES["disease"]) | {"stop"},
        values=VALUES,
    )
    (problem,) = checked.problems
    assert problem.message == (
        f"no recent point of `disease` has the attribute `{condition.split()[0]}`"
    )
    assert (problem.hint or "").startswith(hint)


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


def test_metric_in_allow_that_is_not_read_has_no_second_problem() -> None:
    checked = check(
        "a = COMPUTE COUNT(disease) EVERY 5 s WITH ALLOW WHEN cost < 10",
        metrics=frozenset(["disease", "cost"]),
        attributes=frozenset(VALUES["disease"]),
        values=VALUES,
    )
    (problem,) = checked.problems
    assert "is a metric that this insight does not read" in problem.message
