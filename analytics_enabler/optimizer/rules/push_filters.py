"""Make panes only of keys that are asked for: what a WHEN says of keys holds for their points.

Those of other keys are left out where points go to panes, so none is made, kept or sent of them. A
pane takes the points of those keys that some insight over it keeps. Two stay as they are: one
whose source is allotted, for of entities that vary alike the order among all decides which are
drawn more often; and one over which something accumulates, for its states are used by insights that
come later and ask for other keys.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator

import msgspec

from analytics_enabler.optimizer.naming import pane_of, these
from mistbow.plan.expressions import (
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
    children,
    joined,
    terms,
    walk,
)
from mistbow.plan.nodes import Insight, Pane, Plan
from mistbow.plan.sampling import Allotted

MOST_ALTERNATIVES = 8
"""Where insights ask for more different keys than this, all are taken: else each insight that
comes or goes would change the pane of all others, for ever less that is left out.
"""

_OF_KEYS = Attribute | Literal | Comparison | Membership | And | Or | Not

Terms = frozenset[Expression]
"""Conditions that all hold."""


def apply(plan: Plan) -> Plan | None:
    """Let panes take only points of keys that an insight keeps."""
    asked: dict[str, set[Terms]] = defaultdict(set)
    pane_by = {window.id: window.pane for window in plan.windows}
    for insight in plan.insights:
        for measure, held in _asked_by(insight):
            for window in filter(None, (measure.window, measure.other)):
                asked[pane_by[window]].add(held)
    accumulated = {window.pane for window in plan.windows if window.start is not None}
    narrowed = {
        pane.id: pane if pane.id in accumulated else _narrowed(pane, asked[pane.id])
        for pane in plan.panes
    }
    if tuple(narrowed.values()) == plan.panes:
        return None
    windows = tuple(
        msgspec.structs.replace(window, pane=narrowed[window.pane].id) for window in plan.windows
    )
    panes = {pane.id: pane for pane in narrowed.values()}
    return msgspec.structs.replace(plan, windows=windows, panes=tuple(panes.values()))


def did(before: Plan, after: Plan) -> str:
    """Say what the rule did."""
    pairs = zip(before.windows, after.windows, strict=True)
    panes = {(one.pane, other.pane) for one, other in pairs}
    narrowed = sum(one != other for one, other in panes)
    return f"{these(narrowed, 'pane')} of {len(before.panes)} only of keys that are asked for"


def _asked_by(insight: Insight) -> Iterator[tuple[Measure, Terms]]:
    """Yield what an insight measures, and what holds for all keys of which it takes that."""
    counts = () if insight.counted is None else insight.counted.counts
    filters = () if insight.filter is None else (insight.filter,)
    held = frozenset(term for condition in filters for term in _terms_on_keys(condition))
    for root in (insight.expression, *filters, *counts):
        yield from _asked_in(root, held)


def _asked_in(node: Expression, held: Terms) -> Iterator[tuple[Measure, Terms]]:
    match node:
        case Measure():
            yield node, held
            return
        case Reduction(by=by) | Label(by=by):
            # Its other keys are of its own making.
            held = _on(held, by)
        case Filtered(condition=condition):
            held = held.union(_terms_on_keys(condition))
    for child in children(node):
        yield from _asked_in(child, held)


def _terms_on_keys(condition: Expression) -> Iterator[Expression]:
    for term in terms(condition):
        if all(isinstance(node, _OF_KEYS) for node in walk(term)):
            yield term


def _on(held: Terms, by: Collection[str]) -> Terms:
    """Return the conditions that need no other attributes."""
    return frozenset(
        term
        for term in held
        if all(node.name in by for node in walk(term) if isinstance(node, Attribute))
    )


def _narrowed(pane: Pane, asked: Collection[Terms]) -> Pane:
    """Return a pane of points for which all of any of ``asked`` holds."""
    source = pane.source
    if isinstance(source.sampling, Allotted):
        return pane
    known = frozenset(() if source.predicate is None else terms(source.predicate))
    wanted = _least({_on(held, pane.by) - known for held in asked})
    if not wanted:
        return pane
    condition = joined(Or, _sorted(joined(And, _sorted(held)) for held in wanted))
    if condition in known:
        return pane
    both = condition if source.predicate is None else And(source.predicate, condition)
    narrow = msgspec.structs.replace(source, predicate=both)
    return pane_of(narrow, pane.by, pane.width_ms, pane.contents)


def _least(asked: Collection[Terms]) -> list[Terms]:
    """Return those that have no other one in them: wherever more holds, less does, too.

    Empty where all points are asked for, or more different ones than a pane has.
    """
    found: list[Terms] = []
    for held in sorted(asked, key=len):
        if not any(less <= held for less in found):
            found.append(held)
        if not held or len(found) > MOST_ALTERNATIVES:
            return []
    return found


def _sorted(conditions: Collection[Expression] | Iterator[Expression]) -> list[Expression]:
    # In an order of their own, for the pane's name not to depend on who came first.
    return sorted(conditions, key=msgspec.json.encode)
