"""The metrics that an insight names."""

from collections.abc import Iterator

from analytics_enabler.semantics.trees import parts
from grammar import ast


def read_by(insight: ast.Insight) -> Iterator[ast.MetricStream]:
    """Yield each metric with what is said of its points, from left to right."""
    yield from read_by_value(insight.expression)
    if insight.when is not None:
        yield from read_by_condition(insight.when)


def read_by_value(node: ast.Node) -> Iterator[ast.MetricStream]:
    """Yield the metrics that a value is made of."""
    match node:
        case ast.Name(name):
            yield ast.MetricStream(name, span=node.span)
        case ast.MetricStream():
            yield node
        case ast.Scoped(expression, _, when):
            yield from read_by_value(expression)
            if when is not None:
                yield from read_by_condition(when)
        case ast.Call():
            for argument in node.arguments:
                yield from read_by_value(argument)
        case _:
            for part in parts(node):
                yield from read_by_value(part)


def read_by_condition(node: ast.Node) -> Iterator[ast.MetricStream]:
    """Yield the metrics that a condition names: a name in it is an attribute."""
    match node:
        case ast.Name():
            return
        case ast.Call() | ast.MetricStream() | ast.Scoped():
            yield from read_by_value(node)
        case _:
            for part in parts(node):
                yield from read_by_condition(part)
