"""The messages for numbers, durations and times that PromQL cannot use."""

import numpy as np
import promql_parser as syntax
import pytest

from storage_agent.promql.aggregation import Grouping, aggregate
from storage_agent.promql.errors import PromqlError
from storage_agent.promql.labels import make_labels
from storage_agent.promql.parameters import Parameters
from storage_agent.promql.parse import TimeRange, parse, required_samples
from storage_agent.promql.vectors import Vector

SPAN = TimeRange(0, 0)
VECTOR = Vector([make_labels({"a": "b"})], np.ones((1, 2)), np.ones((1, 2), np.bool_))


@pytest.mark.parametrize(
    ("k", "shown"), [(1e308, "1e+308"), (-1e19, "-10000000000000000000"), (np.inf, "+Inf")]
)
@pytest.mark.parametrize("op", ["topk", "bottomk"])
def test_number_of_topk_is_named(op: str, k: float, shown: str) -> None:
    with pytest.raises(PromqlError) as raised:
        aggregate(op, VECTOR, Grouping(frozenset(), True), np.array([1.0, k]), lambda _: None)
    assert raised.value.message.endswith(f"between -2^63 and 2^63, not {shown}")


def test_nan_is_named_as_number_of_topk() -> None:
    with pytest.raises(PromqlError, match="not NaN"):
        aggregate("topk", VECTOR, Grouping(frozenset(), True), np.array(np.nan), lambda _: None)


@pytest.mark.parametrize("name", ["timeout", "step"])
@pytest.mark.parametrize("text", ["1e300", "nan", "0.0001", "9000y"])
def test_unusable_duration_is_named(name: str, text: str) -> None:
    with pytest.raises(PromqlError) as raised:
        Parameters([(name, text)]).duration(name)
    assert f'invalid parameter "{name}": {text!r} is not a duration' in raised.value.message


@pytest.mark.parametrize("text", ["0", "-1"])
def test_only_a_step_without_length_is_reported_as_step_width(text: str) -> None:
    with pytest.raises(PromqlError, match="query resolution step"):
        Parameters([("step", text)]).duration("step")
    with pytest.raises(PromqlError) as raised:
        Parameters([("timeout", text)]).duration("timeout")
    assert raised.value.message.startswith(f"invalid parameter \"timeout\": '{text}' is not a dur")


@pytest.mark.parametrize("time", ["1e300", "1e18", "1e12", "253402300800"])
def test_time_after_year_9999_is_named(time: str) -> None:
    node = parse(f"a @ {time}")
    assert isinstance(node, syntax.VectorSelector)
    with pytest.raises(PromqlError) as raised:
        list(required_samples(node, SPAN, SPAN))
    assert raised.value.message == "invalid time after @: the time is after the year 9999"


@pytest.mark.parametrize(
    "query", ["a @ -1", "a @-0.5 offset 5m", "a[5m:1m] @ # comment\n - 3", "sum(rate(a[5m] @ -9))"]
)
def test_time_before_1970_is_named_without_a_stack_trace(
    query: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(PromqlError) as raised:
        list(required_samples(parse(query), SPAN, SPAN))
    assert raised.value.message == "invalid time after @: the time is before 1970"
    assert capfd.readouterr().err == ""


def test_minus_beside_a_time_is_no_negative_time() -> None:
    query = parse('a{b="@ -1"} @ 1e-3 - b @ start() offset -5m # @ -1')
    assert len(list(required_samples(query, SPAN, SPAN))) == 2
