"""What functions take in brackets, and how many arguments."""

from analytics_enabler.semantics.findings import Findings, nearest
from grammar import ast
from grammar.units import in_words
from mistbow.plan.expressions import Function, Parameters

ALGORITHMS = ("pmcod",)
MOST_VALUES = 1000
MOST_STEPS = 10_000

_RANGES: dict[Function, tuple[str, float, float, bool]] = {
    "PERCENTILE": ("a percentage", 0, 100, False),
    "TOP_K": ("a number of values", 1, MOST_VALUES, True),
    "HISTOGRAM": ("a number of bins", 1, MOST_VALUES, True),
    "FORECAST": ("a number of steps", 1, MOST_STEPS, True),
}
"""What the parameter is, the least and the greatest that it may be, and whether it is whole."""


def parameters_of(function: Function, call: ast.Call, findings: Findings) -> Parameters:
    """Return what stands in the brackets of a call."""
    wanted = _RANGES.get(function)
    if wanted is None:
        for parameter in call.parameters[:1]:
            findings.error(parameter.span, f"{function} takes no parameter", "Leave it out.")
        return ()
    what, least, most, whole = wanted
    bounds = f"from {least} to {most}"
    if not call.parameters:
        hint = f"Write {what}, {bounds}: `{function}[{max(3, int(least))}](…)`."
        findings.error(call.span, f"{function} needs {what} in brackets", hint)
        return (float(least),)
    for other in call.parameters[1:]:
        findings.error(other.span, f"{function} takes one parameter", "Leave the others out.")
    given = call.parameters[0]
    if not isinstance(given, ast.Number):
        said = in_words(given.millis) if isinstance(given, ast.Interval) else f"`{given.name}`"
        findings.error(given.span, f"{said} is not {what}", f"Write a number {bounds}.")
        return (float(least),)
    if not least <= given.value <= most or (whole and not given.value.is_integer()):
        kind = "a whole number" if whole else "a number"
        findings.error(given.span, f"{given.value:g} is not {what}", f"Write {kind} {bounds}.")
        return (float(least),)
    return (given.value,)


def outliers_of(insight: ast.Insight, findings: Findings) -> Parameters | None:
    """Return how many neighbours within which distance keep a value from being an outlier."""
    named = [option for option in insight.options if isinstance(option, ast.Outliers)]
    for other in named[1:]:
        findings.error(other.span, "ALGORITHM is given twice", "Name one.")
    if not named:
        return None
    option = named[0]
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
