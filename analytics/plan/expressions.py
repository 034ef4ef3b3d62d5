"""The expressions of plans: predicates over one point, and expressions over one tick.

All nodes are immutable, are compared by content, and can be encoded as JSON by msgspec.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from typing import Literal as OneOf

import msgspec

from analytics.plan.functions import AnyFunction, Mathematical, Parameters, UserOperator
from analytics.plan.sampling import Sampling
from analytics.plan.ticks import At, Ticks

ArithmeticOperator = OneOf["+", "-", "*", "/"]
Comparator = OneOf["==", "!=", ">", ">=", "<", "<="]
Scalar = float | str | bool
AttributeKind = OneOf["number", "text", "boolean"]


def _typed(value: Scalar) -> tuple[bool, Scalar]:
    # In Python 1.0 == True, but a boolean is no number here.
    return isinstance(value, bool), value


class Literal(msgspec.Struct, frozen=True, tag="literal"):
    """A constant."""

    value: Scalar

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and _typed(self.value) == _typed(other.value)

    def __hash__(self) -> int:
        return hash(_typed(self.value))


class Value(msgspec.Struct, frozen=True, tag="value"):
    """The value of a point; this node occurs only in predicates over points."""


class Attribute(msgspec.Struct, frozen=True, tag="attribute"):
    """An attribute of a point; in a filter of results, an attribute of the key of a result."""

    name: str


class Source(msgspec.Struct, frozen=True, tag="source"):
    """The points of a metric that satisfy ``predicate`` and belong to ``entities`` (empty: all).

    If ``sampling`` is unset, JSON and fingerprints do not contain the field.
    """

    metric: str
    entities: tuple[str, ...] = ()
    predicate: "Expression | None" = None
    sampling: Sampling | msgspec.UnsetType = msgspec.UNSET


class Aggregate(msgspec.Struct, frozen=True, tag="aggregate"):
    """A function over the points in ``(t - size_ms, t]`` at each tick t, one value for each key.

    ``offset_ms`` shifts the window into the past. ``other``: the points of a second argument. If
    ``each_point`` is set, there is one value for each point instead of each tick, over the window
    that ends at the point; these values are computed every ``every_ms``. ``at``: the time of day of
    the ticks. An accumulated function reads all points since its insight's ``since``, and has a
    value for a key only if the key has points since the previous tick. ``hold_ms``: if set, the
    window ends at the last multiple of this interval, so the value of that time is held until the
    next multiple. ``points``: if set, the insight has a value at every n-th point of a key, and the
    function reads the points since the previous value; ``size_ms`` is the interval of evaluations.
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
    hold_ms: int | msgspec.UnsetType = msgspec.UNSET
    points: int | msgspec.UnsetType = msgspec.UNSET

    @property
    def ticks(self) -> Ticks:
        """The ticks at which the aggregate has values."""
        return Ticks(self.every_ms, self.at)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The points of each argument."""
        return (self.source,) if self.other is None else (self.source, self.other)


class Measure(msgspec.Struct, frozen=True, tag="measure"):
    """A lowered ``Aggregate``: a function of one or two shared windows.

    ``window``: the id of the window. ``other``: the id of the window of a second argument.
    """

    function: AnyFunction
    window: str
    parameters: Parameters = ()
    other: str | None = None

    @property
    def windows(self) -> tuple[str, ...]:
        """The id of the window of each argument."""
        return (self.window,) if self.other is None else (self.window, self.other)


class Reduction(msgspec.Struct, frozen=True, tag="reduction"):
    """A function over the operand's values at a tick, grouped by the attributes ``by``.

    ``by`` is a subset of the attributes of the operand's keys; each group has one value.
    """

    function: AnyFunction
    operand: "Expression"
    by: tuple[str, ...] = ()
    parameters: Parameters = ()


class TickSeries(msgspec.Struct, frozen=True, tag="ticks"):
    """A function over the values that an operand has at several ticks, grouped by ``by``.

    ``operands``: the operand, each time with its windows ``step_ms`` further in the past; a value
    of the n-th operand has the time of the tick minus n * ``step_ms``. ``others``: the same of a
    second argument; () without one. If ``by`` has fewer attributes than the keys of the operand,
    the values of several keys are one list.
    """

    function: AnyFunction
    operands: "tuple[Expression, ...]"
    step_ms: int
    by: tuple[str, ...] = ()
    parameters: Parameters = ()
    others: "tuple[Expression, ...]" = ()


class Filtered(msgspec.Struct, frozen=True, tag="filtered"):
    """The values of the operand at the ticks and keys at which a condition is true."""

    operand: "Expression"
    condition: "Expression"


class Mapped(msgspec.Struct, frozen=True, tag="mapped"):
    """A function applied to each value of the operand.

    There is no result for a value for which the function is undefined.
    """

    function: Mathematical
    operand: "Expression"


class Geohash(msgspec.Struct, frozen=True, tag="geohash"):
    """The geohash of a geographical position, with ``characters`` characters.

    Latitude and longitude are joined by tick and key, like the operands of ``Arithmetic``. If the
    latitude or the longitude is missing or out of range, there is no value.
    """

    characters: int
    latitude: "Expression"
    longitude: "Expression"


class PositionGeohash(msgspec.Struct, frozen=True, tag="position"):
    """The geohash of a position that is a text: a latitude and a longitude, ``35.1,33.4``.

    A text of another form has no geohash.
    """

    characters: int
    position: "Expression"


class Label(msgspec.Struct, frozen=True, tag="label"):
    """An attribute of the latest point, as a text; one text for each key of the attributes ``by``.

    ``latest``: the expression for the metric's latest value, with the keys ``by`` and
    ``attribute``. The latest point is the point with the greatest time; among equal times, the
    point with the greatest value; among equal values, the point whose text is the first in
    alphabetical order; among equal texts, a number, or else a boolean. If the latest point lacks
    the attribute, there is no text. ``longitude``: a second attribute, whose value follows the
    first in the text, after a comma. ``kind``: an attribute of another type has no value; an
    attribute that is a number has its number as the value instead of a text.
    """

    attribute: str
    latest: "Expression"
    by: tuple[str, ...] = ()
    longitude: str | msgspec.UnsetType = msgspec.UNSET
    kind: AttributeKind | msgspec.UnsetType = msgspec.UNSET
    is_number: bool | msgspec.UnsetType = msgspec.UNSET

    @property
    def value_kind(self) -> AttributeKind | msgspec.UnsetType:
        """The type of the values; ``is_number``: the form of plans of earlier versions."""
        return "number" if self.is_number is True else self.kind


class Arithmetic(msgspec.Struct, frozen=True, tag="arithmetic"):
    """An operation on two operands, joined by tick and key.

    If the keys of one operand have fewer attributes than those of the other operand, each such key
    is joined with all keys of the other operand that have equal values of these attributes. If an
    operand is missing or a divisor is zero, there is no value.
    """

    operator: ArithmeticOperator
    left: "Expression"
    right: "Expression"


class Negation(msgspec.Struct, frozen=True, tag="negation"):
    """The operand with the opposite sign."""

    operand: "Expression"


class Comparison(msgspec.Struct, frozen=True, tag="comparison"):
    """A comparison of two operands; false if an operand is missing or the types differ."""

    operator: Comparator
    left: "Expression"
    right: "Expression"


class Membership(msgspec.Struct, frozen=True, tag="membership"):
    """A condition: the operand equals one of the options."""

    operand: "Expression"
    options: tuple[Scalar, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Membership) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[object, ...]:
        return self.operand, tuple(map(_typed, self.options))


class Derived(msgspec.Struct, frozen=True, tag="derived"):
    """A value, or a list of values, that an operator of another package derives from attributes.

    If an operand is missing, or the operator fails, there is no value.
    """

    function: UserOperator
    operands: "tuple[Expression, ...]"


class Within(msgspec.Struct, frozen=True, tag="within"):
    """A condition: the operand equals a value in a list, or none if ``negated``.

    The condition is false if the operand or the list is missing. If ``negated``, it is also false
    if the list has values, but none of the operand's type.
    """

    operand: "Expression"
    options: Derived
    negated: bool = False


class And(msgspec.Struct, frozen=True, tag="and"):
    """A condition: both operands are true."""

    left: "Expression"
    right: "Expression"


class Or(msgspec.Struct, frozen=True, tag="or"):
    """A condition: at least one operand is true."""

    left: "Expression"
    right: "Expression"


class Not(msgspec.Struct, frozen=True, tag="not"):
    """A condition: the operand is false."""

    operand: "Expression"


Expression = (
    Literal
    | Value
    | Attribute
    | Aggregate
    | Measure
    | Reduction
    | TickSeries
    | Filtered
    | Mapped
    | Geohash
    | PositionGeohash
    | Label
    | Arithmetic
    | Negation
    | Comparison
    | Membership
    | Derived
    | Within
    | And
    | Or
    | Not
)


_OPERANDS: dict[type, tuple[str, ...]] = {
    **dict.fromkeys((Arithmetic, Comparison, And, Or), ("left", "right")),
    **dict.fromkeys((Negation, Not, Membership, Reduction, Mapped), ("operand",)),
    Filtered: ("operand", "condition"),
    Geohash: ("latitude", "longitude"),
    PositionGeohash: ("position",),
    Label: ("latest",),
    TickSeries: ("operands", "others"),
    Derived: ("operands",),
    Within: ("operand", "options"),
}
"""The fields of each kind of node that contain an operand or a tuple of operands; the predicate of
a source is not an operand.
"""


def children(node: Expression) -> tuple[Expression, ...]:
    """Return the operands of a node, in order."""
    found: list[Expression] = []
    for name in _OPERANDS.get(type(node), ()):
        value = getattr(node, name)
        found += value if isinstance(value, tuple) else [value]
    return tuple(found)


def walk(node: Expression) -> Iterator[Expression]:
    """Yield a node and all its descendants, parents first."""
    yield node
    for child in children(node):
        yield from walk(child)


def conjuncts(condition: Expression) -> Iterator[Expression]:
    """Yield the conditions that nested ``And`` nodes join; without ``And``, yield ``condition``."""
    if isinstance(condition, And):
        yield from conjuncts(condition.left)
        yield from conjuncts(condition.right)
    else:
        yield condition


def join_conditions(join: type[And] | type[Or], conditions: Sequence[Expression]) -> Expression:
    """Return one or more conditions joined by ``join`` (``And`` or ``Or``), as a balanced tree."""
    # A chain of a thousand conditions would be a thousand deep, and every walk recurses.
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return join(
        join_conditions(join, conditions[:middle]), join_conditions(join, conditions[middle:])
    )


def is_condition(node: Expression) -> bool:
    """Return whether the values of a node are booleans."""
    match node:
        case Comparison() | Membership() | Within() | And() | Or() | Not():
            return True
        case Literal():
            return isinstance(node.value, bool)
        case _:
            return False


def is_text(node: Expression) -> bool:
    """Return whether all values of a node are texts; False for attributes, whose types vary."""
    match node:
        case Geohash() | PositionGeohash():
            return True
        case Label():
            return node.value_kind != "number"
        case Filtered():
            return is_text(node.operand)
        case Literal():
            return isinstance(node.value, str)
        case _:
            return False


def rewrite(node: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Return the tree after ``change`` was applied to every node, operands before their parents."""
    changed: dict[str, Any] = {}
    for name in _OPERANDS.get(type(node), ()):
        value = getattr(node, name)
        several = isinstance(value, tuple)
        changed[name] = (
            tuple(rewrite(each, change) for each in value) if several else rewrite(value, change)
        )
    return change(msgspec.structs.replace(node, **changed) if changed else node)
