"""The expressions of plans: over one point (predicates) and over one tick (results).

All nodes are immutable, compare by content, and go to JSON and back by msgspec.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal as OneOf
from typing import get_args

import msgspec

from mistbow.plan.sampling import Sampling
from mistbow.plan.ticks import At, Ticks

ArithmeticOperator = OneOf["+", "-", "*", "/"]
Comparator = OneOf["==", "!=", ">", ">=", "<", "<="]
Accumulating = OneOf[
    "RUNNING_COUNT", "RUNNING_MEAN", "RUNNING_MAX", "RUNNING_MIN", "RUNNING_SDEV", "EWMA", "PEWMA",
    "DIFF",
]  # fmt: skip
"""Functions over all points since a start; see ``mistbow.operators.accumulated``."""
ACCUMULATING: frozenset[str] = frozenset(get_args(Accumulating))
Function = OneOf[
    "SUM", "COUNT", "MIN", "MAX", "AVG", "SDEV", "VARIANCE", "MEDIAN", "MODE", "GEOMETRIC_MEAN",
    "CORRELATION", "PERCENTILE", "TOP_K", "HISTOGRAM", "FORECAST", "OUTLIER_DETECTION", "LATEST",
    Accumulating,
]  # fmt: skip
"""Functions over many values; ``LATEST`` is what a metric by itself yields."""


class UserOperator(msgspec.Struct, frozen=True):
    """A function of another package over many values: its name in upper case, and its version.

    See ``mistbow.operators.interface``.
    """

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


AnyFunction = Function | UserOperator
Mathematical = OneOf["SQRT", "ABS", "SQR", "LOG", "EXP"]
Parameters = tuple[float, ...]
Scalar = float | str | bool


def _typed(value: Scalar) -> tuple[bool, Scalar]:
    # 1.0 == True in Python, and a truth value is no number here.
    return isinstance(value, bool), value


class Literal(msgspec.Struct, frozen=True, tag="literal"):
    """A constant."""

    value: Scalar

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and _typed(self.value) == _typed(other.value)

    def __hash__(self) -> int:
        return hash(_typed(self.value))


class Value(msgspec.Struct, frozen=True, tag="value"):
    """The value of the point at hand; only in predicates over points."""


class Attribute(msgspec.Struct, frozen=True, tag="attribute"):
    """An attribute of the point at hand or, in a result's filter, of its key."""

    name: str


class Source(msgspec.Struct, frozen=True, tag="source"):
    """The points of a metric, of some entities (none named: all), that satisfy a predicate.

    Where nothing is said of ``sampling``, no name that is made of the content tells of it.
    """

    metric: str
    entities: tuple[str, ...] = ()
    predicate: "Expression | None" = None
    sampling: Sampling | msgspec.UnsetType = msgspec.UNSET


class Aggregate(msgspec.Struct, frozen=True, tag="aggregate"):
    """A function over the points in ``(t - size_ms, t]`` at each tick, one value a key.

    ``offset_ms`` shifts the window into the past; ``other`` has the points of a second argument.
    With ``each_point`` it has a value at each point instead, of the window that ends there; they
    are told every ``every_ms``. Ticks may be ``at`` a time of day. What accumulates does so from
    its insight's ``since`` on, and has values of those keys that got points since the tick before.
    """

    function: AnyFunction
    source: Source
    size_ms: int
    every_ms: int
    by: tuple[str, ...] = ()
    offset_ms: int = 0
    parameters: Parameters = ()
    other: Source | None = None
    each_point: bool = False
    at: At = msgspec.UNSET

    @property
    def ticks(self) -> Ticks:
        """When it has values."""
        return Ticks(self.every_ms, self.at)


class Measure(msgspec.Struct, frozen=True, tag="measure"):
    """A function of a shared window, or of two, by their ids; what an ``Aggregate`` becomes."""

    function: AnyFunction
    window: str
    parameters: Parameters = ()
    other: str | None = None


class Reduction(msgspec.Struct, frozen=True, tag="reduction"):
    """A function over the values that the operand's keys have at a tick, one value a key.

    The new keys have the attributes ``by``, all of which the operand's keys have.
    """

    function: AnyFunction
    operand: "Expression"
    by: tuple[str, ...] = ()
    parameters: Parameters = ()


class Filtered(msgspec.Struct, frozen=True, tag="filtered"):
    """The operand where a condition holds; elsewhere it has no value."""

    operand: "Expression"
    condition: "Expression"


class Mapped(msgspec.Struct, frozen=True, tag="mapped"):
    """A function of each single value; without a value where it is not defined."""

    function: Mathematical
    operand: "Expression"


