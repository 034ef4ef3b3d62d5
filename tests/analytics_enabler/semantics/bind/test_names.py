"""Bare names: the symbol of a name in each scope, and the points that a name selects."""

import pytest

from analytics_enabler.semantics.bind.bound_tree import Subject
from analytics_enabler.semantics.bind.names import (
    MetricNames,
    PointScope,
    ResultScope,
    Role,
    Scope,
    ValueScope,
    metrics_read,
    role,
)
from grammar import ast, parse

VALUES = ValueScope(by=("node",), labels=frozenset({"node", "mem"}))
RESULTS = ResultScope(VALUES, Subject(), MetricNames(frozenset({"cpu", "mem"}), frozenset({"x"})))


@pytest.mark.parametrize(
    ("name", "scope", "expected"),
    [
        ("node", VALUES, Role.METRIC),
        ("cpu", RESULTS, Role.METRIC),
        ("x", RESULTS, Role.METRIC),
        ("mem", RESULTS, Role.ATTRIBUTE),
        ("rack", RESULTS, Role.ATTRIBUTE),
        ("rack", PointScope(own_metric="cpu"), Role.ATTRIBUTE),
        ("cpu", PointScope(own_metric="cpu"), Role.OWN_METRIC),
        ("cpu", PointScope(value_name="cpu"), Role.POINT_VALUE),
    ],
)
def test_role_of_name_in_scope(name: str, scope: Scope, expected: Role) -> None:
    assert role(name, scope) is expected


def test_name_beside_a_word_is_an_attribute() -> None:
    assert role("cpu", RESULTS, beside_word=True) is Role.ATTRIBUTE


def test_metrics_read_by_position_exclude_names_in_conditions() -> None:
    text = "a = COMPUTE x + MAX(y BY node WHEN z > AVG(v)) WHEN w > (u BY node) EVERY 1 s"
    (insight,) = parse(text).statements
    assert isinstance(insight, ast.InsightStatement)
    assert [stream.metric for stream in metrics_read(insight)] == ["x", "y", "v", "u"]
