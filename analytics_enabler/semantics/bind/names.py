"""The meaning of bare names: a metric, the value of a point, or an attribute.

A bare name stands alone, without a function or a clause. ``role`` decides the meaning from the
scope of the name. In conditions on results, the meaning depends on the metrics that the insight
reads in places where only a metric can be named; ``metrics_read`` returns these metrics.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from analytics.plan.attributes import canonical
from analytics_enabler.semantics.bind.bound_tree import PointSource, Subject
from analytics_enabler.semantics.bind.symbols import is_of_attributes
from grammar import ast
from grammar.trees import children, walk


class Role(Enum):
    """The meaning of a bare name."""

    METRIC = auto()
    ATTRIBUTE = auto()
    POINT_VALUE = auto()
    OWN_METRIC = auto()
    """The metric whose points the condition restricts.

    The name is an error: in ``cpu WHEN cpu > 0``, the second ``cpu`` must be omitted.
    """


@dataclass(frozen=True, slots=True)
class ValueScope:
    """The scope of a value, in which names mean metrics.

    A value stands after COMPUTE, in parentheses, or in an argument. ``by``: the attributes that
    form the keys of the value. ``labels``: the attributes in the keys of this value and of all
    surrounding values; in conditions on results, the names of these attributes never mean metrics.
    """

    by: tuple[str, ...]
    labels: frozenset[str]


@dataclass(frozen=True, slots=True)
class MetricNames:
    """The names that mean metrics.

    ``existing``: the metrics that have points. ``read``: the metrics that the insight reads.
    """

    existing: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()

    def __contains__(self, name: str) -> bool:
        return name in self.existing or name in self.read


@dataclass(frozen=True, slots=True)
class ResultScope:
    """The scope of a condition on the results ``subject``.

    A name means a metric if a metric has this name and no surrounding key contains an attribute
    with this name. Otherwise the name means an attribute. ``latest``: in ALLOW, the points at whose
    latest an attribute is read that is in no key.
    """

    values: ValueScope
    subject: Subject
    metrics: MetricNames
    latest: PointSource | None = None


@dataclass(frozen=True, slots=True)
class PointScope:
    """The scope of a condition on points, in which names mean attributes.

    ``own_metric``: the metric whose WHEN contains the condition; None: the condition is not in the
    WHEN of a metric. ``value_name``: in ALLOW, the metric whose name means the value of a point.
    """

    own_metric: str | None = None
    value_name: str | None = None


Scope = ValueScope | ResultScope | PointScope


def role(name: str, scope: Scope, *, beside_word: bool = False) -> Role:
    """Return the meaning of a name in a scope.

    ``beside_word``: whether the name is compared with a text or a boolean; such a name never
    means a metric.
    """
    match scope:
        case ValueScope():
            return Role.METRIC
        case PointScope(own_metric, value_name):
            if name == value_name:
                return Role.POINT_VALUE
            return Role.OWN_METRIC if name == own_metric else Role.ATTRIBUTE
        case ResultScope(values, _, metrics):
            is_metric = name in metrics and canonical(name) not in values.labels
            return Role.METRIC if is_metric and not beside_word else Role.ATTRIBUTE


def metrics_read(insight: ast.InsightStatement) -> Iterator[ast.MetricStream]:
    """Yield the metrics of an insight in places where only a metric can be named.

    The order is from left to right.
    """
    yield from _metrics_in_value(insight.expression)
    if insight.when is not None:
        yield from metrics_in_condition(insight.when)


def metrics_with_feed(insight: ast.InsightStatement) -> list[ast.MetricStream]:
    """Return the metrics that determine the feed of an insight, from left to right.

    A bare name after COMPUTE may be an attribute of the points that WHEN reads, so the bare name
    determines the feed only if WHEN contains no metric.
    """
    if isinstance(insight.expression, ast.Name) and insight.when is not None:
        in_condition = list(metrics_in_condition(insight.when))
        if in_condition:
            return in_condition
    return list(metrics_read(insight))


def possible_metrics(statements: Iterable[ast.Statement]) -> frozenset[str]:
    """Return the names in statements that may mean metrics."""
    return frozenset(
        node.metric if isinstance(node, ast.MetricStream | ast.Position) else node.name
        for statement in statements
        for node in walk(statement)
        if isinstance(node, ast.MetricStream | ast.Position | ast.Name)
    )


def metrics_in_condition(node: ast.SyntaxNode) -> Iterator[ast.MetricStream]:
    """Yield the metrics of a condition in places where only a metric can be named."""
    match node:
        case ast.Name():
            return
        case ast.FunctionCall(function) if is_of_attributes(function):
            return
        case ast.FunctionCall() | ast.MetricStream() | ast.Scoped():
            yield from _metrics_in_value(node)
        case _:
            for child in children(node):
                yield from metrics_in_condition(child)


def _metrics_in_value(node: ast.SyntaxNode) -> Iterator[ast.MetricStream]:
    match node:
        case ast.Name(name):
            yield ast.MetricStream(name, span=node.span)
        case ast.MetricStream():
            yield node
        case ast.Position(metric, _, _, members, when):
            yield ast.MetricStream(metric, members, when, span=node.span)
        case ast.Scoped(expression, _, when):
            yield from _metrics_in_value(expression)
            if when is not None:
                yield from metrics_in_condition(when)
        case ast.FunctionCall(function) if is_of_attributes(function):
            return
        case ast.FunctionCall():
            for argument in node.arguments:
                yield from _metrics_in_value(argument)
        case _:
            for child in children(node):
                yield from _metrics_in_value(child)


def leaves(node: ast.Expression | ast.Condition) -> Iterator[ast.SyntaxNode]:
    """Yield the innermost operands in a condition, from left to right, without constants."""
    match node:
        case ast.Binary() | ast.Compare():
            yield from leaves(node.left)
            yield from leaves(node.right)
        case ast.Negate() | ast.NotCondition() | ast.ListMembership():
            yield from leaves(node.operand)
        case ast.AndCondition(terms) | ast.OrCondition(terms):
            for term in terms:
                yield from leaves(term)
        case ast.Number() | ast.Text() | ast.Boolean():
            return
        case _:
            yield node
