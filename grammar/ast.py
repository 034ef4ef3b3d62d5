"""The abstract syntax of the insight language, as frozen dataclasses.

Two nodes are equal when they mean the same text: where they stand (``span``) does not count.
"""

from dataclasses import dataclass, field
from datetime import time
from typing import Literal


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of source text: 1-based line and column, 0-based offset, length in characters."""

    line: int
    column: int
    offset: int
    length: int


NOWHERE = Span(line=1, column=1, offset=0, length=0)
"""The span of nodes that no text was parsed for."""


@dataclass(frozen=True, slots=True)
class Node:
    """What all nodes have: the stretch of text that they were read from."""

    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Interval(Node):
    """A stretch of time, in milliseconds; at least 1."""

    millis: int


@dataclass(frozen=True, slots=True)
class Points(Node):
    """EVERY so many data points; at least 1."""

    count: int


@dataclass(frozen=True, slots=True)
class Daily(Node):
    """EVERY so many days, at least 1, at a time of day (hours and minutes) of a time zone."""

    days: int
    at: time
    zone: str


Rhythm = Interval | Points | Daily
"""How often an insight is computed."""


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A finite number; a sign directly before the digits belongs to it."""

    value: float


@dataclass(frozen=True, slots=True)
class Text(Node):
    """A quoted string in a condition or a setting, its escapes resolved."""

    value: str


@dataclass(frozen=True, slots=True)
class Boolean(Node):
    """``true`` or ``false``."""

    value: bool


Value = Number | Text | Boolean


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A metric, an attribute or a parameter of the FUNCTION around it, which its meaning decides.

    In a condition it is plain; where a value is computed, it may have been quoted.
    """

    name: str


@dataclass(frozen=True, slots=True)
class Elided(Node):
    """The left side that ``WHEN > 100`` leaves out: what the condition is attached to."""


@dataclass(frozen=True, slots=True)
class MetricStream(Node):
    """``metric [FROM (members)] [WHEN condition]``, with at least one of the two, else a Name.

    Members are entities or STREAM definitions; without any, it is the points of all entities.
    """

    metric: str
    members: tuple[str, ...] = ()
    when: "Condition | None" = None


@dataclass(frozen=True, slots=True)
class InsightReference(Node):
    """``INSIGHT name``: the results of another insight."""

    name: str


@dataclass(frozen=True, slots=True)
class Call(Node):
    """``FUNCTION[parameters](arguments [, window [, offset]])``; at least one argument.

    The function is in upper case, its aliases resolved. What it has without a window, its meaning
    decides: windowed functions span the insight's EVERY interval.
    """

    function: str
    arguments: "tuple[Expression, ...]"
    parameters: "tuple[Parameter, ...]" = ()
    window: Interval | None = None
    offset: Interval | None = None


@dataclass(frozen=True, slots=True)
class Negate(Node):
    """Unary minus on anything but a literal number, whose sign is its own."""

    operand: "Expression"


Operator = Literal["+", "-", "*", "/"]


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """Arithmetic on two values, by a sign or by ADD, SUB, MUL or DIV."""

    operator: Operator
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Scoped(Node):
    """``expression [BY by] [WHEN when]`` inside an expression, with at least one of the two.

    A metric with a WHEN and no BY is a MetricStream instead.
    """

    expression: "Expression"
    by: tuple[str, ...] = ()
    when: "Condition | None" = None


Comparator = Literal[">", ">=", "<", "<=", "==", "!="]


@dataclass(frozen=True, slots=True)
class Compare(Node):
    """A comparison of two values; its left side may be elided."""

    operator: Comparator
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Membership(Node):
    """``operand [NOT] IN (members)``; its operand may be elided."""

    operand: "Expression"
    members: "tuple[Value, ...]"
    negated: bool = False


@dataclass(frozen=True, slots=True)
class And(Node):
    """All of two or more conditions, none of which is itself an And."""

    terms: "tuple[Condition, ...]"


@dataclass(frozen=True, slots=True)
class Or(Node):
    """Any of two or more conditions, none of which is itself an Or."""

    terms: "tuple[Condition, ...]"


@dataclass(frozen=True, slots=True)
class Not(Node):
    """The opposite of a condition."""

    operand: "Condition"


Parameter = Number | Interval | Name
Expression = (
    Value | Name | Elided | MetricStream | InsightReference | Call | Negate | Binary | Scoped
)
Condition = Compare | Membership | And | Or | Not


@dataclass(frozen=True, slots=True)
class Setting(Node):
    """``key=value`` or ``key=(value, …)``; at least one value."""

    key: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Salience(Node):
    """How much the insight counts under overload; 0 is the least."""

    level: int


@dataclass(frozen=True, slots=True)
class Sample(Node):
    """A random part of the points: a ``size`` in points or a ``share`` in (0, 1), one of them."""

    size: int | None = None
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Accuracy(Node):
    """A bound on the relative error that holds with some confidence, both in (0, 1)."""

    max_error: float
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Awareness(Node):
    """What sampling should spare: computations or accuracy."""

    of: Literal["COMPUTATIONS", "ACCURACY"]


@dataclass(frozen=True, slots=True)
class Adam(Node):
    """Adaptive sampling at the source, with a confidence in (0, 1)."""

    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Outliers(Node):
    """How outliers are found: by ``k`` neighbours (at least 1) within the distance ``r`` (> 0)."""

    algorithm: str
    k: int | None = None
    r: float | None = None


@dataclass(frozen=True, slots=True)
class Scheduler(Node):
    """Which scheduler places the insight, and its settings for that."""

    name: str
    settings: tuple[Setting, ...] = ()


@dataclass(frozen=True, slots=True)
class CostCap(Node):
    """The most that the insight may cost (>= 0) in each stretch of time."""

    amount: float
    per: Interval


@dataclass(frozen=True, slots=True)
class PlacementOn(Node):
    """Only nodes whose label ``key`` is ``value``: so many (at least 1), and for it alone."""

    key: str
    value: Value
    count: int | None = None
    dedicated: bool = False


@dataclass(frozen=True, slots=True)
class Allow(Node):
    """Nothing of the insight leaves a node unless this holds."""

    when: Condition


@dataclass(frozen=True, slots=True)
class Signature(Node):
    """Only tokens that carry this signature may read the results."""

    name: str


Option = (
    Salience
    | Sample
    | Accuracy
    | Awareness
    | Adam
    | Outliers
    | Scheduler
    | CostCap
    | PlacementOn
    | Allow
    | Signature
)


@dataclass(frozen=True, slots=True)
class Insight(Node):
    """``name = COMPUTE expression [BY by] [WHEN when] [EVERY every] [WITH options]``.

    The options stand in the order of the text; some may contradict others.
    """

    name: str
    expression: Expression
    by: tuple[str, ...] = ()
    when: Condition | None = None
    every: Rhythm | None = None
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamDefinition(Node):
    """``name: STREAM FROM provider(settings)``."""

    name: str
    provider: str
    settings: tuple[Setting, ...] = ()


@dataclass(frozen=True, slots=True)
class FunctionDefinition(Node):
    """``FUNCTION name(parameters) { body }``; the name in upper case, at least one parameter."""

    name: str
    parameters: tuple[str, ...]
    body: Expression


Statement = Insight | StreamDefinition | FunctionDefinition


@dataclass(frozen=True, slots=True)
class Script(Node):
    """All statements of one text, in its order; at least one."""

    statements: tuple[Statement, ...]
