"""The results of a plan after each rule of the optimizer, over the same points."""

from itertools import product
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from analytics.plan.functions import ACCUMULATED
from analytics.plan.nodes import Plan
from analytics_enabler.optimizer import optimize
from analytics_enabler.semantics import check
from analytics_worker.evaluate.composition import compose
from analytics_worker.stateful.state_table import StateTable
from tests.analytics_enabler.support import plan_of
from tests.support.points import Row, points
from tests.support.windows import windows_of

_FUNCTIONS = ["SUM", "COUNT", "MAX", "SDEV", "MEDIAN", "RUNNING_MEAN", "LATEST"]
_ON_KEYS = [
    'region == "n"', 'region != "n"', 'NOT region == "n"', "rack IN (1, 2)", "rack NOT IN (1)",
    'region == "n" OR rack == 1', 'region == "n" AND rack == 2', "1 > 2",
]  # fmt: skip
SUM = "COMPUTE SUM(x) BY region, rack"
_BYS = st.sampled_from(["rack", "region", "region, rack"])
_rows = st.builds(
    Row,
    metric=st.sampled_from(["x", "x", "y"]),
    entity=st.sampled_from(["a", "b"]),
    ts=st.integers(0, 3999),
    value=st.sampled_from([-1.0, 0.5, 2.0, 7.0]),
    attributes=st.fixed_dictionaries(
        {"region": st.sampled_from(["n", "s"])},
        optional={"rack": st.sampled_from([1.0, 2.0, 3.0, "1", True])},
    ),
)
_ALL_KEYS = [
    Row(metric, ts=100 * place, value=place, attributes={"region": region, "rack": rack})
    for place, (region, rack, metric) in enumerate(product("ns", (1.0, 2.0, 3.0), "xyxx"))
]


@st.composite
def _values(draw: st.DrawFn, ticks: bool, depth: int = 2) -> str:
    def inner() -> str:
        return draw(_values(ticks, depth - 1))

    kind = draw(st.sampled_from(["call", "call", "sum", "part", "reduced"])) if depth else "call"
    if kind == "sum":
        return f"{inner()} + {inner()}"
    if kind == "part":
        return f"({inner()} BY {draw(_BYS)} WHEN {draw(st.sampled_from(_ON_KEYS))})"
    if kind == "reduced" and ticks:
        return f"MAX({inner()})"
    function, metric = draw(st.sampled_from(_FUNCTIONS)), draw(st.sampled_from("xxy"))
    if function == "LATEST":
        return metric
    window = "" if function in ACCUMULATED else ", 2 s"
    return f"{function}({metric}{draw(st.sampled_from(['', ' WHEN > 0']))}{window})"


@st.composite
def _queries(draw: st.DrawFn) -> str:
    texts = []
    for number in range(draw(st.integers(1, 3))):
        ticks = draw(st.booleans())
        value = draw(_values(ticks))
        on_values = [f"{draw(_values(ticks, 0))} > 0", "> 1 OR NOT < 5"]
        drawn_conditions = draw(st.lists(st.sampled_from([*_ON_KEYS, *on_values]), max_size=2))
        conditions = " AND ".join(f"({one})" for one in drawn_conditions)
        when = f" WHEN {conditions}" if drawn_conditions else ""
        every = f" EVERY {draw(st.sampled_from(['1 s', '2 s'] if ticks else ['2 POINTS']))}"
        by = f" BY {draw(_BYS)}" if draw(st.booleans()) else ""
        text = f"q{number} = COMPUTE {value}{by}{when}{every}"
        if check(text).ok:
            texts.append(text)
    return "; ".join(texts)


def _results(plan: Plan, rows: list[Row]) -> list[dict[str, Any]]:
    composed = compose(windows_of(points(rows), plan), plan, StateTable())
    return sorted(composed.to_pylist(), key=lambda row: (row["insight"], row["key"], row["ts"]))


@settings(max_examples=15)
@given(_queries().filter(bool), st.lists(_rows, min_size=5, max_size=20))
@example(f"a = {SUM} WHEN rack == 1 EVERY 1 s; b = {SUM} WHEN rack == 2 EVERY 1 s", _ALL_KEYS)
@example(f"a = {SUM} WHEN rack == 1 EVERY 1 s; b = {SUM} EVERY 1 s", _ALL_KEYS)
@example(
    f"a = {SUM} WHEN rack == 1 EVERY 1 s; b = {SUM} WHEN rack == 1 AND region == 'n' EVERY 1 s",
    _ALL_KEYS,
)
@example("a = COMPUTE (SUM(x) BY rack) / SUM(x) WHEN rack == 1 EVERY 1 s", _ALL_KEYS)
@example(
    "a = COMPUTE SUM(x, 2 s) BY rack WHEN rack == 1 AND > MIN(x, 2 s) EVERY 2 POINTS", _ALL_KEYS
)
@example("a = COMPUTE (SUM(x) BY rack) / MAX(SUM(x) BY rack) WHEN rack == 1 EVERY 1 s", _ALL_KEYS)
@example(f"a = {SUM} WHEN rack == 1 EVERY 2 s WITH SAMPLE 0.5", _ALL_KEYS)
@example(f"a = {SUM} WHEN rack == 1 EVERY 2 s WITH SAMPLE 1", _ALL_KEYS)
@example(f"a = {SUM} WHEN rack == 1 EVERY 2 s WITH ADAM", _ALL_KEYS)
@example("a = COMPUTE SUM((SUM(x) BY rack WHEN rack == 1)) EVERY 1 s", _ALL_KEYS)
def test_rules_preserve_results(queries: str, rows: list[Row]) -> None:
    lowered = [step for step in optimize(plan_of(queries)).steps if step.plan.lowered]
    expected = _results(lowered[0].plan, rows)
    for step in lowered[1:]:
        assert repr(_results(step.plan, rows)) == repr(expected), step.rule
