"""Push filters down to panes: a condition of WHEN on keys becomes a predicate of the points.

Points with other keys are then omitted when panes are computed, stored and sent. A pane includes
each key that at least one of its insights needs. Two kinds of panes stay unchanged. Panes with
Neyman allocation: the rank of an entity among all entities decides how often the entity is sampled.
Panes of accumulating functions: later insights may use the states of these functions with other
keys.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator

import msgspec

from analytics.plan.expressions import (
    And,
    Attribute,
    Comparison,
    Expression,
    Filtered,
    Label,
    Literal,
    Measure,
    Membership,
    Not,
    Or,
    Reduction,
    TickSeries,
    children,
    conjuncts,
    join_conditions,
    walk,
)
from analytics.plan.nodes import Insight, Pane, Plan
from analytics.plan.sampling import NeymanAllocation
from analytics_enabler.optimizer.content_names import counted, pane_of

MAX_ALTERNATIVES = 8
"""The maximum number of alternative conditions of one pane.

With more alternatives, the pane includes all keys. Otherwise each new insight would change the pane
that other insights use, and save fewer and fewer points.
"""

_OF_KEYS = Attribute | Literal | Comparison | Membership | And | Or | Not

Terms = frozenset[Expression]
"""A conjunction of conditions."""


def apply(plan: Plan) -> Plan | None:
    """Return the plan with panes restricted to the keys that insights need.

    Return None if no pane changes.
    """
    needed: dict[str, set[Terms]] = defaultdict(set)
    pane_by = {window.id: window.pane for window in plan.windows}
    for insight in plan.insights:
        for measure, conditions in _measures(insight):
            for window in measure.windows:
                needed[pane_by[window]].add(conditions)
    accumulated = {window.pane for window in plan.windows if window.start is not None}
    narrowed = {
        pane.id: pane if pane.id in accumulated else _narrowed(pane, needed[pane.id])
        for pane in plan.panes
    }
    if tuple(narrowed.values()) == plan.panes:
        return None
    windows = tuple(
        msgspec.structs.replace(window, pane=narrowed[window.pane].id) for window in plan.windows
    )
    panes = {pane.id: pane for pane in narrowed.values()}
    return msgspec.structs.replace(plan, windows=windows, panes=tuple(panes.values()))


def describe(before: Plan, after: Plan) -> str:
    """Return a phrase with the number of panes that were restricted."""
    pairs = zip(before.windows, after.windows, strict=True)
    panes = {(one.pane, other.pane) for one, other in pairs}
    narrowed = sum(one != other for one, other in panes)
    restricted = f"{counted(narrowed, 'pane')} of {len(before.panes)}"
    return f"{restricted} restricted to the keys that insights need"


def _measures(insight: Insight) -> Iterator[tuple[Measure, Terms]]:
    """Yield (measure, conditions on its keys) for each measure of an insight."""
    counts = () if insight.counted is None else insight.counted.counts
    filters = () if insight.filter is None else (insight.filter,)
    conditions = frozenset(term for condition in filters for term in _terms_on_keys(condition))
    for root in (insight.expression, *filters, *counts):
        yield from _measures_in(root, conditions)


def _measures_in(node: Expression, conditions: Terms) -> Iterator[tuple[Measure, Terms]]:
    match node:
        case Measure():
            yield node, conditions
            return
        case Reduction(by=by) | TickSeries(by=by) | Label(by=by):
            # Conditions outside refer to the keys of the reduction, not of its operand.
            conditions = _restricted_to(conditions, by)
        case Filtered(condition=condition):
            conditions = conditions.union(_terms_on_keys(condition))
    for child in children(node):
        yield from _measures_in(child, conditions)


def _terms_on_keys(condition: Expression) -> Iterator[Expression]:
    for term in conjuncts(condition):
        if all(isinstance(node, _OF_KEYS) for node in walk(term)):
            yield term


def _restricted_to(conditions: Terms, by: Collection[str]) -> Terms:
    """Return the conditions that refer only to the attributes ``by``."""
    return frozenset(
        term
        for term in conditions
        if all(node.name in by for node in walk(term) if isinstance(node, Attribute))
    )


def _narrowed(pane: Pane, needed: Collection[Terms]) -> Pane:
    """Return the pane, restricted to the points that satisfy a conjunction of ``needed``.

    A point is included if the point satisfies at least one of these conjunctions.
    """
    source = pane.source
    if isinstance(source.sampling, NeymanAllocation):
        return pane
    present = frozenset(() if source.predicate is None else conjuncts(source.predicate))
    weakest = _weakest({_restricted_to(each, pane.by) - present for each in needed})
    if not weakest:
        return pane
    condition = join_conditions(
        Or, _sorted(join_conditions(And, _sorted(each)) for each in weakest)
    )
    if condition in present:
        return pane
    both = condition if source.predicate is None else And(source.predicate, condition)
    narrow = msgspec.structs.replace(source, predicate=both)
    return pane_of(narrow, pane.by, pane.width_ms, pane.contents)


def _weakest(needed: Collection[Terms]) -> list[Terms]:
    """Return the conjunctions that imply no other conjunction in the list.

    Return [] if all points are needed, or if more than ``MAX_ALTERNATIVES`` conjunctions remain.
    """
    weakest: list[Terms] = []
    for conditions in sorted(needed, key=len):
        if not any(weaker <= conditions for weaker in weakest):
            weakest.append(conditions)
        if not conditions or len(weakest) > MAX_ALTERNATIVES:
            return []
    return weakest


def _sorted(conditions: Collection[Expression] | Iterator[Expression]) -> list[Expression]:
    # Sorted, so that the name of the pane does not depend on the order of the insights.
    return sorted(conditions, key=msgspec.json.encode)
