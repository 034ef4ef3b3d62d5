"""The messages for numbers, durations and times that PromQL cannot use."""

import asyncio
from typing import cast

import numpy as np
import promql_parser as syntax
import pytest
from fastapi import Request

from mistbow.errors import (
    ForbiddenError,
    InvalidRequestError,
    MethodNotAllowedError,
    MistbowError,
    NotAcceptableError,
    TooLargeError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)
from storage_agent.promql.aggregation import Grouping, aggregate
from storage_agent.promql.engine import Query, QueryEngine
from storage_agent.promql.errors import PromqlError, to_promql_error
from storage_agent.promql.labels import make_labels
from storage_agent.promql.parameters import Parameters, read_parameters
from storage_agent.promql.parse import TimeRange, parse, required_samples
from storage_agent.promql.querier import Querier
from storage_agent.promql.vectors import Vector
from storage_agent.settings import AgentSettings

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


@pytest.mark.parametrize("number", ["9" * 20, "9" * 12, "9" * 4000])
@pytest.mark.parametrize("query", ["a offset {}y", "a[{}s]", "a offset {}y5m", "a[5m:{}y]"])
def test_duration_that_the_parser_takes_for_0_is_named(query: str, number: str) -> None:
    if query == "a[{}s]":
        number += "0"
    with pytest.raises(PromqlError, match=r"a duration is longer than 10,000 years"):
        parse(query.format(number))


def test_digits_outside_of_durations_are_accepted() -> None:
    parse(f"a{'9' * 30}s:99999999999999999999y + 99999999999999999999 + rate(a[99999d:1d])")


def test_invalid_selector_is_reported_as_its_parameter() -> None:
    with pytest.raises(PromqlError, match=r'invalid parameter "match\[\]": '):
        Parameters([("match[]", "a{")]).selectors("match[]")


async def test_json_in_place_of_a_form_is_named() -> None:
    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b'{"query": "up"}'}

    head = {"type": "http", "method": "POST", "headers": [], "query_string": b"", "path": "/"}
    with pytest.raises(PromqlError, match="send parameters as a form"):
        await read_parameters(Request(head, receive))


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        (InvalidRequestError, "bad_data", 400),
        (UnauthorizedError, "unauthorized", 401),
        (ForbiddenError, "forbidden", 403),
        (MethodNotAllowedError, "method_not_allowed", 405),
        (NotAcceptableError, "bad_data", 400),
        (TooLargeError, "execution", 422),
        (TooManyRequestsError, "too_many_requests", 429),
        (MistbowError, "internal", 500),
        (UnavailableError, "unavailable", 503),
    ],
)
def test_error_type_depends_on_the_status(
    error: type[MistbowError], kind: str, status: int
) -> None:
    found = to_promql_error(error("m"))
    assert (found.kind, found.status) == (kind, status)


@pytest.mark.parametrize(
    ("seconds", "remedy"),
    [(0.001, "raise the parameter timeout, which is 0.001 s"), (None, "raise MISTBOW_PROMQL_SEC")],
)
async def test_timeout_names_the_limit_that_ended_the_query(
    seconds: float | None, remedy: str
) -> None:
    class SlowQuerier:
        async def select(self, *_: object) -> None:
            await asyncio.sleep(60)

    settings = AgentSettings(promql_seconds=0.005)
    engine = QueryEngine(cast("Querier", SlowQuerier()), settings)
    with pytest.raises(PromqlError) as raised:
        await engine.answer(Query("a", 0, 0), [], seconds)
    assert raised.value.kind == "timeout"
    assert remedy in raised.value.message