class Geohash(msgspec.Struct, frozen=True, tag="geohash"):
    """A place as a text of so many characters, its degrees met by key and tick.

    Without a value where either has none or the place is not on Earth.
    """

    characters: int
    latitude: "Expression"
    longitude: "Expression"


class Label(msgspec.Struct, frozen=True, tag="label"):
    """An attribute of the latest point, as a text, one value a key of the attributes ``by``.

    ``latest`` is the metric's current value by these and that attribute: of the values of a key,
    that of the latest point tells, of several the greatest, of equal ones the first text. Without
    a value where the point does not have the attribute.
    """

    attribute: str
    latest: "Expression"
    by: tuple[str, ...] = ()


class Arithmetic(msgspec.Struct, frozen=True, tag="arithmetic"):
    """Two operands met by key and tick; without a value where either has none or it is x / 0.

    An operand whose keys have fewer attributes meets all keys of the other that have the same.
    """

    operator: ArithmeticOperator
    left: "Expression"
    right: "Expression"


class Negation(msgspec.Struct, frozen=True, tag="negation"):
    """The operand with its sign changed."""

    operand: "Expression"


class Comparison(msgspec.Struct, frozen=True, tag="comparison"):
    """True or false; false where an operand is missing or the two are of different types."""

    operator: Comparator
    left: "Expression"
    right: "Expression"


class Membership(msgspec.Struct, frozen=True, tag="membership"):
    """Whether the operand is one of the options."""

    operand: "Expression"
    options: tuple[Scalar, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Membership) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[object, ...]:
        return self.operand, tuple(map(_typed, self.options))


class And(msgspec.Struct, frozen=True, tag="and"):
    """Both hold."""

    left: "Expression"
    right: "Expression"


class Or(msgspec.Struct, frozen=True, tag="or"):
    """At least one holds."""

    left: "Expression"
    right: "Expression"


class Not(msgspec.Struct, frozen=True, tag="not"):
    """The operand does not hold."""

    operand: "Expression"


Expression = (
    Literal
    | Value
    | Attribute
    | Aggregate
    | Measure
    | Reduction
    | Filtered
    | Mapped
    | Geohash
    | Label
    | Arithmetic
    | Negation
    | Comparison
    | Membership
    | And
    | Or
    | Not
)


def children(node: Expression) -> tuple[Expression, ...]:
    """Return the operands of a node, in order."""
    match node:
        case Arithmetic() | Comparison() | And() | Or():
            return (node.left, node.right)
        case Negation() | Not() | Membership() | Reduction() | Mapped():
            return (node.operand,)
        case Filtered():
            return (node.operand, node.condition)
        case Geohash():
            return (node.latitude, node.longitude)
        case Label():
            return (node.latest,)
        case _:
            return ()


def walk(node: Expression) -> Iterator[Expression]:
    """Yield a node and all below it, parents first."""
    yield node
    for child in children(node):
        yield from walk(child)


def terms(condition: Expression) -> Iterator[Expression]:
    """Yield the conditions that all hold where a condition does, as its ANDs join them."""
    if isinstance(condition, And):
        yield from terms(condition.left)
        yield from terms(condition.right)
    else:
        yield condition


def joined(join: type[And] | type[Or], conditions: Sequence[Expression]) -> Expression:
    """Return one or more conditions as one, no deeper than need be."""
    # A chain of a thousand terms would be a thousand deep, and every walk recurses.
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return join(joined(join, conditions[:middle]), joined(join, conditions[middle:]))


def is_condition(node: Expression) -> bool:
    """Return whether a node is true or false, not a number."""
    match node:
        case Comparison() | Membership() | And() | Or() | Not():
            return True
        case Literal():
            return isinstance(node.value, bool)
        case _:
            return False


def is_text(node: Expression) -> bool:
    """Return whether the values of a node are texts; an attribute may be anything."""
    match node:
        case Geohash() | Label():
            return True
        case Filtered():
            return is_text(node.operand)
        case Literal():
            return isinstance(node.value, str)
        case _:
            return False


def rewrite(node: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Return the tree with ``change`` applied to every node, operands first."""
    match node:
        case Arithmetic() | Comparison() | And() | Or():
            node = msgspec.structs.replace(
                node, left=rewrite(node.left, change), right=rewrite(node.right, change)
            )
        case Filtered():
            node = Filtered(rewrite(node.operand, change), rewrite(node.condition, change))
        case Geohash():
            node = msgspec.structs.replace(
                node,
                latitude=rewrite(node.latitude, change),
                longitude=rewrite(node.longitude, change),
            )
        case Label():
            node = msgspec.structs.replace(node, latest=rewrite(node.latest, change))
        case Negation() | Not() | Membership() | Reduction() | Mapped():
            node = msgspec.structs.replace(node, operand=rewrite(node.operand, change))
        case _:
            pass
    return change(node)
