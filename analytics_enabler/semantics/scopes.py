"""What names, aggregates and the elided left side mean, which depends on where they stand."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from analytics_enabler.semantics.findings import Findings
from grammar import ast
from mistbow.plan.attributes import canonical
from mistbow.plan.expressions import Attribute, Expression, Literal, Value


@dataclass(frozen=True, slots=True)
class CurrentAttribute(ast.Node):
    """A name that turned out to be an attribute of the latest point of a metric."""

    name: str
    of: ast.MetricStream


Leaf = (
    ast.Name
    | ast.Elided
    | ast.Call
    | ast.MetricStream
    | ast.Scoped
    | ast.InsightReference
    | CurrentAttribute
)

STAND_IN = Literal(0.0)
"""Takes the place of what has no meaning, so that the check can go on."""


class Scope(Protocol):
    """A place in a statement; ``names_metrics``: a name is a metric here, no attribute."""

    @property
    def names_metrics(self) -> bool: ...

    def meaning(self, leaf: Leaf) -> Expression:
        """Return what ``leaf`` means here; where it means nothing, a stand-in for it."""


@dataclass(frozen=True, slots=True)
class PointScope:
    """A condition on points: of one metric, or, without one, on their attributes alone."""

    findings: Findings
    metric: str | None = None
    names_metrics: bool = False

    def meaning(self, leaf: Leaf) -> Expression:
        """Return the point's value or an attribute of it."""
        match leaf:
            case ast.Elided():
                return Value()
            case ast.Name(name) if name == self.metric:
                self.findings.error(
                    leaf.span,
                    f"`{name}` is the metric itself, not an attribute of its points",
                    f"Leave it out to compare the value: `{name} WHEN > 0`.",
                )
                return STAND_IN
            case ast.Name(name):
                return Attribute(canonical(name))
            case _:
                self.findings.error(
                    leaf.span,
                    "a condition inside an aggregate is about single points",
                    "Compare with an aggregate in the WHEN at the end of the insight.",
                )
                return STAND_IN


@dataclass(frozen=True, slots=True)
class ComputeScope:
    """The expression after COMPUTE, in which names are metrics."""

    value: Callable[[Leaf], Expression]
    names_metrics: bool = True

    def meaning(self, leaf: Leaf) -> Expression:
        """Return the value that is computed."""
        return self.value(leaf)


@dataclass(frozen=True, slots=True)
class ResultScope:
    """A condition on results, whose names are attributes of their keys."""

    elided: Expression
    value: Callable[[Leaf], Expression]
    names_metrics: bool = False

    def meaning(self, leaf: Leaf) -> Expression:
        """Return what the condition is attached to, an attribute of its key, or a value."""
        match leaf:
            case ast.Elided():
                return self.elided
            case ast.Name(name):
                return Attribute(canonical(name))
            case _:
                return self.value(leaf)


def leaves(node: ast.Expression | ast.Condition) -> Iterator[Leaf]:
    """Yield what a scope gives a meaning to, from left to right."""
    match node:
        case _ if isinstance(node, Leaf):
            yield node
        case ast.Binary() | ast.Compare():
            yield from leaves(node.left)
            yield from leaves(node.right)
        case ast.Negate() | ast.Not() | ast.Membership():
            yield from leaves(node.operand)
        case ast.And(terms) | ast.Or(terms):
            for term in terms:
                yield from leaves(term)
        case _:
            return
