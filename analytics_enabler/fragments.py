"""Cutting the plan of all that runs into what workers run."""

from collections.abc import Sequence

from analytics_enabler.deployments.model import Generation
from analytics_enabler.optimizer import optimize
from mistbow.plan.nodes import Fragment, Plan
from mistbow.streams.schemas import RAW, RESULTS

FRAGMENT_ID = "site"


def fragment_of(generations: Sequence[Generation]) -> Fragment | None:
    """Return what the site's worker runs for all of these; None when there is nothing to run."""
    if not generations:
        return None
    plan = optimize(Plan(insights=tuple(generation.insight for generation in generations))).plan
    return Fragment(id=FRAGMENT_ID, source=RAW, target=RESULTS, plan=plan)
