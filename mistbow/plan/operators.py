"""The logical operators of plans, by name: all that a streaming library is asked to lower."""

from collections.abc import Iterable, Iterator
from typing import get_args

from mistbow.plan.expressions import (
    Aggregate,
    Expression,
    Function,
    Mapped,
    Mathematical,
    Measure,
    Reduction,
    Source,
    UserOperator,
)
from mistbow.plan.fragments import Fragment, Partial
from mistbow.plan.nodes import Pane, Window, expressions_of

NODES = frozenset(kind.__name__ for kind in (Source, Pane, Window, *get_args(Expression)))
"""What plans are made of; a predicate over points is a part of its source."""

FUNCTIONS = frozenset((*get_args(Function), *get_args(Mathematical), UserOperator.__name__))
"""What nodes compute; of other packages' operators the plan tells name and version."""

OPERATORS = NODES | FUNCTIONS


def operators_of(fragment: Fragment) -> Iterator[tuple[str, str]]:
    """Yield each operator that a fragment needs, and where: an insight, or the fragment itself."""
    if isinstance(fragment, Partial):
        yield from _each(fragment.id, ["Source", "Pane"])
        return
    yield from _each(fragment.id, ["Source", "Pane", "Window"])
    for insight in fragment.plan.insights:
        for node in expressions_of(insight):
            yield type(node).__name__, insight.uid
            if isinstance(node, Aggregate | Measure | Reduction | Mapped):
                own = isinstance(node.function, UserOperator)
                yield (UserOperator.__name__ if own else str(node.function)), insight.uid


def _each(place: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    return ((name, place) for name in names)


def user_operators_of(fragment: Fragment) -> dict[UserOperator, str]:
    """Return the operators of other packages that a fragment calls, each with an insight (uid)."""
    if isinstance(fragment, Partial):
        return {}
    return {
        node.function: insight.uid
        for insight in fragment.plan.insights
        for node in expressions_of(insight)
        if isinstance(node, Aggregate | Measure | Reduction)
        and isinstance(node.function, UserOperator)
    }
