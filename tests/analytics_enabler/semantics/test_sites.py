"""The sites that insights read."""

import pytest

from analytics_enabler.semantics import Sites, check, scope_of
from tests.analytics_enabler.support import definition

SITES = Sites(frozenset({"x", "y"}), {"n1": "x", "n2": "y"})


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("AVG(cpu)", None),
        ("AVG(cpu) WHEN site == 'x'", "x"),
        ("AVG(cpu) WHEN 'x' == site AND > 3", "x"),
        ("AVG(cpu) WHEN site IN ('x')", "x"),
        ("AVG(cpu) WHEN node == 'n2'", "y"),
        ("AVG(cpu WHEN site == 'x' AND > 1) / SUM(mem WHEN node == 'n1')", "x"),
        ("AVG(cpu) BY site WHEN site == 'x'", "x"),
        ("AVG(cpu) WHEN site == 'x' AND 1 > 0", "x"),
        ("AVG(cpu WHEN site == 'x') / SUM(mem WHEN site == 'y')", None),
        ("AVG(cpu WHEN site == 'x') / SUM(mem)", None),
        ("AVG(cpu WHEN site == 'x') WHEN > AVG(mem)", None),
        ("AVG(cpu) WHEN site == 'x' OR rack == 1", None),
        ("AVG(cpu) WHEN NOT site == 'x'", None),
        ("AVG(cpu) WHEN site != 'x'", None),
        ("AVG(cpu) WHEN site IN ('x', 'y')", None),
        ("AVG(cpu) WHEN region == 'x'", None),
        ("AVG(cpu) WHEN node == 'n9'", None),
        ("AVG(cpu) WHEN site == 'z'", None),
    ],
)
def test_site_that_conditions_demand(text: str, scope: str | None) -> None:
    assert scope_of(definition(f"a = COMPUTE {text} EVERY 1 s"), SITES) == scope


def test_unknown_site_is_a_warning() -> None:
    (problem,) = check("a = COMPUTE AVG(x) WHEN site == 'z' EVERY 1 s", sites=SITES).problems
    assert (problem.severity, problem.hint) == ("warning", "The sites: x, y.")
    assert "no site `z`: `a` is computed over all sites" in problem.message
