"""The pipeline of the optimizer: stages of rules, each run until nothing changes."""

from dataclasses import dataclass
from typing import Protocol

from analytics.plan.nodes import Plan
from analytics_enabler.optimizer.rules import (
    fold_constants,
    merge_identical,
    push_filters,
    share_panes,
)

MAX_ROUNDS = 100


class Rule(Protocol):
    """A rule of the optimizer, which is a module with these two functions."""

    __name__: str

    def apply(self, plan: Plan, /) -> Plan | None:
        """Return a cheaper plan with the same results; None if the rule does not apply."""

    def describe(self, before: Plan, after: Plan, /) -> str:
        """Return a phrase that describes the change."""


STAGES: tuple[tuple[Rule, ...], ...] = (
    (fold_constants,),
    (merge_identical,),
    (share_panes, push_filters),
)
"""The stages of rules; a stage ends when no rule of the stage changes the plan."""


@dataclass(frozen=True, slots=True)
class RuleStep:
    """A step of the optimizer: a rule, a description of the change, and the changed plan."""

    rule: str
    description: str
    plan: Plan


@dataclass(frozen=True, slots=True)
class Optimized:
    """An optimized plan, and the steps that led to the plan.

    In the plan, all aggregates are replaced by measures, which are values of functions over
    windows.
    """

    plan: Plan
    steps: tuple[RuleStep, ...]


def optimize(plan: Plan, stages: tuple[tuple[Rule, ...], ...] = STAGES) -> Optimized:
    """Return a plan after all stages of rules, with the steps.

    Raises ``RuntimeError`` if a rule changes the identity of an insight, or if the rules of a stage
    still change the plan after ``MAX_ROUNDS`` rounds.
    """
    steps: list[RuleStep] = []
    for stage in stages:
        for _ in range(MAX_ROUNDS):
            before = plan
            for rule in stage:
                plan = _applied(rule, plan, steps)
            if plan is before:
                break
        else:
            names = ", ".join(_name(rule) for rule in stage)
            raise RuntimeError(f"the rules {names} still change the plan after {MAX_ROUNDS} rounds")
    return Optimized(plan, tuple(steps))


def _applied(rule: Rule, plan: Plan, steps: list[RuleStep]) -> Plan:
    changed = rule.apply(plan)
    if changed is None:
        return plan
    # The constructor of a plan checks its invariants. In addition, no rule may change these fields.
    before, after = (
        [(insight.uid, insight.by, insight.every_ms, insight.since) for insight in each.insights]
        for each in (plan, changed)
    )
    if before != after:
        raise RuntimeError(f"the rule {_name(rule)} changed the identity of an insight")
    steps.append(RuleStep(_name(rule), rule.describe(plan, changed), changed))
    return changed


def _name(rule: Rule) -> str:
    return rule.__name__.rpartition(".")[2]
