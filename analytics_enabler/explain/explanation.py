"""Explanations of checked texts without placement; the explainer adds the placement."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from analytics.insight_models import ExplainedStep, Explanation, Shared
from analytics.plan.feeds import Feed
from analytics.plan.nodes import Insight, Plan
from analytics.plan.resumption import subplan, windows_of
from analytics.plan.text import plan_text
from analytics_enabler.deployments.model import Generation
from analytics_enabler.explain.summary import plan_summary
from analytics_enabler.explain.tree import tree_of
from analytics_enabler.fragments import plans_of
from analytics_enabler.groups import Group
from analytics_enabler.optimizer import optimize
from analytics_enabler.semantics import Checked, Sites, scope_of
from mistbow.domains import DEFAULT_DOMAIN

_NEW = "new"


def added_by(checked: Checked, sites: Sites, domain: str = DEFAULT_DOMAIN) -> list[Generation]:
    """Return the generations that deploying a text in a domain would add."""
    return [
        Generation(
            uid=f"{_NEW}/{definition.name}/1",
            definition=definition,
            since=0,
            scope=scope_of(definition, sites),
            domain=domain,
        )
        for definition in checked.definitions
    ]


def plans_with(added: Sequence[Generation], running: Iterable[Generation]) -> dict[Group, Plan]:
    """Return the plans of the groups that a text would join: group -> plan.

    The plans also contain the running insights of these groups.
    """
    groups = {generation.group for generation in added}
    return plans_of([*(each for each in running if each.group in groups), *added])


def explain(checked: Checked, added: Sequence[Generation], plans: dict[Group, Plan]) -> Explanation:
    """Return the explanation of a text: plan, optimizer steps, shared windows and shared panes.

    The explanation of a text with errors has only the diagnostics.
    """
    problems = list(checked.problems)
    if not checked.ok or checked.script is None:
        return Explanation(problems=problems)
    plan = Plan(insights=tuple(each.definition.deployed(each.name, 0) for each in added))
    feeds = {each.name: feed for each in added if (feed := each.definition.feed) is not None}
    shared = [found for each in plans.values() for found in _shared(each)]
    return Explanation(
        problems=problems,
        summary=plan_summary(optimize(plan).plan, shared),
        ast=[tree_of(statement) for statement in checked.script.statements],
        plan=lines_of(plan, feeds),
        steps=[step for group in plans for step in _steps(group, added, feeds)],
        shared=shared,
    )


def _steps(
    group: Group, added: Iterable[Generation], feeds: Mapping[str, Feed]
) -> Iterator[ExplainedStep]:
    """Yield the optimizer's steps for those insights of a text that join ``group``."""
    members = (each.definition.deployed(each.name, 0) for each in added if each.group == group)
    for step in optimize(Plan(insights=tuple(members))).steps:
        lines = lines_of(step.plan, feeds)
        yield ExplainedStep(group=group.id, rule=step.rule, did=step.description, plan=lines)


def lines_of(plan: Plan, feeds: Mapping[str, Feed]) -> list[str]:
    """Return a plan as lines, one per node.

    ``feeds``: insight uid -> the feed that the insight reads.
    """
    return plan_text(plan, feeds).splitlines()


def new_part(plan: Plan) -> Plan:
    """Return the part of a plan that the new insights use."""
    return subplan(plan, tuple(insight for insight in plan.insights if _is_new(insight)))


def _is_new(insight: Insight) -> bool:
    return insight.uid.startswith(f"{_NEW}/")


def _shared(plan: Plan) -> list[Shared]:
    pane_of = {window.id: window.pane for window in plan.windows}
    users: dict[str, list[Insight]] = defaultdict(list)
    for insight in plan.insights:
        windows = windows_of(insight)
        for node in windows | {pane_of[window] for window in windows}:
            users[node].append(insight)
    shared: list[Shared] = []
    for insight in filter(_is_new, plan.insights):
        # In the order of the plan, as a set has none.
        read = windows_of(insight)
        for window in (window.id for window in plan.windows if window.id in read):
            # A shared window implies a shared pane, so only the window is reported.
            for node, gain in ((window, "computed once"), (pane_of[window], "cut once")):
                others = [other for other in users[node] if other.uid != insight.uid]
                if others:
                    shared.append(_describe_sharing(insight, node, others, gain))
                    break
    return shared


def _describe_sharing(insight: Insight, node: str, others: list[Insight], gain: str) -> Shared:
    name = _split_uid(insight.uid)[0]
    first, deployment = _split_uid(others[0].uid)
    of_deployment = "" if deployment == _NEW else f" of {deployment}"
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    return Shared(
        insight=name,
        id=node,
        others=[other.uid for other in others],
        text=f"{name} shares {node} with {first}{of_deployment}{more}; {gain}",
    )


def _split_uid(uid: str) -> tuple[str, str]:
    """Return (insight name, deployment id) from the uid of an insight."""
    deployment, name, _ = uid.split("/")
    return name, deployment
