"""The metrics that an insight names."""

from collections.abc import Iterator

from analytics_enabler.semantics.trees import parts
from grammar import Span, ast


def metrics_of(insight: ast.Insight) -> Iterator[tuple[str, Span]]:
    """Yield each metric and where it stands, from left to right."""
    yield from _of_value(insight.expression)
    if insight.when is not None:
        yield from _of_condition(insight.when)


def _of_value(node: ast.Node) -> Iterator[tuple[str, Span]]:
    match node:
        case ast.Name(name):
            yield name, node.span
        case ast.MetricStream(metric):
            yield metric, node.span
        case ast.Scoped(expression, _, when):
            yield from _of_value(expression)
            if when is not None:
                yield from _of_condition(when)
        case ast.Call():
            for argument in node.arguments:
                yield from _of_value(argument)
        case _:
            for part in parts(node):
                yield from _of_value(part)


def _of_condition(node: ast.Node) -> Iterator[tuple[str, Span]]:
    match node:
        case ast.Name():  # an attribute
            return
        case ast.Call() | ast.MetricStream() | ast.Scoped():
            yield from _of_value(node)
        case _:
            for part in parts(node):
                yield from _of_condition(part)
