"""What functions take in brackets, and how many arguments."""

from dataclasses import dataclass
from typing import Literal

from analytics_enabler.semantics.findings import Findings, nearest
from analytics_enabler.semantics.trees import walk
from grammar import ast
from grammar.units import in_words
from mistbow.operators.interface import Installed
from mistbow.plan.expressions import Function, Parameters

ALGORITHMS = ("pmcod",)
MOST_VALUES = 1000
MOST_STEPS = 10_000


@dataclass(frozen=True, slots=True)
class _Range:
    """What a parameter is, and between what; ``least`` itself may be excluded."""

    what: str
    least: float
    most: float
    example: float
    whole: bool = False
    excluded: bool = False

    def __contains__(self, value: float) -> bool:
        enough = value > self.least if self.excluded else value >= self.least
        return enough and value <= self.most and (value.is_integer() or not self.whole)

    def __str__(self) -> str:
        if self.excluded:
            return f"more than {self.least:g} and at most {self.most:g}"
        return f"from {self.least:g} to {self.most:g}"


_WEIGHT = _Range("the weight of a new value", 0, 1, 0.3, excluded=True)
_RANGES: dict[Function | Literal["GEOHASH"], _Range] = {
    "PERCENTILE": _Range("a percentage", 0, 100, 3),
    "TOP_K": _Range("a number of values", 1, MOST_VALUES, 3, whole=True),
    "HISTOGRAM": _Range("a number of bins", 1, MOST_VALUES, 3, whole=True),
    "FORECAST": _Range("a number of steps", 1, MOST_STEPS, 3, whole=True),
    "EWMA": _WEIGHT,
    "PEWMA": _WEIGHT,
    "GEOHASH": _Range("a number of characters", 1, 12, 5, whole=True),
}


def parameters_of(
    function: Function | Literal["GEOHASH"], call: ast.Call, findings: Findings
) -> Parameters:
    """Return what stands in the brackets of a call."""
    wanted = _RANGES.get(function)
    if wanted is None:
        for parameter in call.parameters[:1]:
            findings.error(parameter.span, f"{function} takes no parameter", "Leave it out.")
        return ()
    what, stand_in = wanted.what, (wanted.example,)
    if not call.parameters:
        hint = f"Write {what}, {wanted}: `{function}[{wanted.example:g}](…)`."
        findings.error(call.span, f"{function} needs {what} in brackets", hint)
        return stand_in
    for other in call.parameters[1:]:
        findings.error(other.span, f"{function} takes one parameter", "Leave the others out.")
    given = call.parameters[0]
    if not isinstance(given, ast.Number):
        findings.error(given.span, f"{_said(given)} is not {what}", f"Write a number {wanted}.")
        return stand_in
    if given.value not in wanted:
        kind = "a whole number" if wanted.whole else "a number"
        findings.error(given.span, f"{given.value:g} is not {what}", f"Write {kind} {wanted}.")
        return stand_in
    return (given.value,)


def parameters_of_operator(operator: Installed, call: ast.Call, findings: Findings) -> Parameters:
    """Return what stands in the brackets of a call of another package's operator."""
    names = operator.parameters
    as_in = f"Write `{call.function}[{', '.join(names)}](…)`." if names else "Leave it out."
    for other in call.parameters[len(names) :][:1]:
        takes = f"{len(names)} parameters" if len(names) > 1 else "one parameter"
        takes = takes if names else "no parameter"
        findings.error(other.span, f"{call.function} takes {takes}", as_in)
    missing = names[len(call.parameters) : operator.needed]
    if missing:
        what = " and ".join(f"`{name}`" for name in missing)
        findings.error(call.span, f"{call.function} needs {what} in brackets", as_in)
    given = []
    for parameter, name in zip(call.parameters, names, strict=False):
        if isinstance(parameter, ast.Number):
            given.append(parameter.value)
        else:
            findings.error(parameter.span, f"{_said(parameter)} is no `{name}`", "Write a number.")
    return tuple(given)


def _said(parameter: ast.Interval | ast.Name) -> str:
    return (
        in_words(parameter.millis) if isinstance(parameter, ast.Interval) else f"`{parameter.name}`"
    )


def outliers_of(insight: ast.Insight, findings: Findings) -> Parameters | None:
    """Return how many neighbours within which distance keep a value from being an outlier."""
    named = [option for option in insight.options if isinstance(option, ast.Outliers)]
    for other in named[1:]:
        findings.error(other.span, "ALGORITHM is given twice", "Name one.")
    if not named:
        return None
    option = named[0]
    calls = (node for node in walk(insight) if isinstance(node, ast.Call))
    if all(call.function != "OUTLIER_DETECTION" for call in calls):
        findings.error(
            option.span,
            "no outliers are told here",
            "Leave it out, or compute `OUTLIER_DETECTION(cpu.util, 1 HOUR)`, say.",
        )
    if option.algorithm.lower() not in ALGORITHMS:
        near = nearest(option.algorithm, ALGORITHMS) or list(ALGORITHMS)
        findings.error(
            option.span, f"there is no algorithm `{option.algorithm}`", f"Use `{near[0]}`."
        )
    if option.k is None or option.r is None:
        findings.error(
            option.span,
            "neighbours and a distance are needed to tell outliers",
            "Add `AND K=50 AND R=0.5`, say: fewer than 50 values within 0.5 make an outlier.",
        )
        return (1.0, 1.0)
    return (float(option.k), option.r)
