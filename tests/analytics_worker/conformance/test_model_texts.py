"""Texts in the style of the published model are accepted, run on Spark, and equal the oracle."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.plan.nodes import Insight
from analytics_enabler.semantics import check
from tests.analytics_worker.conformance.city import METRICS, City
from tests.analytics_worker.conformance.further_texts import FURTHER_TEXTS
from tests.analytics_worker.conformance.texts import TEXTS
from tests.oracle.spark import in_one_batch
from tests.oracle.trials import Case, answers_of, differences, plans_of
from tests.support.operators import install_example_operators
from tests.support.points import points

_CITY = City()


def _cases() -> list[Case]:
    cases = []
    classes = (*TEXTS.values(), *FURTHER_TEXTS.values())
    for number, text in enumerate(text for texts in classes for text in texts):
        whole = text if "COMPUTE" in text else f"q = COMPUTE {text}"
        labels = frozenset(name for row in _CITY.rows for name in row.attributes)
        checked = check(whole, METRICS, attributes=labels)
        assert checked.ok, (whole, checked.problems)
        insights: tuple[Insight, ...] = tuple(
            one.deployed(f"{number}.{one.name}", 0) for one in checked.definitions
        )
        options = tuple(one.options for one in checked.definitions)
        cases.append(Case(number, whole, _CITY, 0, insights, options))
    return cases


@pytest.fixture(autouse=True)
def operators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_example_operators(tmp_path, monkeypatch)


def test_each_class_of_the_model_has_six_texts() -> None:
    for texts in (*TEXTS.values(), *FURTHER_TEXTS.values()):
        assert len(texts) >= 6


def test_texts_of_the_model_equal_the_oracle_on_spark(spark: SparkSession) -> None:
    cases = _cases()
    found = answers_of(in_one_batch(spark, points(_CITY.rows), plans_of(cases)))
    assert not differences(cases, found)
    # A text without results would agree without a proof.
    assert {case.number for case in cases} == {int(uid.split(".")[0]) for uid, _, _ in found}
