"""The names of the logical operators of plans.

Each streaming library declares which of these operators it supports.
"""

from collections.abc import Iterable, Iterator
from typing import get_args

from analytics.plan.expressions import (
    Aggregate,
    Derived,
    Expression,
    Mapped,
    Measure,
    Reduction,
    Source,
    TickSeries,
    walk,
)
from analytics.plan.fragments import Fragment, Partial
from analytics.plan.functions import FUNCTIONS, Mathematical, UserOperator
from analytics.plan.nodes import Pane, Window, expressions_of

NODES = frozenset(kind.__name__ for kind in (Source, Pane, Window, *get_args(Expression)))
"""The node types of plans, except predicates over points, which are parts of sources."""

OPERATORS = NODES | {*FUNCTIONS, *get_args(Mathematical), UserOperator.__name__}
"""The node types, and the functions that nodes compute.

All operators of other packages share one name, ``UserOperator``.
"""


def operators_of(fragment: Fragment) -> Iterator[tuple[str, str]]:
    """Yield (logical operator, user) for a fragment; ``user``: the id of an insight or fragment."""
    if isinstance(fragment, Partial):
        yield from _each(fragment.id, ["Source", "Pane"])
        return
    yield from _each(fragment.id, ["Source", "Pane", "Window"])
    for insight in fragment.plan.insights:
        for node in expressions_of(insight):
            yield type(node).__name__, insight.uid
            if isinstance(node, Aggregate | Measure | Reduction | TickSeries | Mapped):
                own = isinstance(node.function, UserOperator)
                yield (UserOperator.__name__ if own else str(node.function)), insight.uid


def _each(used_by: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    return ((name, used_by) for name in names)


def user_operators_of(fragment: Fragment) -> dict[UserOperator, str]:
    """Return the operators of other packages in a fragment: operator -> uid of one caller."""
    if isinstance(fragment, Partial):
        return dict(_of_panes(fragment.panes, fragment.id))
    found = dict(_of_panes(fragment.plan.panes, fragment.id))
    for insight in fragment.plan.insights:
        for node in expressions_of(insight):
            if isinstance(node, Aggregate | Measure | Reduction | TickSeries | Derived) and (
                isinstance(node.function, UserOperator)
            ):
                found[node.function] = insight.uid
    return found


def _of_panes(panes: Iterable[Pane], used_by: str) -> Iterator[tuple[UserOperator, str]]:
    """Yield (operator, user) for each operator in the conditions on the points of panes."""
    for pane in panes:
        predicate = pane.source.predicate
        for node in () if predicate is None else walk(predicate):
            if isinstance(node, Derived):
                yield node.function, used_by
