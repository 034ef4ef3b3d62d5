"""Properties of the rules of the optimizer."""

import math
from collections.abc import Set
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.plan.expressions import Aggregate, Expression, Literal, Measure, rewrite, walk
from analytics.plan.nodes import Plan, expressions_of
from analytics.plan.text import expression_text
from analytics_enabler.limits import MAX_PANES
from analytics_enabler.optimizer import optimize
from analytics_enabler.optimizer.rules import (
    fold_constants,
    merge_identical,
    push_filters,
    share_panes,
)
from tests.analytics_enabler.optimizer.strategies import (
    conditions,
    evaluate,
    expressions,
    is_leaf,
    plans,
    point_conditions,
)
from tests.analytics_enabler.support import plan_of


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        alike = one == other and math.copysign(1, one) == math.copysign(1, other)
        return alike or (math.isnan(one) and math.isnan(other))
    return one is other


@given(expressions | conditions | point_conditions, st.data())
def test_folding_preserves_value(node: Expression, data: st.DataObject) -> None:
    # Aggregates are leaves here; the next test covers their predicates.
    folded = fold_constants.fold(node)
    values = st.none() | st.floats(allow_nan=False, allow_infinity=False)
    # Leaves that fold to the same leaf have the same value.
    leaves = {repr(n): repr(fold_constants.fold(n)) for n in walk(node) if is_leaf(n)}
    drawn = {leaf: data.draw(values) for leaf in dict.fromkeys(leaves.values())}
    of_node = {name: drawn[leaf] for name, leaf in leaves.items()}
    known = {name: value for name, value in (drawn | of_node).items() if value is not None}
    assert _same(evaluate(folded, known), evaluate(node, known))


@given(expressions | conditions)
def test_folding_is_idempotent(node: Expression) -> None:
    folded = fold_constants.fold(node)
    assert repr(fold_constants.fold(folded)) == repr(folded)


def test_folding_applies_to_predicates_of_points() -> None:
    (insight,) = optimize(plan_of("a = COMPUTE AVG(x WHEN > 1 OR 1 < 2) EVERY 1 s")).plan.insights
    same = optimize(plan_of("a = COMPUTE AVG(x) EVERY 1 s")).plan.insights[0]
    assert insight == same


@pytest.mark.parametrize(
    "inexact",
    [
        "AVG(x) + 0",
        "AVG(x) * 0",
        "AVG(x) / 0",
        "1e308 * 10 + AVG(x)",
        # The whole expression may have several values, a product may not.
        "TOP_K[2](x) * 1",
        "-(-(HISTOGRAM[3](x) WHEN > 1))",
        "1 * TOP_K[2](SUM(x) BY node)",
    ],
)
def test_inexact_expression_is_not_folded(inexact: str) -> None:
    assert fold_constants.apply(plan_of(f"a = COMPUTE {inexact} EVERY 1 s")) is None


@given(plans())
def test_measures_restore_merged_aggregates(plan: Plan) -> None:
    merged = merge_identical.apply(plan)
    if merged is None:
        assert plan.lowered
        return
    assert merged.lowered
    assert merge_identical.apply(merged) is None
    for before, after in zip(plan.insights, merged.insights, strict=True):
        assert repr(_unmerged(after.expression, merged)) == repr(before.expression)
        if before.filter is not None:
            assert after.filter is not None
            assert repr(_unmerged(after.filter, merged)) == repr(before.filter)


def _unmerged(expression: Expression, plan: Plan) -> Expression:
    windows = {window.id: window for window in plan.windows}
    panes = {pane.id: pane for pane in plan.panes}

    def aggregate(node: Expression) -> Expression:
        if not isinstance(node, Measure):
            return node
        window = windows[node.window]
        pane = panes[window.pane]
        return Aggregate(node.function, pane.source, window.size_ms, window.every_ms, pane.by)

    return rewrite(expression, aggregate)


@given(plans())
def test_distinct_aggregate_is_computed_once(plan: Plan) -> None:
    nodes = [node for insight in plan.insights for node in expressions_of(insight)]
    distinct = {
        msgspec.json.encode((n.source, n.size_ms, n.every_ms, n.by))
        for n in nodes
        if isinstance(n, Aggregate)
    }
    merged = merge_identical.apply(plan) or plan
    assert len(merged.windows) == len(distinct)


@given(plans())
def test_shared_panes_serve_their_windows(plan: Plan) -> None:
    shared = optimize(plan).plan
    width_of = {pane.id: pane.width_ms for pane in shared.panes}
    assert {window.pane for window in shared.windows} == set(width_of)
    for window in shared.windows:
        alone = math.gcd(window.size_ms, window.every_ms)
        assert window.size_ms <= MAX_PANES * width_of[window.pane] or (
            width_of[window.pane] == alone
        )


@given(plans(), st.randoms(use_true_random=False))
def test_order_of_insights_does_not_change_plan(plan: Plan, random: Random) -> None:
    mixed = list(plan.insights)
    random.shuffle(mixed)
    one, other = optimize(plan).plan, optimize(Plan(insights=tuple(mixed))).plan
    assert set(one.windows) == set(other.windows)
    assert {pane.id for pane in one.panes} == {pane.id for pane in other.panes}


