"""The symbols of insights and functions."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from analytics.operators.interface import InstalledOperator
from analytics.operators.registry import installed
from analytics.plan.expressions import Aggregate as PlanAggregate
from analytics.plan.expressions import (
    Expression,
    Label,
    Reduction,
    TickSeries,
    children,
    is_condition,
    is_text,
    walk,
)
from analytics.plan.functions import (
    FUNCTIONS,
    AnyFunction,
    Function,
    Mathematical,
    UserOperator,
    spec_of,
)
from analytics_enabler.semantics.definition import Definition

MAX_NODES = 10_000
"""The maximum total number of nodes in the insights that one insight references."""

_AGGREGATES: dict[str, Function] = {name: name for name in FUNCTIONS if name != "LATEST"}
_MATHEMATICAL: dict[str, Mathematical] = {name: name for name in get_args(Mathematical)}


@dataclass(frozen=True)
class InsightSymbol:
    """An insight that other insights can reference."""

    definition: Definition

    @property
    def name(self) -> str:
        """The name of the insight."""
        return self.definition.name

    @cached_property
    def keys(self) -> frozenset[str]:
        """The attributes of the keys of the insight's values."""
        return _keys_of(self.definition.expression)

    @cached_property
    def yields_text(self) -> bool:
        """Whether the values of the insight are texts."""
        return is_text(self.definition.expression)

    @cached_property
    def aggregates(self) -> tuple[PlanAggregate, ...]:
        """The aggregates that the insight computes."""
        nodes = self.nodes()
        return tuple(node for node in nodes if isinstance(node, PlanAggregate))

    def nodes(self) -> Iterator[Expression]:
        """Yield all nodes of the insight's expression and of its filter."""
        for root in _roots(self.definition):
            yield from walk(root)

    @cached_property
    def extent(self) -> tuple[int, int]:
        """(number of nodes, number of levels) of the insight; see the function ``extent``."""
        return extent(self.definition)


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A function of single values; ``arity`` is the number of its arguments."""

    function: Mathematical | Literal["GEOHASH"]
    arity: int


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """A function of many values; ``arity`` is the number of its arguments.

    ``operator``: the operator that implements the function, if another package provides the
    function.
    """

    function: AnyFunction
    arity: int
    operator: InstalledOperator | None = None


@dataclass(frozen=True, slots=True)
class AttributeFunction:
    """A function of attributes, which an operator of another package implements.

    ``arity`` is the number of its arguments.
    """

    function: UserOperator
    arity: int
    operator: InstalledOperator


ValueFunction = ScalarFunction | AggregateFunction
"""A function of metrics or values."""

FunctionSymbol = ValueFunction | AttributeFunction


def function_symbol(name: str) -> FunctionSymbol | None:
    """Return the symbol of the function ``name`` (in upper case); None if unknown."""
    if (mathematical := _MATHEMATICAL.get(name)) is not None:
        return ScalarFunction(mathematical, 1)
    if name == "GEOHASH":
        return ScalarFunction("GEOHASH", 2)
    if (aggregate := _AGGREGATES.get(name)) is not None:
        return AggregateFunction(aggregate, spec_of(aggregate).metrics)
    operator = installed().newest(name)
    if operator is None:
        return None
    # The version is a part of the definition: an installed newer version does not change it.
    function = UserOperator(operator.name, operator.version)
    if operator.attributes:
        return AttributeFunction(function, operator.attributes, operator)
    return AggregateFunction(function, operator.metrics, operator)


def is_of_attributes(function: str) -> bool:
    """Return whether a function is an operator over attributes of points."""
    return isinstance(function_symbol(function), AttributeFunction)


def is_scalar(function: str) -> bool:
    """Return whether a function maps single values to a single value, as ``SQRT`` does."""
    return function in _MATHEMATICAL or function == "GEOHASH"


def extent(definition: Definition) -> tuple[int, int]:
    """Return (number of nodes, number of levels) of a definition, including predicates.

    Stop counting above ``MAX_NODES`` nodes.
    """
    pending, count, depth = [(root, 1) for root in _roots(definition)], 0, 0
    while pending and count <= MAX_NODES:
        node, level = pending.pop()
        count, depth = count + 1, max(depth, level)
        pending.extend((child, level + 1) for child in _children(node))
    return count, depth


def _roots(definition: Definition) -> list[Expression]:
    return [part for part in (definition.expression, definition.filter) if part is not None]


def _children(node: Expression) -> Iterator[Expression]:
    yield from children(node)
    if isinstance(node, PlanAggregate):
        yield from (each.predicate for each in node.sources if each.predicate is not None)


def _keys_of(expression: Expression) -> frozenset[str]:
    """Return the attributes that form the keys of an expression: the union over its operands."""
    found: set[str] = set()
    pending = [expression]
    while pending:
        node = pending.pop()
        if isinstance(node, PlanAggregate | Reduction | TickSeries | Label):
            found.update(node.by)
        else:
            pending += [child for child in children(node) if not is_condition(child)]
    return frozenset(found)
