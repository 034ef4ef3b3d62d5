"""The abstract syntax of the insight language, as frozen dataclasses.

Two nodes are equal when they mean the same text: where they stand (``span``) does not count.
"""

from dataclasses import dataclass, field
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
class Number(Node):
    """A finite number; a sign directly before the digits belongs to it."""

    value: float


@dataclass(frozen=True, slots=True)
class Text(Node):
    """A quoted string, its escapes resolved."""

    value: str


@dataclass(frozen=True, slots=True)
class Boolean(Node):
    """``true`` or ``false``."""

    value: bool


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A bare identifier in a condition: an attribute or a metric, which its meaning decides."""

    name: str


@dataclass(frozen=True, slots=True)
class Elided(Node):
    """The left side that ``WHEN > 100`` leaves out: what the condition is attached to."""


@dataclass(frozen=True, slots=True)
class MetricStream(Node):
    """``metric [FROM (members)] [WHEN condition]``; without members, those of all entities."""

    metric: str
    members: tuple[str, ...] = ()
    when: "Condition | None" = None


@dataclass(frozen=True, slots=True)
class Aggregate(Node):
    """``FUNCTION(stream [, window])``; the function in upper case, aliases not resolved.

    Without a window it spans the insight's EVERY interval.
    """

    function: str
    stream: MetricStream
    window: Interval | None = None


@dataclass(frozen=True, slots=True)
class Negate(Node):
    """Unary minus on anything but a literal number, whose sign is its own."""

    operand: "Expression"


Operator = Literal["+", "-", "*", "/"]


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """Arithmetic on two values."""

    operator: Operator
    left: "Expression"
    right: "Expression"


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


Value = Number | Text | Boolean
Expression = Value | Name | Elided | Aggregate | Negate | Binary
Condition = Compare | Membership | And | Or | Not


@dataclass(frozen=True, slots=True)
class Insight(Node):
    """``name = COMPUTE expression [BY by] [WHEN when] [EVERY every] [WITH SCHEDULER=name]``."""

    name: str
    expression: Expression
    by: tuple[str, ...] = ()
    when: Condition | None = None
    every: Interval | None = None
    scheduler: Text | None = None


@dataclass(frozen=True, slots=True)
class Script(Node):
    """All statements of one text, in its order; at least one."""

    statements: tuple[Insight, ...]
