"""How rules are run, and what of theirs is not accepted."""

import msgspec
import pytest

from analytics_enabler.optimizer import optimize
from mistbow.plan.nodes import Plan
from tests.analytics_enabler.support import plan_of

PLAN = plan_of("a = COMPUTE AVG(x) EVERY 5 s; b = COMPUTE AVG(x) EVERY 5 s")


class _DropInsight:
    __name__ = "rules.drop_insight"

    def apply(self, plan: Plan, /) -> Plan | None:
        return msgspec.structs.replace(plan, insights=plan.insights[1:])

    def did(self, before: Plan, after: Plan, /) -> str:
        return "one is missing"


class _Restless:
    __name__ = "rules.restless"

    def apply(self, plan: Plan, /) -> Plan | None:
        return msgspec.structs.replace(plan)

    def did(self, before: Plan, after: Plan, /) -> str:
        return "nothing"


def test_the_steps_say_which_rule_did_what() -> None:
    optimized = optimize(PLAN)
    assert [(step.rule, step.did) for step in optimized.steps] == [
        ("merge_identical", "2 aggregates by 1 window"),
    ]
    assert optimized.plan == optimized.steps[-1].plan


def test_a_rule_that_loses_an_insight_is_refused() -> None:
    with pytest.raises(RuntimeError, match="drop_insight changed which insights there are"):
        optimize(PLAN, ((_DropInsight(),),))


def test_a_rule_that_never_ends_is_refused() -> None:
    with pytest.raises(RuntimeError, match="no end after 100 rounds of restless"):
        optimize(PLAN, ((_Restless(),),))
