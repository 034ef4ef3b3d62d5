"""The abstract syntax of the insight language, as frozen dataclasses.

Nodes are compared without ``span``, their location in the source text.
"""

from dataclasses import dataclass, field
from datetime import time
from typing import Literal


@dataclass(frozen=True, slots=True)
class Span:
    """A range of the source text: 1-based line and column, 0-based offset, length in characters."""

    line: int
    column: int
    offset: int
    length: int


NOWHERE = Span(line=1, column=1, offset=0, length=0)
"""The span of nodes that were not parsed from a text."""


@dataclass(frozen=True, slots=True)
class SyntaxNode:
    """The base class of nodes.

    ``span``: the range of the source text from which the node was parsed.
    """

    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Interval(SyntaxNode):
    """A length of time in milliseconds, at least 1."""

    millis: int


@dataclass(frozen=True, slots=True)
class PointCount(SyntaxNode):
    """``EVERY count POINTS``; ``count`` is at least 1."""

    count: int


@dataclass(frozen=True, slots=True)
class Daily(SyntaxNode):
    """``EVERY days DAYS AT at zone``.

    ``days``: at least 1. ``at``: a time of day in hours and minutes. ``zone``: the name of a time
    zone.
    """

    days: int
    at: time
    zone: str


Rhythm = Interval | PointCount | Daily
"""The value of an EVERY: an interval, a number of points, or a time of day."""


@dataclass(frozen=True, slots=True)
class Number(SyntaxNode):
    """A finite number, with the sign that directly precedes its digits."""

    value: float


@dataclass(frozen=True, slots=True)
class Text(SyntaxNode):
    """A quoted string in a condition or a setting, with its escapes resolved."""

    value: str


@dataclass(frozen=True, slots=True)
class Boolean(SyntaxNode):
    """``true`` or ``false``."""

    value: bool


Value = Number | Text | Boolean


