"""Aggregations and functions whose results are larger than their input."""

import numpy as np
import pytest

from storage_agent.promql.aggregation import Grouping, aggregate
from storage_agent.promql.errors import PromqlError
from storage_agent.promql.evaluator import Limits
from storage_agent.promql.functions import label_join, label_replace
from storage_agent.promql.vectors import Vector

BY_NOTHING = Grouping(frozenset(), by=True)


def vector(series: int, times: int, different: int) -> Vector:
    values = (np.arange(series * times, dtype=np.float64) % different).reshape(series, times)
    labels = [(("n", str(number)),) for number in range(series)]
    return Vector(labels, values, np.ones(values.shape, np.bool_))


def test_count_values_of_many_values_is_refused_before_it_takes_memory() -> None:
    limits = Limits(samples=2_000_000, deadline=np.inf)
    with pytest.raises(PromqlError, match="more than 2000000 samples"):
        aggregate("count_values", vector(100, 11_000, 2**40), BY_NOTHING, "v", limits.check_samples)


def test_count_values_of_few_values_counts_the_series_at_each_time() -> None:
    limits = Limits(samples=2_000_000, deadline=np.inf)
    found = aggregate("count_values", vector(180, 11_000, 2), BY_NOTHING, "v", limits.check_samples)
    assert found.labels == [(("v", "0"),), (("v", "1"),)]
    assert found.values.sum(axis=0).tolist() == [180.0] * 11_000
    assert found.present.tolist() == (found.values > 0).tolist()


@pytest.mark.parametrize("template", ["x" * 20_000, "$1" * 5000], ids=["constant", "groups"])
def test_label_replace_by_long_texts_is_refused_before_it_takes_memory(template: str) -> None:
    with pytest.raises(PromqlError, match="label_replace\\(\\) would add more than 16777216"):
        label_replace(vector(10_000, 1, 1), ["long", template, "n", "(.*)"])


def test_label_join_of_many_labels_is_refused_before_it_takes_memory() -> None:
    with pytest.raises(PromqlError, match="label_join\\(\\) would add more than 16777216"):
        label_join(vector(10_000, 1, 1), ["long", ",", *["n"] * 5000])
