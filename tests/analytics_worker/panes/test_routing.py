import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.plan.expressions import (
    And,
    Arithmetic,
    Attribute,
    Comparison,
    Expression,
    Literal,
    Membership,
    Negation,
    Not,
    Or,
    Source,
    Value,
)
from analytics.plan.nodes import Pane
from analytics_worker.panes.predicates import mask, parse_attributes
from analytics_worker.panes.routing import ROUTED, route, select_metrics
from mistbow.streams.json_numbers import STALE
from tests.support.points import Row, points

ROWS = [
    Row(metric="cpu", entity="a", ts=1500, value=10, attributes={"region": "north", "rack": 3}),
    Row(
        metric="cpu",
        entity="b",
        ts=900,
        value=-2,
        frontier_before=1200,
        attributes={"region": "south"},
    ),
    Row(metric="mem", entity="a", ts=1600, value=7, attributes={"region": "north"}),
    Row(metric="cpu", entity="c", ts=1700, value=5, attributes={"hot": True}),
]


def pane(number: int, metric: str = "cpu", **source: object) -> Pane:
    return Pane(id=str(number), source=Source(metric, **source), by=("region",), width_ms=1000)


def test_a_point_goes_to_every_pane_that_it_belongs_to() -> None:
    north = Comparison("==", Attribute("region"), Literal("north"))
    panes = [pane(0), pane(1, "mem"), pane(2, entities=("a", "c")), pane(3, predicate=north)]

    routed = route(points(ROWS), panes)

    assert routed.schema == ROUTED
    assert [(r["route"], r["value"]) for r in routed.to_pylist()] == [
        (0, 10), (0, -2), (0, 5), (1, 7), (2, 10), (2, 5), (3, 10),
    ]  # fmt: skip


def test_the_key_names_the_attributes_and_a_missing_one_is_null() -> None:
    routed = route(points(ROWS), [pane(0)])
    assert routed["key"].to_pylist() == [
        '{"region":"north"}',
        '{"region":"south"}',
        '{"region":null}',
    ]


def test_late_point_is_due_only_after_the_frontier_before_it() -> None:
    routed = route(points(ROWS), [pane(0)])
    assert routed["due"].to_pylist() == [1500, 1201, 1700]


def test_points_that_are_not_finite_are_omitted() -> None:
    odd = [replace(ROWS[0], value=value) for value in (math.nan, math.inf, -math.inf, STALE)]
    assert route(points([*odd, *ROWS]), [pane(0)]).equals(route(points(ROWS), [pane(0)]))
    assert route(points(odd), [pane(0)]).num_rows == 0


def test_selection_of_metrics_fits_into_a_request() -> None:
    assert select_metrics(("cpu", "mem")) == {"metric": ["cpu", "mem"]}
    assert select_metrics([f"process.number-{number}.memory.used" for number in range(2000)]) == {}
    assert select_metrics(["ü" * 10_000]) == {}


def test_nothing_is_routed_where_no_metric_matches() -> None:
    assert route(points(ROWS), [pane(0, "disk")]).num_rows == 0
    assert route(points([]), [pane(0)]).num_rows == 0


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (Comparison(">", Value(), Literal(5.0)), [True, False, True, False]),
        (Comparison("!=", Attribute("region"), Literal("north")), [False, True, False, False]),
        (Comparison("==", Attribute("rack"), Literal(3.0)), [True, False, False, False]),
        (Comparison("==", Attribute("rack"), Literal("3")), [False, False, False, False]),
        (Comparison("==", Attribute("hot"), Literal(True)), [False, False, False, True]),
        (Not(Comparison("==", Attribute("hot"), Literal(True))), [True, True, True, False]),
        (Membership(Attribute("region"), ("south", "west")), [False, True, False, False]),
        (Membership(Value(), (7.0, 5.0)), [False, False, True, True]),
        (Comparison(">", Value(), Attribute("rack")), [True, False, False, False]),
        (
            And(
                Comparison(">", Value(), Literal(0.0)),
                Comparison("==", Attribute("region"), Literal("north")),
            ),
            [True, False, True, False],
        ),
        (
            Or(
                Comparison("<", Value(), Literal(0.0)),
                Comparison("==", Attribute("hot"), Literal(True)),
            ),
            [False, True, False, True],
        ),
        (
            Comparison(">", Arithmetic("*", Value(), Literal(2.0)), Negation(Literal(-12.0))),
            [True, False, True, False],
        ),
    ],
)
def test_predicates(predicate: Expression, expected: list[bool]) -> None:
    rows = points(ROWS)
    assert mask(predicate, rows, parse_attributes(rows)).to_pylist() == expected


@given(
    st.lists(
        st.builds(
            Row,
            metric=st.sampled_from(["cpu", "mem"]),
            entity=st.sampled_from("abc"),
            ts=st.integers(0, 10_000),
            value=st.floats(-10, 10),
            frontier_before=st.integers(-1, 10_000),
            attributes=st.fixed_dictionaries({}, optional={"region": st.sampled_from(["n", "s"])}),
        ),
        max_size=30,
    ),
    st.floats(-10, 10),
)
def test_routing_equals_the_check_of_each_row(rows: list[Row], limit: float) -> None:
    predicate = And(
        Comparison(">", Value(), Literal(limit)),
        Comparison("==", Attribute("region"), Literal("n")),
    )
    routed = route(points(rows), [pane(0, predicate=predicate)])
    expected = [
        (row.ts, max(row.ts, row.frontier_before + 1), row.value)
        for row in rows
        if row.metric == "cpu" and row.value > limit and row.attributes.get("region") == "n"
    ]
    assert [(r["ts"], r["due"], r["value"]) for r in routed.to_pylist()] == expected
