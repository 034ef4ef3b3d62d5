"""Queries that the enabler's check accepts run without errors in the worker's evaluation."""

import math

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from analytics.plan.nodes import Plan
from analytics_enabler.optimizer import optimize
from analytics_enabler.optimizer.pipeline import STAGES
from analytics_enabler.semantics import check
from analytics_worker.evaluate.composition import compose
from analytics_worker.stateful.state_table import StateTable
from tests.support.points import Row, points
from tests.support.windows import windows_of

POINTS = points(
    [
        Row(metric=metric, ts=100 + 700 * number, value=number - 3.0, attributes=attributes)
        for number in range(9)
        for metric, attributes in (
            ("cpu", {"rack": float(number % 3), "zone": "a"}),
            ("cpu", {"rack": "r", "spare": True}),
            ("mem", {"rack": 1.0, "zone": "b"}),
        )
    ]
)
WITHOUT_FOLDING = STAGES[1:]

_numbers = st.sampled_from(["0", "1", "3", "-2.5", "1e308"])
_of_points = st.sampled_from(["rack", "zone", "spare"])
_aggregates = st.sampled_from([
    "AVG(cpu, 2 s)", "SUM(cpu WHEN > 1, 1 s)", "COUNT(mem, 3 s)", "MAX(cpu WHEN rack == 1, 2 s)",
    "SDEV(cpu, 2 s)", "VARIANCE(cpu)", "MEDIAN(cpu, 3 s)", "MODE(cpu, 2 s)", "mem",
    "GEOMETRIC_MEAN(cpu, 2 s)", "CORRELATION(cpu, mem, 3 s)", "PERCENTILE[90](cpu, 2 s)",
    "TOP_K[2](cpu)", "HISTOGRAM[3](cpu, 2 s)", "AVG(cpu, 1 s, 2 s)", "MAX(AVG(cpu) BY zone)",
    "(SUM(cpu) BY zone WHEN > 0)", "SQRT(MAX(cpu))", "ABS(cpu WHEN < 0)", "LOG(EXP(SQR(cpu)))",
    "RUNNING_MEAN(cpu)", "EWMA[0.3](cpu WHEN rack > 0)", "RATE(cpu, 3 s)",
])  # fmt: skip


def _values(leaves: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.recursive(
        leaves,
        lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from("+-*/"), inner),
        max_leaves=4,
    )


def _conditions(operands: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    comparators = st.sampled_from([">", "<=", "==", "!="])
    compared = st.builds("{} {} {}".format, operands | st.just(""), comparators, operands)
    members = st.sampled_from(["(1, 2)", '("a", "r")', "(true)", "(0)"])
    listed = st.builds("{} IN {}".format, operands, members)
    return st.recursive(
        compared | listed,
        lambda inner: (
            st.builds("({} AND {})".format, inner, inner)
            | st.builds("({} OR {})".format, inner, inner)
            | st.builds("NOT ({})".format, inner)
        ),
        max_leaves=4,
    )


_texts = st.sampled_from(['"a"', '"r"', "true"])
_inner = _conditions(_values(_numbers | _of_points) | _texts)
_leaves = _aggregates | st.builds("AVG(cpu WHEN {}, 2 s)".format, _inner)
_filters = _conditions(_values(_numbers | _of_points | _leaves) | _texts)
queries = st.builds(
    "q = COMPUTE {}{}{} EVERY 1 s".format,
    _values(_numbers | _leaves),
    st.sampled_from(["", " BY rack", " BY zone, rack"]),
    st.just("") | _filters.map(" WHEN {}".format),
)


def results(plan: Plan) -> dict[tuple[str, int], float]:
    """Compute a plan over ``POINTS`` without Spark; return (key, tick) -> value."""
    rows = compose(windows_of(POINTS, plan), plan, StateTable()).to_pylist()
    return {(row["key"], row["ts"]): row["value"] for row in rows}


# Many drawn queries are refused by the check.
@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(queries)
def test_an_accepted_query_is_computed_and_folding_changes_nothing(text: str) -> None:
    checked = check(text)
    assume(checked.ok)
    plan = Plan(insights=tuple(one.deployed("q", 0) for one in checked.definitions))
    folded = results(optimize(plan).plan)
    assert all(math.isfinite(value) for value in folded.values())
    assert folded == pytest.approx(results(optimize(plan, WITHOUT_FOLDING).plan), rel=1e-9)


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("AVG(cpu) + 1/0", 0),
        ("(1/0) * AVG(cpu)", 0),
        ("AVG(cpu) + 1e308 * 10", 0),
        ("AVG(cpu) WHEN 1 > 2", 0),
        ("AVG(cpu) WHEN > 1/0", 0),
        ("AVG(cpu) WHEN 5 IN (1, 2)", 0),
        ("AVG(cpu WHEN 1 > 2)", 0),
        ("AVG(cpu WHEN > 3 AND 1 > 2)", 0),
        ("AVG(cpu) WHEN NOT (1 > 2)", 6),
        ("AVG(cpu) BY rack WHEN rack > 0 AND > rack", 2),
        ("AVG(mem) BY rack WHEN rack == 1 OR AVG(none) > 3", 6),
        ("AVG(mem) BY rack WHEN NOT AVG(none) > 3", 6),
    ],
)
def test_constants_and_keys_in_conditions(query: str, rows: int) -> None:
    checked = check(f"q = COMPUTE {query} EVERY 1 s")
    assert checked.ok, checked.problems
    plan = Plan(insights=tuple(one.deployed("q", 0) for one in checked.definitions))
    assert len(results(optimize(plan).plan)) == rows
