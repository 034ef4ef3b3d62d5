"""Values at points: their steps, and the windows whose values are merged from aggregates."""

from collections import defaultdict
from collections.abc import Callable, Mapping

import msgspec

from analytics.plan.expressions import Aggregate, Expression, Measure
from analytics.plan.functions import ACCUMULATED, AnyFunction, UserOperator, spec_of
from analytics.plan.nodes import Plan, expressions_of

_ORDERED: frozenset[AnyFunction] = frozenset({"MEDIAN", "PERCENTILE", "TOP_K"})


def is_mergeable(function: AnyFunction) -> bool:
    """Return whether the value of a function at a point can be merged from aggregates of points.

    >>> is_mergeable("AVG"), is_mergeable("LATEST"), is_mergeable("MEDIAN")
    (True, True, False)
    """
    return not isinstance(function, UserOperator) and spec_of(function).merges


def is_ordered(function: AnyFunction) -> bool:
    """Return whether the value of a function at a point depends on values of certain ranks only.

    >>> is_ordered("PERCENTILE"), is_ordered("TOP_K"), is_ordered("MODE")
    (True, True, False)
    """
    return function in _ORDERED


def history_windows(plan: Plan) -> frozenset[str]:
    """Return the ids of the windows that end at points, and whose rows need not contain all points.

    Only mergeable and ordered functions read these windows. Windows of functions that accumulate
    are omitted, since they contain only new points.
    """
    functions = _functions(plan)
    return frozenset(
        window.id
        for window in plan.windows
        if window.each_point
        and window.start is None
        and all(is_mergeable(each) or is_ordered(each) for each in functions[window.id])
    )


def ordered_windows(plan: Plan) -> frozenset[str]:
    """Return the ids of those ``history_windows`` that an ordered function reads."""
    functions = _functions(plan)
    return frozenset(id for id in history_windows(plan) if any(map(is_ordered, functions[id])))


def _functions(plan: Plan) -> Mapping[str, set[AnyFunction]]:
    functions: dict[str, set[AnyFunction]] = defaultdict(set)
    for insight in plan.insights:
        for node in expressions_of(insight):
            if isinstance(node, Measure):
                for id in node.windows:
                    functions[id].add(node.function)
    return functions


def at_step(step_ms: int) -> Callable[[Expression], Expression]:
    """Return a change of nodes (``rewrite``): aggregates are evaluated every ``step_ms``."""

    def change(node: Expression) -> Expression:
        if not isinstance(node, Aggregate):
            return node
        size_ms = step_ms if has_state(node) else node.size_ms
        return msgspec.structs.replace(node, size_ms=size_ms, every_ms=step_ms)

    return change


def has_state(aggregate: Aggregate) -> bool:
    """Return whether an aggregate is computed from a state and the points since the last tick."""
    return aggregate.function in ACCUMULATED or aggregate.points is not msgspec.UNSET
