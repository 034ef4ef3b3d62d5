"""Checks that an insight reads points, and that its options apply to these points."""

from collections.abc import Iterator

from analytics_enabler.semantics.bind.bound_tree import (
    BoundAggregation,
    BoundInsight,
    BoundInsightReference,
    BoundScope,
    BoundValue,
    Conditions,
    CurrentValue,
    LabelRead,
)
from analytics_enabler.semantics.bind.point_schema import sources
from analytics_enabler.semantics.checks.context import Context
from analytics_enabler.semantics.diagnostics import error
from grammar import Diagnostic, ast
from grammar.trees import references


def check_reads(insight: BoundInsight, _context: Context) -> Iterator[Diagnostic]:
    """Yield errors for an insight without metrics, and conditions and options without effect."""
    if insight.value.resolved and not insight.value.reads:
        yield error(
            insight.syntax.expression.span,
            "the insight reads no metric, so nothing would ever be computed",
            "Name a metric, as in `AVG(cpu.util, 10 SECONDS)`.",
        )
    yield from _check_unread(insight.value, insight.when)
    for node in insight.nodes:
        if isinstance(node, BoundScope):
            yield from _check_unread(node.value, node.when)
    yield from _check_references(insight)


def _check_unread(value: BoundValue, when: Conditions) -> Iterator[Diagnostic]:
    """Yield an error for conditions on points in the WHEN of a value that reads no points."""
    if not when.on_points or not value.resolved:
        return
    if next(sources(value, *when.on_results), None) is None:
        yield error(
            when.on_points[0].span,
            "this condition restricts points, but no points are read here",
            "Move it to the insight that reads the points, or add its attributes to the BY there.",
        )


def _check_references(insight: BoundInsight) -> Iterator[Diagnostic]:
    """Yield an error for each INSIGHT in an insight with ALLOW or a sampling option.

    These options do not apply to the points that the referenced insight reads.
    """
    found = list(references(insight.syntax)) if insight.syntax.options else []
    for option in insight.syntax.options if found else ():
        for node in found:
            compute = f"Replace the reference by the expression of `{node.name}`"
            if isinstance(option, ast.Allow):
                yield error(
                    node.span,
                    f"ALLOW does not restrict the points that `{node.name}` reads",
                    f"{compute}, or move ALLOW to that insight.",
                )
            elif isinstance(option, ast.SampleOption | ast.Accuracy | ast.AdamOption):
                name = "ADAM" if isinstance(option, ast.AdamOption) else "the option"
                yield error(
                    node.span,
                    f"this option does not sample the points that `{node.name}` reads",
                    f"{compute}, or move {name} to that insight.",
                )


def check_points(insight: BoundInsight) -> Iterator[Diagnostic]:
    """Yield an error for an insight that is computed at points but never has a value.

    Each value in such an insight is read with an offset into the past, so a new point has no value.
    Call this function only for insights without other errors.
    """
    if not insight.at_points:
        return
    keys = set(insight.keys)
    if any(keys <= by for node in insight.nodes for by in _current_keys(node)):
        return
    yield error(
        insight.syntax.expression.span,
        "every value has an offset, so there is no value at the time of a new point",
        "Add an interval, as in `EVERY 5 SECONDS`, or remove an offset.",
    )


def _current_keys(node: ast.SyntaxNode) -> Iterator[frozenset[str]]:
    """Yield the key attributes of each value that a node reads without an offset into the past."""
    match node:
        case CurrentValue():
            yield node.keys
        case LabelRead():
            longitude = () if node.longitude is None else (node.longitude,)
            yield node.keys | {node.attribute, *longitude}
        case BoundAggregation() if node.call.offset is None or not node.call.offset.millis:
            yield node.keys
        case BoundInsightReference(symbol):
            for part in symbol.aggregates:
                if not part.offset_ms:
                    yield frozenset(part.by)
