"""The stages of the optimizer, and rules that it rejects."""

import msgspec
import pytest

from analytics.plan.nodes import Plan
from analytics_enabler.optimizer import optimize
from tests.analytics_enabler.support import plan_of

PLAN = plan_of("a = COMPUTE AVG(x) EVERY 5 s; b = COMPUTE AVG(x) EVERY 5 s")


class _DropInsight:
    __name__ = "rules.drop_insight"

    def apply(self, plan: Plan, /) -> Plan | None:
        return msgspec.structs.replace(plan, insights=plan.insights[1:])

    def describe(self, before: Plan, after: Plan, /) -> str:
        return "one is missing"


class _Restless:
    __name__ = "rules.restless"

    def apply(self, plan: Plan, /) -> Plan | None:
        return msgspec.structs.replace(plan)

    def describe(self, before: Plan, after: Plan, /) -> str:
        return "nothing"


def test_steps_have_rule_and_description() -> None:
    optimized = optimize(PLAN)
    assert [(step.rule, step.description) for step in optimized.steps] == [
        ("merge_identical", "2 aggregates replaced by 1 window"),
    ]
    assert optimized.plan == optimized.steps[-1].plan


def test_optimize_rejects_rule_that_drops_an_insight() -> None:
    with pytest.raises(
        RuntimeError, match="the rule drop_insight changed the identity of an insight"
    ):
        optimize(PLAN, ((_DropInsight(),),))


def test_optimize_rejects_rule_that_never_ends() -> None:
    with pytest.raises(
        RuntimeError, match="the rules restless still change the plan after 100 rounds"
    ):
        optimize(PLAN, ((_Restless(),),))
