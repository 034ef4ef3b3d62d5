"""The bound tree: names are resolved to symbols, and each value has a type and keys.

Bound nodes are immutable and store the span of the syntax that they were bound from. ``Unresolved``
replaces values without a meaning. Binding reports the error of an unresolved value once, and checks
skip all values that depend on an unresolved value.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import msgspec

from analytics.plan.expressions import ArithmeticOperator, Comparator, Expression, Scalar
from analytics.plan.feeds import Feed
from analytics.plan.functions import AnyFunction, Mathematical, Parameters, UserOperator
from analytics.plan.sampling import Adaptive
from analytics.plan.ticks import At, Ticks
from analytics_enabler.semantics.bind.symbols import InsightSymbol
from analytics_enabler.semantics.definition import Options
from analytics_enabler.semantics.diagnostics import head
from grammar import ast
from grammar.trees import walk

Type = Literal["a number", "a text", "a boolean"]
NO_KEYS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties of a value.

    ``type``: None for an attribute, whose values may have any type. ``keys``: the attributes that
    form the keys of the values. ``reads``: whether the value depends on points. ``resolved``:
    whether the tree of the value contains no ``Unresolved`` node.
    """

    type: Type | None = "a number"
    keys: frozenset[str] = NO_KEYS
    reads: bool = False
    resolved: bool = True


PLAIN = Properties()
"""The properties of a number that depends on no points."""


@dataclass(frozen=True, slots=True)
class BoundValue(ast.SyntaxNode):
    """A value in the bound tree."""

    properties: Properties = field(default=PLAIN, kw_only=True, repr=False)

    @property
    def type(self) -> Type | None:
        return self.properties.type

    @property
    def keys(self) -> frozenset[str]:
        return self.properties.keys

    @property
    def reads(self) -> bool:
        return self.properties.reads

    @property
    def resolved(self) -> bool:
        return self.properties.resolved


@dataclass(frozen=True, slots=True)
class Unresolved(BoundValue):
    """A value or condition without a meaning.

    ``parts``: the bound operands of the value, so that checks also find the errors in the operands.
    """

    parts: tuple[BoundValue, ...] = ()


@dataclass(frozen=True, slots=True)
class Constant(BoundValue):
    """A number, a text or a boolean."""

    value: Scalar


@dataclass(frozen=True, slots=True)
class Subject(BoundValue):
    """The value that a condition restricts: the value of a point, or results.

    A text usually omits this side of a comparison, as in ``WHEN > 100``.
    """


@dataclass(frozen=True, slots=True)
class AttributeRead(BoundValue):
    """An attribute of a point or of a key.

    ``name``: the canonical name. ``written``: the name in the text.
    """

    name: str
    written: str


@dataclass(frozen=True, slots=True)
class PointSource(ast.SyntaxNode):
    """The points of a metric that a value reads.

    ``entities``: the entities whose points are read; () for all entities. ``terms``: the conditions
    that the points satisfy. ``predicate``: a further condition, of a referenced insight.
    """

    metric: str
    entities: tuple[str, ...] = ()
    terms: "tuple[BoundCondition, ...]" = ()
    predicate: Expression | None = None


@dataclass(frozen=True, slots=True)
class CurrentValue(BoundValue):
    """The latest value of a metric for each key.

    ``by``: the attributes that form the keys.
    """

    source: PointSource
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LabelRead(BoundValue):
    """The value of ``attribute`` at the latest point of ``source`` for each key.

    ``by``: the attributes that form the keys. ``longitude``: the attribute with the longitude, if
    ``attribute`` is a latitude; the value is then a text with both. ``kind``: only values of this
    type count; None: all values count, written as texts.
    """

    attribute: str
    source: PointSource
    by: tuple[str, ...]
    longitude: str | None = None
    kind: Type | None = None


@dataclass(frozen=True, slots=True)
class BoundInsightReference(BoundValue):
    """The results of another insight."""

    symbol: InsightSymbol


@dataclass(frozen=True, slots=True)
class BoundAggregation(BoundValue):
    """A function over the points of one or two metrics.

    ``by``: the attributes that form the keys. ``call``: the syntax node.
    """

    function: AnyFunction
    sources: tuple[PointSource, ...]
    by: tuple[str, ...]
    parameters: Parameters
    call: ast.FunctionCall = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class BoundReduction(BoundValue):
    """A function over the values of several keys at one tick.

    ``by``: the attributes that form the keys of the results. ``call``: the syntax node.
    """

    function: AnyFunction
    operands: tuple[BoundValue, ...]
    by: tuple[str, ...]
    parameters: Parameters
    call: ast.FunctionCall = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class BoundTickSeries(BoundValue):
    """A function over the values that its operands have at several ticks.

    ``by``: the attributes that form the keys of the results. ``call``: the syntax node; its window
    contains the ticks.
    """

    function: AnyFunction
    operands: tuple[BoundValue, ...]
    by: tuple[str, ...]
    parameters: Parameters
    call: ast.FunctionCall = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class ScalarCall(BoundValue):
    """A call of a function of single values, such as a mathematical function."""

    function: Mathematical | Literal["GEOHASH"]
    operands: tuple[BoundValue, ...]
    parameters: Parameters
    call: ast.FunctionCall = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class BoundDerivation(BoundValue):
    """A value, or a list of values, that an operator derives from attributes.

    ``operands``: attributes and constants.
    """

    function: UserOperator
    operands: tuple[BoundValue, ...]


