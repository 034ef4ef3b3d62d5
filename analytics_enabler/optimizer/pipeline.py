"""The order of the rules, as data, and how they are run."""

from dataclasses import dataclass
from typing import Protocol

from analytics_enabler.optimizer.rules import (
    fold_constants,
    merge_identical,
    push_filters,
    share_panes,
)
from mistbow.plan.nodes import Plan

MOST_ROUNDS = 100


class Rule(Protocol):
    """A module that improves plans."""

    __name__: str

    def apply(self, plan: Plan, /) -> Plan | None:
        """Return a plan of the same results that costs less, or None where there is none."""

    def did(self, before: Plan, after: Plan, /) -> str:
        """Say in a few words what it changed."""


STAGES: tuple[tuple[Rule, ...], ...] = (
    (fold_constants,),
    (merge_identical,),
    (share_panes, push_filters),
)
"""Each stage runs until none of its rules has anything to do; then the next one starts."""


@dataclass(frozen=True, slots=True)
class Step:
    """The plan after a rule changed it, and what it ``did`` in words."""

    rule: str
    did: str
    plan: Plan


@dataclass(frozen=True, slots=True)
class Optimized:
    """A plan without aggregates of its own, and the steps that led there."""

    plan: Plan
    steps: tuple[Step, ...]


def optimize(plan: Plan, stages: tuple[tuple[Rule, ...], ...] = STAGES) -> Optimized:
    """Run all stages; raises ``RuntimeError`` where a rule breaks the plan or never ends."""
    steps: list[Step] = []
    for stage in stages:
        for _ in range(MOST_ROUNDS):
            before = plan
            for rule in stage:
                plan = _applied(rule, plan, steps)
            if plan is before:
                break
        else:
            names = ", ".join(_name(rule) for rule in stage)
            raise RuntimeError(f"no end after {MOST_ROUNDS} rounds of {names}")
    return Optimized(plan, tuple(steps))


def _applied(rule: Rule, plan: Plan, steps: list[Step]) -> Plan:
    changed = rule.apply(plan)
    if changed is None:
        return plan
    # What a plan must always hold, its constructor has checked; this is what rules must not touch.
    kept = [(insight.uid, insight.by, insight.every_ms, insight.since) for insight in plan.insights]
    if kept != [(i.uid, i.by, i.every_ms, i.since) for i in changed.insights]:
        raise RuntimeError(f"{_name(rule)} changed which insights there are")
    steps.append(Step(_name(rule), rule.did(plan, changed), changed))
    return changed


def _name(rule: Rule) -> str:
    return rule.__name__.rpartition(".")[2]