@dataclass(frozen=True, slots=True)
class Name(SyntaxNode):
    """The name of a metric, of an attribute, or of a parameter of the surrounding FUNCTION.

    ``bind`` decides which of these the name means. A name may be quoted in the source text, except
    in a condition, where quotes denote a Text. ``quoted``: whether the source text has the quotes;
    to an operator over attributes, a quoted argument is a text.
    """

    name: str
    quoted: bool = field(default=False, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Elided(SyntaxNode):
    """The omitted left side in ``WHEN > 100``: the value to which the condition is attached."""


@dataclass(frozen=True, slots=True)
class MetricStream(SyntaxNode):
    """``metric [FROM (members)] [WHEN condition]``, with at least one of the clauses.

    A metric without clauses is a Name. ``members``: names of entities or STREAM definitions; empty:
    the points of all entities are read.
    """

    metric: str
    members: tuple[str, ...] = ()
    when: "Condition | None" = None


@dataclass(frozen=True, slots=True)
class InsightReference(SyntaxNode):
    """``INSIGHT name``: the results of another insight."""

    name: str


@dataclass(frozen=True, slots=True)
class Position(SyntaxNode):
    """The geographical positions of the points of a metric, in two attributes of the points.

    The text has only the name of a STREAM; the expansion of streams replaces the name. ``members``
    and ``when``: the clauses of the name in the text, as in ``MetricStream``.
    """

    metric: str
    latitude: str
    longitude: str
    members: tuple[str, ...] = ()
    when: "Condition | None" = None


@dataclass(frozen=True, slots=True)
class FunctionCall(SyntaxNode):
    """``function[parameters](arguments [, window [, offset]])``; at least one argument.

    ``function``: the canonical name, in upper case. ``window``: None if the text gives no window;
    the window of a windowed function is then the insight's EVERY interval.
    """

    function: str
    arguments: "tuple[Expression, ...]"
    parameters: "tuple[Parameter, ...]" = ()
    window: Interval | None = None
    offset: Interval | None = None


@dataclass(frozen=True, slots=True)
class Negate(SyntaxNode):
    """A unary minus on an operand that is not a literal number; a Number includes its own sign."""

    operand: "Expression"


Operator = Literal["+", "-", "*", "/"]


@dataclass(frozen=True, slots=True)
class Binary(SyntaxNode):
    """Arithmetic on two values, written as an operator or as ADD, SUB, MUL or DIV."""

    operator: Operator
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Scoped(SyntaxNode):
    """``expression [BY by] [WHEN when]`` inside an expression, with at least one of the clauses.

    A metric with a WHEN and without a BY is a MetricStream instead.
    """

    expression: "Expression"
    by: tuple[str, ...] = ()
    when: "Condition | None" = None


Comparator = Literal[">", ">=", "<", "<=", "==", "!="]


@dataclass(frozen=True, slots=True)
class Compare(SyntaxNode):
    """A comparison of two values; the left side may be Elided."""

    operator: Comparator
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class ListMembership(SyntaxNode):
    """``operand [NOT] IN (members)``; the operand may be Elided.

    ``called``: the call of a FUNCTION that stands for the list; None if the text lists ``members``.
    """

    operand: "Expression"
    members: "tuple[Value, ...]"
    negated: bool = False
    called: FunctionCall | None = None


@dataclass(frozen=True, slots=True)
class AndCondition(SyntaxNode):
    """The conjunction of two or more conditions; no term is itself an AndCondition."""

    terms: "tuple[Condition, ...]"


@dataclass(frozen=True, slots=True)
class OrCondition(SyntaxNode):
    """The disjunction of two or more conditions; no term is itself an OrCondition."""

    terms: "tuple[Condition, ...]"


@dataclass(frozen=True, slots=True)
class NotCondition(SyntaxNode):
    """The negation of a condition."""

    operand: "Condition"


Parameter = Number | Interval | Name
Expression = (
    Value
    | Name
    | Elided
    | MetricStream
    | Position
    | InsightReference
    | FunctionCall
    | Negate
    | Binary
    | Scoped
)
Condition = Compare | ListMembership | AndCondition | OrCondition | NotCondition


@dataclass(frozen=True, slots=True)
class Setting(SyntaxNode):
    """``key=value`` or ``key=(value, …)``, with at least one value."""

    key: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Salience(SyntaxNode):
    """The option SALIENCE: the importance of the insight under overload.

    ``level``: 0 is the lowest importance.
    """

    level: int


@dataclass(frozen=True, slots=True)
class SampleOption(SyntaxNode):
    """The option SAMPLE: a random sample of the points.

    Either ``size`` (number of points) or ``share`` (in (0, 1)) is set.
    """

    size: int | None = None
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Accuracy(SyntaxNode):
    """The option MAX_ERROR: a bound on the relative error of results.

    ``max_error``: in (0, 1). ``confidence``: the confidence of the bound, in (0, 1); None if the
    text gives no CONFIDENCE.
    """

    max_error: float
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Awareness(SyntaxNode):
    """The option AWARENESS: the aim of sampling, which is few computations or accuracy."""

    of: Literal["COMPUTATIONS", "ACCURACY"]


@dataclass(frozen=True, slots=True)
class AdamOption(SyntaxNode):
    """The option ADAM: adaptive sampling at the source.

    ``confidence``: in (0, 1); None if the text gives no CONFIDENCE.
    """

    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Outliers(SyntaxNode):
    """The option ALGORITHM: the algorithm and the parameters of OUTLIER_DETECTION.

    An outlier is a value with fewer than ``k`` (>= 1) other values within the distance ``r`` (> 0).
    """

    algorithm: str
    k: int | None = None
    r: float | None = None


@dataclass(frozen=True, slots=True)
class SchedulerOption(SyntaxNode):
    """The option SCHEDULER: the scheduler that places the insight, and the scheduler's settings."""

    name: str
    settings: tuple[Setting, ...] = ()


@dataclass(frozen=True, slots=True)
class CostCapOption(SyntaxNode):
    """The option COST_CAP: the maximum cost of the insight (>= 0) in each interval ``per``."""

    amount: float
    per: Interval


@dataclass(frozen=True, slots=True)
class PlacementOn(SyntaxNode):
    """The option PLACEMENT_ON: only workers whose label ``key`` is ``value`` run the insight.

    ``count``: the maximum number of these workers, at least 1; None: no maximum. ``dedicated``:
    whether these workers run no other insight.
    """

    key: str
    value: Value
    count: int | None = None
    dedicated: bool = False


@dataclass(frozen=True, slots=True)
class Allow(SyntaxNode):
    """The option ALLOW: data of the insight may leave a node only if ``when`` is true."""

    when: Condition


@dataclass(frozen=True, slots=True)
class Signature(SyntaxNode):
    """The option SIGNATURE: only tokens with the signature ``name`` may read the results."""

    name: str


Option = (
    Salience
    | SampleOption
    | Accuracy
    | Awareness
    | AdamOption
    | Outliers
    | SchedulerOption
    | CostCapOption
    | PlacementOn
    | Allow
    | Signature
)


@dataclass(frozen=True, slots=True)
class InsightStatement(SyntaxNode):
    """``name = COMPUTE expression [BY by] [WHEN when] [EVERY every] [WITH options]``.

    ``options``: in the order of the text; options may contradict each other.
    """

    name: str
    expression: Expression
    by: tuple[str, ...] = ()
    when: Condition | None = None
    every: Rhythm | None = None
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamDefinition(SyntaxNode):
    """``name: STREAM FROM provider(settings)``."""

    name: str
    provider: str
    settings: tuple[Setting, ...] = ()


@dataclass(frozen=True, slots=True)
class ValueList(SyntaxNode):
    """``(value, …)``: the body of a FUNCTION that stands for a list; at least one value."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class FunctionDefinition(SyntaxNode):
    """``FUNCTION name(parameters) { body }``.

    ``name``: in upper case. ``parameters``: at least one. ``body``: an expression, or a list of
    values, for the right side of IN.
    """

    name: str
    parameters: tuple[str, ...]
    body: "Expression | ValueList"


Statement = InsightStatement | StreamDefinition | FunctionDefinition


@dataclass(frozen=True, slots=True)
class Script(SyntaxNode):
    """The statements of one text in the order of the text; at least one statement."""

    statements: tuple[Statement, ...]
