"""Errors of unresolved values: each error is reported once, together with independent errors."""

import pytest

from analytics_enabler.semantics import check

FOLLOW_UPS = [
    # The type, the keys and the points of an unresolved value are unknown.
    "AVGG(x) + 1",
    "AVGG(x) WHEN == 'a'",
    "(AVGG(x) BY a) + (AVG(x) BY b)",
    "AVG(x) WHEN > (AVGG(x) BY a)",
    "MAX(AVGG(x))",
    "SQRT(AVGG(x))",
]


@pytest.mark.parametrize("query", FOLLOW_UPS)
def test_unresolved_function_is_the_only_error(query: str) -> None:
    checked = check(f"a = COMPUTE {query} EVERY 1 s")
    assert [each.message for each in checked.problems] == ["there is no function `AVGG`"]


def test_arguments_of_unresolved_function_are_checked() -> None:
    checked = check("a = COMPUTE AVGG(MAX[3](x)) EVERY 1 s")
    assert [each.message for each in checked.problems] == [
        "there is no function `AVGG`",
        "MAX takes no parameter",
    ]


def test_insights_of_a_cycle_are_checked() -> None:
    checked = check("a = COMPUTE INSIGHT a + AVGG(x) EVERY 1 s")
    assert [each.message for each in checked.problems] == [
        "`a` refers to itself: a → a",
        "there is no function `AVGG`",
    ]
