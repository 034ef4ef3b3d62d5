"""Checks that SAMPLE, MAX_ERROR and ADAM are used only with functions that work on samples."""

from collections.abc import Iterator

from analytics.plan.functions import AnyFunction, UserOperator, spec_of
from analytics_enabler.semantics.bind.bound_tree import (
    BoundAggregation,
    BoundInsight,
    BoundSampling,
    CurrentValue,
    LabelRead,
)
from analytics_enabler.semantics.checks.context import Context
from analytics_enabler.semantics.diagnostics import error, head
from grammar import Diagnostic, ast


def check_sampling(insight: BoundInsight, _context: Context) -> Iterator[Diagnostic]:
    """Yield errors for sampling options that do not suit a function or the EVERY of the insight."""
    request = insight.options.sampling
    if request is not None:
        yield from _check_counted(insight, "only some of them are read", "the sampling")
        for function, span in _functions(insight, request.option.span).items():
            yield from _check_function(function, span, request)
    adam = next((each for each in insight.syntax.options if isinstance(each, ast.AdamOption)), None)
    if adam is not None:
        if request is not None:
            message = "ADAM cannot be combined with another sampling option"
            yield error(adam.span, message, "Remove ADAM or the other option.")
        yield from _check_counted(insight, "some of them are never measured", "ADAM")
        yield from _check_spacing(insight)


def _check_counted(insight: BoundInsight, why: str, what: str) -> Iterator[Diagnostic]:
    every = insight.syntax.every
    if isinstance(every, ast.PointCount):
        yield error(
            every.span,
            f"EVERY n POINTS needs all points, but {why}",
            f"Write an interval, as in `EVERY 5 SECONDS`, or remove {what}.",
        )


def _functions(insight: BoundInsight, span: ast.Span) -> dict[AnyFunction, ast.Span]:
    """Return function -> span of its first call, for the functions over points in an insight.

    Current values are returned as the function ``LATEST`` with the span ``span``.
    """
    found: dict[AnyFunction, ast.Span] = {}
    for node in insight.nodes:
        if isinstance(node, BoundAggregation):
            found.setdefault(node.function, head(node.span, len(node.call.function)))
        elif isinstance(node, CurrentValue | LabelRead):
            found.setdefault("LATEST", span)
    return found


def _check_function(
    function: AnyFunction, span: ast.Span, request: BoundSampling
) -> Iterator[Diagnostic]:
    option, kind, name = request.option, spec_of(function).sample, _name(function)
    even = isinstance(option, ast.SampleOption) and option.size is None and not request.accurate
    if kind is None:
        what = "a current value is" if name == "LATEST" else f"{name} is"
        hint = "Remove the sampling, or divide the insight into two."
        yield error(span, f"{what} undefined over a sample, because all points are needed", hint)
    elif kind == "any" and isinstance(option, ast.Accuracy):
        yield error(
            span,
            f"{name} has no error bound: a point outside the sample may exceed the sample",
            "Use SAMPLE instead, as in `SAMPLE 0.2`.",
        )
    elif kind == "even" and not even:
        yield error(
            span,
            f"{name} needs a sample in which each point has the same chance",
            "Write a share, as in `SAMPLE 0.2`, without AWARENESS ON ACCURACY.",
        )


def _check_spacing(insight: BoundInsight) -> Iterator[Diagnostic]:
    found: dict[str, ast.Span] = {}
    for node in insight.nodes:
        # ADAM skips points of two metrics at different times, so that few have a partner.
        if isinstance(node, BoundAggregation) and (
            len(node.sources) > 1 or spec_of(node.function).spacing
        ):
            found.setdefault(_name(node.function), head(node.span, len(node.call.function)))
    for name in sorted(found):
        yield error(
            found[name],
            f"{name} needs all points, but ADAM skips some points",
            "Remove ADAM, or divide the insight into two.",
        )


def _name(function: AnyFunction) -> str:
    return function.name if isinstance(function, UserOperator) else function
