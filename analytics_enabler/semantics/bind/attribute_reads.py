"""The binding of values that are read from attributes of points, and helpers of binding."""

from analytics.plan.attributes import canonical
from analytics_enabler.semantics.bind.bound_tree import (
    AttributeRead,
    BoundDerivation,
    BoundValue,
    Constant,
    LabelRead,
    PointSource,
    Properties,
    Type,
    Unresolved,
)
from analytics_enabler.semantics.bind.symbols import AttributeFunction, function_symbol
from analytics_enabler.semantics.diagnostics import Diagnostics
from grammar import ast


def bind_label(
    node: ast.Name, source: PointSource, by: tuple[str, ...], diagnostics: Diagnostics
) -> LabelRead:
    """Return the attribute ``node`` at the latest point of ``source`` as a number, and warn of it.

    ``by``: the attributes that form the keys.
    """
    diagnostics.warning(
        node.span,
        f"`{node.name}` is read as an attribute, at the latest point of `{source.metric}`: no "
        "metric has this name",
        f"If a metric is meant, name it in a function, as in `MAX({node.name})`.",
    )
    name, properties = canonical(node.name), Properties(keys=frozenset(by), reads=True)
    return LabelRead(name, source, by, kind="a number", span=node.span, properties=properties)


def position_of_text(source: PointSource, by: tuple[str, ...]) -> LabelRead:
    """Return the text of a metric at its latest point: its label with the name of the metric."""
    properties = Properties("a text", frozenset(by), reads=True)
    name = canonical(source.metric)
    return LabelRead(name, source, by, span=source.span, properties=properties)


def position_of_attributes(
    node: ast.Position, source: PointSource, by: tuple[str, ...]
) -> LabelRead:
    """Return the latitude and the longitude at the latest point of ``source``, as a text."""
    names = canonical(node.latitude), canonical(node.longitude)
    properties = Properties("a text", frozenset(by), reads=True)
    return LabelRead(names[0], source, by, names[1], span=node.span, properties=properties)


def bind_derivation(
    call: ast.FunctionCall, diagnostics: Diagnostics
) -> BoundDerivation | Unresolved:
    """Return the bound call of an operator over attributes, in a condition."""
    symbol = function_symbol(call.function)
    assert isinstance(symbol, AttributeFunction), call  # noqa: S101
    operands = [found for each in call.arguments if (found := _operand(each)) is not None]
    extra = [*call.parameters, *(each for each in (call.window, call.offset) if each)]
    if extra or len(operands) < len(call.arguments):
        diagnostics.error(
            call.span,
            f"{call.function} takes attributes of points, and nothing else",
            f"Name an attribute, as in `{call.function}(ip)`.",
        )
        return unresolved(call)
    if len(operands) != symbol.arity:
        takes = "one attribute" if symbol.arity == 1 else f"{symbol.arity} attributes"
        diagnostics.error(
            call.span,
            f"{call.function} takes {takes}, not {len(operands)}",
            f"Write `{call.function}({', '.join('xyzw'[: symbol.arity])})`.",
        )
        return unresolved(call)
    properties = Properties(None)
    return BoundDerivation(symbol.function, tuple(operands), span=call.span, properties=properties)


def _operand(node: ast.Expression) -> BoundValue | None:
    """Return the attribute or the constant that an argument names; None for another argument."""
    match node:
        case ast.Name(text, quoted=True):
            return Constant(text, span=node.span, properties=Properties("a text"))
        case ast.Name(name):
            return AttributeRead(canonical(name), name, span=node.span, properties=Properties(None))
        case ast.Number(value) | ast.Text(value) | ast.Boolean(value):
            properties = Properties(type_of_constant(value))
            return Constant(value, span=node.span, properties=properties)
        case _:
            return None


def type_of_constant(value: object) -> Type:
    """Return the type of a constant."""
    if isinstance(value, bool):
        return "a boolean"
    return "a text" if isinstance(value, str) else "a number"


def unresolved(node: ast.SyntaxNode) -> Unresolved:
    """Return a value without a meaning, in the place of a syntax node."""
    return Unresolved(span=node.span, properties=Properties(None, resolved=False))


def metric_of(node: ast.Expression) -> ast.MetricStream | None:
    """Return the metric that an expression names; None for another expression."""
    match node:
        case ast.MetricStream():
            return node
        case ast.Name(name):
            return ast.MetricStream(name, span=node.span)
        case _:
            return None
