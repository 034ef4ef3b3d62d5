"""The options of WITH by which only a part of the points is read: SAMPLE, MAX_ERROR, AWARENESS."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeVar

import msgspec

from analytics_enabler.semantics.findings import Findings, beginning
from analytics_enabler.semantics.trees import references, walk
from grammar import ast
from mistbow.plan.expressions import Aggregate, AnyFunction, Expression, UserOperator, rewrite
from mistbow.plan.expressions import walk as walk_plan
from mistbow.plan.sampling import Allotted, Even, Fixed, Sampling

O = TypeVar("O", bound=ast.Option)  # noqa: E741 - as N is of nodes

Sampled = Literal["bounded", "any", "even"]
"""Of which samples a function says something: with bounds; of any; or where each point has the
same chance.
"""

SAMPLED: dict[str, Sampled | None] = {
    "SUM": "bounded",
    "COUNT": "bounded",
    "AVG": "bounded",
    "MIN": "any",
    "MAX": "any",
    "SDEV": "even",
    "VARIANCE": "even",
    "GEOMETRIC_MEAN": "even",
    "MEDIAN": "even",
    "MODE": "even",
    "PERCENTILE": "even",
    "CORRELATION": None,
    "TOP_K": None,
    "HISTOGRAM": None,
    "FORECAST": None,
    "OUTLIER_DETECTION": None,
    "LATEST": None,
    "RUNNING_COUNT": None,
    "RUNNING_MEAN": None,
    "RUNNING_MAX": None,
    "RUNNING_MIN": None,
    "RUNNING_SDEV": None,
    "EWMA": None,
    "PEWMA": None,
    "DIFF": None,
}
"""What may be sampled, of all functions; None for what needs its points, as what is not of ours
does.
"""

LONGEST_PERIOD_MS = 60_000
"""What a metric was like so long ago tells what it is like now."""

_SHARE_OF_BOUND = 0.5
"""Of the points, if a bound is to be met and accuracy not to be saved at."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the options ask for; ``option`` is the one that asks."""

    option: ast.Sample | ast.Accuracy
    accurate: bool = False

    def of(self, aggregate: Aggregate) -> Sampling:
        """Return how the points of an aggregate are sampled."""
        step = math.gcd(aggregate.size_ms, aggregate.ticks.step_ms, aggregate.offset_ms)
        match self.option:
            case ast.Sample(size=int() as size):
                return Fixed(size, step)
            case ast.Sample(share=float() as even) if not self.accurate:
                return Even(even)
        # What is the same for all of a window is told best.
        period = step * max(1, min(aggregate.size_ms, LONGEST_PERIOD_MS) // step)
        periods = aggregate.size_ms / period
        match self.option:
            case ast.Accuracy(error, confidence):
                spent = _SHARE_OF_BOUND if self.accurate else None
                return Allotted(period, periods, spent, error, confidence or 0.95)
            case ast.Sample(share=share):
                return Allotted(period, periods, share)


def sampling_of(insight: ast.Insight, findings: Findings) -> Asked | None:
    """Return how an insight is to be sampled, if at all."""
    samples, bounds = _all(insight, ast.Sample), _all(insight, ast.Accuracy)
    aware = _all(insight, ast.Awareness)
    for word, options in (("SAMPLE", samples), ("MAX_ERROR", bounds), ("AWARENESS", aware)):
        for again in options[1:]:
            findings.error(again.span, f"{word} is given twice", "Keep one.")
    asking: list[ast.Sample | ast.Accuracy] = [*samples, *bounds]
    if not asking:
        for option in aware:
            findings.error(
                option.span,
                "nothing is sampled here",
                "Say how, as in `SAMPLE 0.2 AND AWARENESS ON ACCURACY`.",
            )
        return None
    if samples and bounds:
        findings.error(
            bounds[0].span,
            "SAMPLE says how much is read, MAX_ERROR how much must be: both cannot hold",
            "Keep one of them.",
        )
    accurate = any(option.of == "ACCURACY" for option in aware)
    if accurate and samples and samples[0].size is not None:
        findings.error(
            aware[0].span,
            "a sample of a fixed size is the same for each entity",
            "Give a share, as in `SAMPLE 0.2`, or leave AWARENESS out.",
        )
    if isinstance(insight.every, ast.Points):
        findings.error(
            insight.every.span,
            "points cannot be counted where only some of them are read",
            "Give an interval, as in `EVERY 5 SECONDS`, or leave the sampling out.",
        )
    for node in references(insight):
        findings.error(
            node.span,
            f"the points that `{node.name}` reads are not sampled here",
            f"Write what `{node.name}` computes here, or sample it there.",
        )
    return Asked(asking[0], accurate)


def sampled(
    expressions: Iterable[Expression], asked: Asked, insight: ast.Insight, findings: Findings
) -> list[Expression]:
    """Return expressions over samples of their sources, at ticks."""

    def change(node: Expression) -> Expression:
        if not isinstance(node, Aggregate):
            return node
        source = msgspec.structs.replace(node.source, sampling=asked.of(node))
        return msgspec.structs.replace(node, source=source, each_point=False)

    whole = list(expressions)
    used = {
        node.function: None
        for expression in whole
        for node in walk_plan(expression)
        if isinstance(node, Aggregate)
    }
    for function in used:
        _check(function, asked, insight, findings)
    return [rewrite(expression, change) for expression in whole]


def _check(function: AnyFunction, asked: Asked, insight: ast.Insight, findings: Findings) -> None:
    name = function.name if isinstance(function, UserOperator) else function
    calls = [
        beginning(node.span, len(node.function))
        for node in walk(insight)
        if isinstance(node, ast.Call) and node.function == name
    ]
    span = calls[0] if calls else asked.option.span
    kind = SAMPLED.get(name)
    even = isinstance(asked.option, ast.Sample) and asked.option.size is None and not asked.accurate
    if kind is None:
        what = "a current value is" if function == "LATEST" else f"{function} is"
        hint = "Leave the sampling out, or part the insight in two."
        findings.error(span, f"{what} not of a sample: it needs its points", hint)
    elif kind == "any" and isinstance(asked.option, ast.Accuracy):
        findings.error(
            span,
            f"{function} has no bound: what is left out may lie beyond any sample",
            "Write `SAMPLE 0.2`, say, to have that of a sample.",
        )
    elif kind == "even" and not even:
        findings.error(
            span,
            f"{function} needs a sample in which each point has the same chance",
            "Give a share, as in `SAMPLE 0.2`, without AWARENESS ON ACCURACY.",
        )


def _all(insight: ast.Insight, kind: type[O]) -> list[O]:
    return [option for option in insight.options if isinstance(option, kind)]
