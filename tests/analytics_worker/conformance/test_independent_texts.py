"""Texts by an author who had not seen the implementation: accepted, and equal to two computations.

One computation is the oracle; the other is the author's own.
"""

import json
import math
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.plan.nodes import Insight
from analytics_enabler.semantics import check
from tests.analytics_worker.conformance.independent import (
    allow_texts,
    attribute_texts,
    by_texts,
    counted_texts,
    function_texts,
    name_texts,
    position_texts,
    reference_texts,
    tick_texts,
)
from tests.analytics_worker.conformance.independent.expectation import Expectation
from tests.analytics_worker.conformance.independent.points import END, POINTS
from tests.analytics_worker.conformance.independent.tables import Table
from tests.oracle.spark import in_one_batch
from tests.oracle.sql import Answer, Identity
from tests.oracle.trials import Case, PointList, answers_of, differences, plans_of
from tests.support.operators import install_example_operators
from tests.support.points import Row, points

_CLASSES = (
    allow_texts.EXPECTATIONS,
    attribute_texts.EXPECTATIONS,
    by_texts.EXPECTATIONS,
    counted_texts.EXPECTATIONS,
    function_texts.EXPECTATIONS,
    name_texts.EXPECTATIONS,
    position_texts.EXPECTATIONS,
    reference_texts.EXPECTATIONS,
    tick_texts.EXPECTATIONS,
)
_EXPECTATIONS = [each for expectations in _CLASSES for each in expectations]
_CITY = PointList(
    tuple(
        Row(each.metric, each.entity, each.ts, each.value, -1, each.attributes) for each in POINTS
    )
)


@pytest.fixture(autouse=True)
def operators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_example_operators(tmp_path, monkeypatch)


def _cases() -> list[Case]:
    metrics = frozenset(each.metric for each in POINTS)
    labels = frozenset(name for each in POINTS for name in each.attributes)
    cases = []
    for number, each in enumerate(_EXPECTATIONS):
        checked = check(each.text, metrics, attributes=labels)
        assert checked.ok, (each.text, checked.problems)
        insights: tuple[Insight, ...] = tuple(
            one.deployed(f"{number}.{one.name}", 0) for one in checked.definitions
        )
        options = tuple(one.options for one in checked.definitions)
        cases.append(Case(number, each.text, _CITY, 0, insights, options))
    return cases


def _differences(number: int, each: Expectation, found: dict[Identity, Answer]) -> list[str]:
    """Compare results with the values that the author of a text expects."""
    if each.values is None:
        return []
    computed: Table = {
        (tuple(json.loads(key).values()), ts): answer.value
        if answer.values is None
        else list(answer.values)
        for (insight, key, ts), answer in found.items()
        if insight == f"{number}.{each.name}" and ts <= END
    }
    expected = each.values()
    assert expected, each.text
    return [
        f"{each.text}\n{at}: {computed.get(at)} instead of {expected.get(at)}"
        for at in sorted(computed.keys() | expected.keys(), key=repr)
        if not _same(computed.get(at), expected.get(at), each.tolerance)
    ][:3]


def _same(one: object, other: object, tolerance: float) -> bool:
    if isinstance(one, float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=tolerance, abs_tol=1e-12)
    return one == other


def test_each_class_has_six_texts() -> None:
    for expectations in _CLASSES:
        assert len(expectations) >= 6


def test_independent_texts_equal_their_expectations_and_the_oracle_on_spark(
    spark: SparkSession,
) -> None:
    cases = _cases()
    found = answers_of(in_one_batch(spark, points(_CITY.rows), plans_of(cases)))
    different = [
        difference
        for number, each in enumerate(_EXPECTATIONS)
        for difference in _differences(number, each, found)
    ]
    assert not different, "\n".join(different)
    assert not differences(cases, found, until=END)