@dataclass(frozen=True, slots=True)
class BoundArithmetic(BoundValue):
    """An arithmetic operation with two operands."""

    operator: ArithmeticOperator
    left: BoundValue
    right: BoundValue


@dataclass(frozen=True, slots=True)
class BoundNegation(BoundValue):
    """An operand with its sign changed."""

    operand: BoundValue


@dataclass(frozen=True, slots=True)
class BoundComparison(ast.SyntaxNode):
    """A comparison of two values."""

    operator: Comparator
    left: BoundValue
    right: BoundValue


@dataclass(frozen=True, slots=True)
class BoundMembership(ast.SyntaxNode):
    """The condition that an operand is, or is not, one of the values in a list."""

    operand: BoundValue
    members: tuple[ast.Value, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class BoundWithin(ast.SyntaxNode):
    """The condition that an operand is, or is not, in a list that an operator derives."""

    operand: BoundValue
    options: BoundDerivation
    negated: bool


@dataclass(frozen=True, slots=True)
class Conjunction(ast.SyntaxNode):
    """The condition that all terms are true."""

    terms: "tuple[BoundCondition, ...]"


@dataclass(frozen=True, slots=True)
class Disjunction(ast.SyntaxNode):
    """The condition that at least one term is true."""

    terms: "tuple[BoundCondition, ...]"


@dataclass(frozen=True, slots=True)
class Complement(ast.SyntaxNode):
    """The condition that the operand is false."""

    operand: "BoundCondition"


BoundCondition = (
    BoundComparison
    | BoundMembership
    | BoundWithin
    | Conjunction
    | Disjunction
    | Complement
    | Unresolved
)


@dataclass(frozen=True, slots=True)
class Conditions(ast.SyntaxNode):
    """The terms of a WHEN: conditions on points, and conditions on results."""

    on_points: tuple[BoundCondition, ...] = ()
    on_results: tuple[BoundCondition, ...] = ()


@dataclass(frozen=True, slots=True)
class BoundScope(BoundValue):
    """A value in parentheses that has its own BY or WHEN.

    ``written_by``: the attributes in its own BY, as written. ``by``: the attributes in its own BY
    and in all surrounding BYs.
    """

    value: BoundValue
    by: tuple[str, ...]
    when: Conditions
    written_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trigger:
    """The times at which an insight has values: ticks, or the times of points (``each_point``).

    ``every_ms``: the interval between ticks, or between evaluations of values at points; None: the
    EVERY is erroneous. ``at``: the time of day of the ticks, if given. ``points``: n, if only every
    n-th point of a key has a value.
    """

    every_ms: int | None
    each_point: bool = False
    points: int | None = None
    at: At = msgspec.UNSET

    @property
    def ticks(self) -> Ticks | None:
        """The ticks of the trigger; None if the EVERY is erroneous."""
        return None if self.every_ms is None else Ticks(self.every_ms, self.at)


@dataclass(frozen=True, slots=True)
class Allowance(ast.SyntaxNode):
    """A condition of ALLOW on points.

    ``metric``: the metric whose points must satisfy the condition; None: the points of all metrics
    must satisfy the condition.
    """

    metric: str | None
    condition: BoundCondition


@dataclass(frozen=True, slots=True)
class BoundSampling:
    """The option SAMPLE or MAX_ERROR.

    ``accurate``: whether AWARENESS ON ACCURACY is set, so that the sample is chosen for a small
    error.
    """

    option: ast.SampleOption | ast.Accuracy
    accurate: bool = False


@dataclass(frozen=True, slots=True)
class BoundOptions:
    """The bound options of WITH.

    ``run``: the options that determine how the insight runs. ``scheduler``, ``sampling`` and
    ``adaptive`` are None if the text does not contain the option.
    """

    run: Options
    scheduler: str | None
    sampling: BoundSampling | None
    adaptive: Adaptive | None


@dataclass(frozen=True)
class BoundInsight(ast.SyntaxNode):
    """An insight: its value, its WHEN, its ALLOW, its trigger and its options.

    ``allowed``: the conditions of ALLOW on points. ``by``: the attributes of the insight's BY.
    ``keys``: the attributes of the keys of the results. ``syntax``: the insight after the expansion
    of functions and streams. ``feed``: the feed that the insight reads; None: the insight reads
    storage.
    """

    value: BoundValue
    when: Conditions
    allowed: tuple[Allowance, ...]
    by: tuple[str, ...]
    keys: tuple[str, ...]
    trigger: Trigger
    options: BoundOptions
    feed: Feed | None
    syntax: ast.InsightStatement = field(kw_only=True)

    @cached_property
    def nodes(self) -> tuple[ast.SyntaxNode, ...]:
        """All nodes of the tree, parents before children, from left to right."""
        return tuple(walk(self))

    @property
    def sources(self) -> Iterator[PointSource]:
        """The points that the insight reads directly, from left to right.

        The points that referenced insights read are omitted.
        """
        return (node for node in self.nodes if isinstance(node, PointSource))

    @property
    def unresolved(self) -> Iterator[Unresolved]:
        """The parts of the insight that have no meaning, because of an error."""
        return (node for node in self.nodes if isinstance(node, Unresolved))

    @property
    def head(self) -> ast.Span:
        """The span of the insight's name."""
        return head(self.syntax.span, len(self.syntax.name))

    @property
    def at_points(self) -> bool:
        """Whether the insight has values at points. A sampled insight has values at ticks."""
        return self.trigger.each_point and self.options.sampling is None
