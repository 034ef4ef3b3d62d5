"""Operators over attributes in conditions, and attributes in ALLOW."""

from pathlib import Path

import pytest

from analytics.plan.text import expression_text
from analytics_enabler.semantics import Checked, check
from grammar import format_text
from tests.support.operators import install_example_operators

pytestmark = pytest.mark.usefixtures("processes")

_METRICS = frozenset({"request", "cost"})


@pytest.fixture(autouse=True)
def operators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_example_operators(tmp_path, monkeypatch)


def _check(insight: str) -> Checked:
    return check(f"q = COMPUTE {insight}", _METRICS, attributes=frozenset({"ip", "dc_cost"}))


def _texts(insight: str) -> tuple[str, str | None]:
    (found,) = _check(insight).definitions
    condition = found.filter
    return (
        expression_text(found.expression, found.by),
        None if condition is None else expression_text(condition, found.by),
    )


def test_formatting_keeps_the_quotes_of_a_text_that_is_an_argument() -> None:
    text = 'q = COMPUTE COUNT(request WHEN country IN legalCountries("Zorba")) EVERY 5 SECONDS'
    assert '("Zorba")' in format_text(text)


@pytest.mark.parametrize(
    ("insight", "expression", "condition"),
    [
        (
            "request WHEN ipToCountry(ip) IN legalCountries(movie) EVERY 5 s",
            "LATEST(request WHEN IPTOCOUNTRY(ip) IN LEGALCOUNTRIES(movie), 1 MINUTE)",
            None,
        ),
        (
            'COUNT(request WHEN ipToCountry(ip) == "CY") EVERY 5 s',
            'COUNT(request WHEN IPTOCOUNTRY(ip) == "CY", 5 SECONDS)',
            None,
        ),
        (
            "COUNT(request WHEN country IN legalCountries('Zorba')) EVERY 5 s",
            'COUNT(request WHEN country IN LEGALCOUNTRIES("Zorba"), 5 SECONDS)',
            None,
        ),
        (
            "COUNT(request) BY ip WHEN ip NOT IN letters(ip) EVERY 5 s",
            "COUNT(request, 5 SECONDS)",
            "ip NOT IN LETTERS(ip)",
        ),
        (
            'COUNT(request) EVERY 5 s WITH ALLOW WHEN ipToCountry(ip) != "FR"',
            'COUNT(request WHEN IPTOCOUNTRY(ip) != "FR", 5 SECONDS)',
            None,
        ),
    ],
)
def test_operator_in_a_condition_applies_to_points_or_keys(
    insight: str, expression: str, condition: str | None
) -> None:
    assert _texts(insight) == (expression, condition)


@pytest.mark.parametrize(
    ("insight", "message"),
    [
        ("ipToCountry(ip) EVERY 5 s", "derives from attributes of points"),
        ("COUNT(request WHEN ipToCountry(ip, ip) IN (CY)) EVERY 5 s", "takes one attribute, not 2"),
        ("COUNT(request WHEN ipToCountry(ip, 5 s) IN (CY)) EVERY 5 s", "and nothing else"),
        ("COUNT(request WHEN ip IN legalCountries(MAX(x))) EVERY 5 s", "and nothing else"),
    ],
)
def test_wrong_call_has_an_error(insight: str, message: str) -> None:
    (problem,) = _check(insight).problems
    assert message in problem.message


def test_attribute_in_allow_is_read_at_the_latest_point() -> None:
    insight = "SUM(cost) EVERY 5 s WITH ALLOW WHEN dc_cost == MIN(cost)"
    (problem,) = _check(insight).problems
    assert problem.message.startswith("`dc_cost` is read as an attribute, at the latest point of")
    _, condition = _texts(insight)
    assert condition == "dc_cost of LATEST(cost, 1 MINUTE) == MIN(cost, 5 SECONDS)"


def test_unknown_name_in_allow_is_a_metric() -> None:
    _, condition = _texts("SUM(cost) EVERY 5 s WITH ALLOW WHEN price == MIN(cost)")
    assert condition == "LATEST(price, 1 MINUTE) == MIN(cost, 5 SECONDS)"


def test_condition_for_each_type_of_an_attribute_is_written_once() -> None:
    insight = (
        "SUM(cost) EVERY 5 s WITH ALLOW WHEN COUNT(cost) > 9 OR dc_cost IN legalCountries('Zorba')"
    )
    _, condition = _texts(insight)
    assert condition == (
        'COUNT(cost, 5 SECONDS) > 9 OR dc_cost of LATEST(cost, 1 MINUTE) IN LEGALCOUNTRIES("Zorba")'
    )
