"""Bare names in conditions that are texts, and the warnings about their meaning."""

from pathlib import Path

import pytest

from analytics.plan.text import expression_text
from analytics_enabler.semantics import Checked, check
from tests.support.operators import install_example_operators

METRICS = frozenset({"cpu", "mem", "disease", "request"})
ATTRIBUTES = frozenset({"disease", "region", "ip", "movie"})


def checked(insight: str) -> Checked:
    return check(f"a = COMPUTE {insight}", METRICS, attributes=ATTRIBUTES)


def meaning(insight: str) -> str:
    """Return the insight in the language of plans; its bare names have warnings."""
    found = checked(insight)
    assert found.ok, found.problems
    (definition,) = found.definitions
    text = expression_text(definition.expression, definition.by)
    if definition.filter is None:
        return text
    return f"{text} IF {expression_text(definition.filter, definition.by)}"


@pytest.mark.parametrize(
    ("insight", "expected"),
    [
        ("COUNT(cpu WHEN region == east) EVERY 5 s", 'COUNT(cpu WHEN region == "east", 5 SECONDS)'),
        (
            "COUNT(disease WHEN == malaria) EVERY 5 s",
            'COUNT(disease WHEN disease == "malaria", 5 SECONDS)',
        ),
        (
            "COUNT(disease WHEN disease == malaria) EVERY 5 s",
            'COUNT(disease WHEN disease == "malaria", 5 SECONDS)',
        ),
        (
            "COUNT(disease) WHEN malaria != disease EVERY 5 s",
            'COUNT(disease WHEN "malaria" != disease, 5 SECONDS)',
        ),
        (
            "COUNT(cpu) EVERY 5 s WITH ALLOW WHEN disease == flu",
            'COUNT(cpu WHEN disease == "flu", 5 SECONDS)',
        ),
    ],
)
def test_bare_name_beside_an_attribute_is_a_text(insight: str, expected: str) -> None:
    assert meaning(insight) == expected
    assert [each.message for each in checked(insight).problems if "as a text" in each.message]


@pytest.mark.usefixtures("processes")
def test_bare_name_beside_an_operator_over_attributes_is_a_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_example_operators(tmp_path, monkeypatch)
    insight = "COUNT(request WHEN ipToCountry(ip) == CY) EVERY 5 s"
    assert meaning(insight) == 'COUNT(request WHEN IPTOCOUNTRY(ip) == "CY", 5 SECONDS)'
    (problem,) = checked("COUNT(request WHEN ipToContry(ip) == CY) EVERY 5 s").problems
    assert problem.message == "there is no function `IPTOCONTRY`"
    assert problem.hint == "Did you mean `IPTOCOUNTRY`?"
    (problem,) = checked("COUNT(request WHEN movie IN legalCountry(ip)) EVERY 5 s").problems
    assert problem.message == "there is no FUNCTION `LEGALCOUNTRY` that stands for a list"
    assert (problem.hint or "").startswith("Did you mean `LEGALCOUNTRIES`")


def test_function_of_attributes_that_no_package_has_is_an_error() -> None:
    (problem,) = checked('COUNT(request WHEN lower(movie) == "zorba") EVERY 5 s').problems
    assert problem.message == "there is no function `LOWER`"
    assert (
        problem.hint == "No package with such an operator over attributes of points is installed."
    )


@pytest.mark.parametrize(
    ("insight", "kind"),
    [
        ("AVG(cpu) BY region WHEN region == cpu EVERY 5 s", "metric"),
        ("AVG(cpu) - AVG(mem) BY region WHEN region == mem EVERY 5 s", "metric"),
        ("AVG(cpu) WHEN region == movie EVERY 5 s", "attribute"),
    ],
)
def test_name_that_could_be_a_text_is_reported_with_its_meaning(insight: str, kind: str) -> None:
    messages = [each.message for each in checked(insight).problems]
    assert any(f"is read as the {kind} of this name, not as a text" in each for each in messages)


@pytest.mark.parametrize(
    ("insight", "severity"),
    [
        ("node EVERY 5 s", "error"),
        ("COUNT(entityID) EVERY 5 s", "error"),
        ("ip EVERY 5 s", "warning"),
    ],
)
def test_computing_an_attribute_of_no_metric_has_a_hint(insight: str, severity: str) -> None:
    (problem,) = checked(insight).problems
    assert problem.severity == severity
    assert (problem.hint or "").startswith("If the attribute is meant, name a metric in WHEN")


def test_text_after_the_insight_has_the_hint_to_write_it_inside_the_function() -> None:
    (problem,) = checked("disease WHEN == malaria EVERY 5 s").problems
    hint = (
        "If the text is meant, write the condition inside a function: `COUNT(x WHEN == malaria)`."
    )
    assert problem.hint == hint