def test_windows_over_same_points_share_one_pane() -> None:
    plan = optimize(
        plan_of(
            "a = COMPUTE AVG(x, 10 s) EVERY 4 s; b = COMPUTE MAX(x, 1 m) EVERY 6 s;"
            "c = COMPUTE AVG(x, 10 s) BY node EVERY 4 s"
        )
    ).plan
    assert sorted((pane.by, pane.width_ms) for pane in plan.panes) == [
        ((), 2000),
        (("node",), 2000),
    ]
    assert share_panes.apply(plan) is None


@given(plans())
def test_no_step_has_more_than_functions_need(plan: Plan) -> None:
    for step in optimize(plan).steps:
        _assert_all_needed(step.plan)


def _assert_all_needed(narrowed: Plan) -> None:
    for pane in narrowed.panes:
        over = (set(window.contents) for window in narrowed.windows if window.pane == pane.id)
        assert set(pane.contents) == set().union(*over)
    for window in narrowed.windows:
        for column in window.contents:
            less = msgspec.structs.replace(window, contents=tuple({*window.contents} - {column}))
            windows = tuple(less if each is window else each for each in narrowed.windows)
            with pytest.raises(ValueError, match="lacks a content"):
                msgspec.structs.replace(narrowed, windows=windows)


def _conditions(text: str) -> list[str]:
    plan = optimize(plan_of(text)).plan
    assert push_filters.apply(plan) is None
    return [expression_text(p.source.predicate) for p in plan.panes if p.source.predicate]


def test_pane_includes_keys_that_any_insight_needs() -> None:
    query = "{} = COMPUTE AVG(x) BY node, rack WHEN {} EVERY 1 s"
    one, other = query.format("a", 'node == "n1" AND > 5'), query.format("b", "rack < 3")
    first, second = 'node == "n1"', "rack < 3"
    assert _conditions(one) == [first]
    assert _conditions(f"{one}; {other}") == [f"{second} OR {first}"]
    part = query.format("c", "rack < 3 AND site == 'here'").replace("rack W", "rack, site W")
    assert _conditions(part) == ['rack < 3 AND site == "here"']
    assert _conditions(f"{one}; {other}; {query.format('d', '> 5')}") == []
    nodes = "; ".join(query.format(f"q{n}", f"rack == {n}") for n in range(9))
    assert _conditions(nodes) == []
    assert _conditions(nodes.partition("; ")[2]) != []


def test_allotted_pane_includes_all_points() -> None:
    query = 'a = COMPUTE AVG(x, 1 m) BY node WHEN node == "n1" EVERY 1 m WITH SAMPLE 0.1'
    assert _conditions(query) == ['node == "n1"']
    assert _conditions(f"{query} AND AWARENESS ON ACCURACY") == []


def test_accumulating_pane_includes_all_keys() -> None:
    # Later insights use its states with other keys.
    for value, every in (("RUNNING_MEAN(x)", "1 s"), ("SUM(x, 2 s)", "9 POINTS")):
        assert _conditions(f'a = COMPUTE {value} BY node WHEN node == "n1" EVERY {every}') == []


def test_panes_with_same_filter_afterwards_are_shared() -> None:
    same = 'b = COMPUTE MAX(x WHEN node == "n1", 10 s) BY node EVERY 1 s'
    text = f'a = COMPUTE AVG(x) BY node WHEN node == "n1" EVERY 4 s; {same}'
    plan = optimize(plan_of(text)).plan
    assert [pane.width_ms for pane in plan.panes] == [1000]
    steps = optimize(plan_of(text.replace("1 s", "4 s").replace("10 s", "4 s"))).steps
    assert steps[-1].description == "1 pane of 2 restricted to the keys that insights need"


def test_order_of_conditions_does_not_change_pane() -> None:
    query = "{} = COMPUTE AVG(x WHEN {} == 1) BY node, rack WHEN {} == 1 EVERY 1 s"
    one, other = query.format("a", "node", "rack"), query.format("b", "rack", "node")
    (pane,) = optimize(plan_of(f"{one}; {other}")).plan.panes
    assert (pane,) == optimize(plan_of(f"{other}; {one}")).plan.panes


class _CountingTerms(frozenset[Expression]):
    compared = 0

    def __le__(self, other: Set[object]) -> bool:
        type(self).compared += 1
        return super().__le__(other)


def test_conditions_are_compared_with_few_others() -> None:
    # 2000 insights with different keys are planned again whenever one is added or removed.
    weakest = [_CountingTerms([Literal(float(n))]) for n in range(push_filters.MAX_ALTERNATIVES)]
    more = [_CountingTerms([Literal(float(n % 8)), Literal(f"{n}")]) for n in range(2000)]
    assert push_filters._weakest([*more, *weakest]) == weakest
    assert _CountingTerms.compared < 9 * 2008
    assert push_filters._weakest([*more, *weakest, _CountingTerms([Literal("ninth")])]) == []
    assert push_filters._weakest([*more, _CountingTerms()]) == []


def test_window_id_does_not_depend_on_other_insights() -> None:
    text = "a = COMPUTE AVG(x, 10 s) EVERY 5 s"
    (alone,) = optimize(plan_of(text)).plan.windows
    among = optimize(plan_of(f"b = COMPUTE AVG(x, 3 s) EVERY 1 s; {text}")).plan.windows
    assert alone.id in {window.id for window in among}
