"""From a checked text to an explanation of it, but for where it would run."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from analytics_enabler.deployments.model import Generation
from analytics_enabler.explain.tree import tree_of
from analytics_enabler.fragments import plans_of
from analytics_enabler.groups import Group
from analytics_enabler.optimizer import optimize
from analytics_enabler.plan_text import plan_text
from analytics_enabler.semantics import Checked, Sites, scope_of
from mistbow.insights import ExplainedStep, Explanation, Shared
from mistbow.plan.feeds import Feed
from mistbow.plan.nodes import Insight, Plan
from mistbow.plan.resumption import only, windows_of

_NEW = "new"


def added_by(checked: Checked, sites: Sites) -> list[Generation]:
    """Return the generations that would be there if a text were deployed."""
    return [
        Generation(
            uid=f"{_NEW}/{definition.name}/1",
            definition=definition,
            since=0,
            scope=scope_of(definition, sites),
        )
        for definition in checked.definitions
    ]


def plans_with(added: Sequence[Generation], running: Iterable[Generation]) -> dict[Group, Plan]:
    """Return the plans of the groups that a text would be part of."""
    groups = {generation.group for generation in added}
    return plans_of([*(each for each in running if each.group in groups), *added])


def explain(checked: Checked, added: Sequence[Generation], plans: dict[Group, Plan]) -> Explanation:
    """Say what a text becomes, and what of it runs already."""
    problems = list(checked.problems)
    if not checked.ok or checked.script is None:
        return Explanation(problems=problems)
    plan = Plan(insights=tuple(each.definition.deployed(each.name, 0) for each in added))
    fed = {each.name: each.definition.feed for each in added}
    feeds = {name: feed for name, feed in fed.items() if feed is not None}
    return Explanation(
        problems=problems,
        ast=[tree_of(statement) for statement in checked.script.statements],
        plan=lines_of(plan, feeds),
        steps=[step for group in plans for step in _steps(group, added, feeds)],
        shared=[shared for each in plans.values() for shared in _shared(each)],
    )


def _steps(
    group: Group, added: Iterable[Generation], feeds: Mapping[str, Feed]
) -> Iterator[ExplainedStep]:
    """Yield what the optimizer does to those of a text's insights that run together."""
    members = (each.definition.deployed(each.name, 0) for each in added if each.group == group)
    for step in optimize(Plan(insights=tuple(members))).steps:
        lines = lines_of(step.plan, feeds)
        yield ExplainedStep(group=group.id, rule=step.rule, did=step.did, plan=lines)


def lines_of(plan: Plan, feeds: Mapping[str, Feed]) -> list[str]:
    """Return a plan, one node a line; ``feeds`` are those that insights read, by uid."""
    return plan_text(plan, feeds).splitlines()


def new_part(plan: Plan) -> Plan:
    """Return what of a plan the new insights use."""
    return only(plan, tuple(insight for insight in plan.insights if _is_new(insight)))


def _is_new(insight: Insight) -> bool:
    return insight.uid.startswith(f"{_NEW}/")


def _shared(plan: Plan) -> list[Shared]:
    pane_of = {window.id: window.pane for window in plan.windows}
    users: dict[str, list[Insight]] = defaultdict(list)
    for insight in plan.insights:
        windows = windows_of(insight)
        for node in windows | {pane_of[window] for window in windows}:
            users[node].append(insight)
    found: list[Shared] = []
    for insight in filter(_is_new, plan.insights):
        # In the plan's order: a set has none.
        read = windows_of(insight)
        for window in (window.id for window in plan.windows if window.id in read):
            # Who shares a window shares its pane too: only the closest is worth telling.
            for node, gain in ((window, "computed once"), (pane_of[window], "cut once")):
                others = [other for other in users[node] if other.uid != insight.uid]
                if others:
                    found.append(_sharing(insight, node, others, gain))
                    break
    return found


def _sharing(insight: Insight, node: str, others: list[Insight], gain: str) -> Shared:
    name = _named(insight.uid)[0]
    first, owner = _named(others[0].uid)
    whose = "" if owner == _NEW else f" of {owner}"
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    return Shared(
        insight=name,
        id=node,
        others=[other.uid for other in others],
        text=f"{name} shares {node} with {first}{whose}{more}; {gain}",
    )


def _named(uid: str) -> tuple[str, str]:
    """Return the names of an insight and of its deployment."""
    deployment, name, _ = uid.split("/")
    return name, deployment
