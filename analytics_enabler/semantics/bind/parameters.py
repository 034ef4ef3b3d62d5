"""The binding of the parameters in the brackets of calls."""

from analytics.operators.interface import InstalledOperator
from analytics.plan.functions import ParameterRange, Parameters
from analytics_enabler.semantics.diagnostics import Diagnostics
from grammar import ast
from grammar.units import in_words


def bind_parameters(
    call: ast.FunctionCall, allowed: ParameterRange | None, diagnostics: Diagnostics
) -> Parameters:
    """Return the parameters of a call of a built-in function; () after an error.

    ``allowed``: the range of the only parameter; None: the function takes no parameter.
    """
    function = call.function
    if allowed is None:
        for parameter in call.parameters[:1]:
            diagnostics.error(parameter.span, f"{function} takes no parameter", "Remove it.")
        return ()
    what = allowed.meaning
    if not call.parameters:
        if allowed.default is not None:
            return (allowed.default,)
        hint = f"Write {what}, {allowed}: `{function}[{allowed.example:g}](…)`."
        diagnostics.error(call.span, f"{function} needs {what} in brackets", hint)
        return ()
    for other in call.parameters[1:]:
        diagnostics.error(other.span, f"{function} takes one parameter", "Remove the others.")
    given = call.parameters[0]
    if not isinstance(given, ast.Number):
        diagnostics.error(
            given.span, f"{_quoted(given)} is not {what}", f"Write a number {allowed}."
        )
        return ()
    if given.value not in allowed:
        kind = "a whole number" if allowed.whole else "a number"
        diagnostics.error(given.span, f"{given.value:g} is not {what}", f"Write {kind} {allowed}.")
        return ()
    if function == "PERCENTILE" and 0 < given.value < 1:
        diagnostics.warning(
            given.span,
            f"PERCENTILE[{given.value:g}] is near the minimum: only {given.value:g} percent of the "
            "values are below it",
            f"If the quantile {given.value:g} is meant, write `PERCENTILE[{100 * given.value:g}]`.",
        )
    return (given.value,)


def bind_operator_parameters(
    operator: InstalledOperator, call: ast.FunctionCall, diagnostics: Diagnostics
) -> Parameters:
    """Return the parameters of a call of an installed operator; report invalid parameters."""
    names = operator.parameters
    as_in = f"Write `{call.function}[{', '.join(names)}](…)`." if names else "Remove it."
    for other in call.parameters[len(names) :][:1]:
        takes = f"{len(names)} parameters" if len(names) > 1 else "one parameter"
        takes = takes if names else "no parameter"
        diagnostics.error(other.span, f"{call.function} takes {takes}", as_in)
    missing = names[len(call.parameters) : operator.needed]
    if missing:
        what = " and ".join(f"`{name}`" for name in missing)
        diagnostics.error(call.span, f"{call.function} needs {what} in brackets", as_in)
    given = []
    for parameter, name in zip(call.parameters, names, strict=False):
        if isinstance(parameter, ast.Number):
            given.append(parameter.value)
        else:
            diagnostics.error(
                parameter.span,
                f"`{name}` must be a number, not {_quoted(parameter)}",
                "Write a number.",
            )
    return tuple(given)


def _quoted(parameter: ast.Interval | ast.Name) -> str:
    return (
        in_words(parameter.millis) if isinstance(parameter, ast.Interval) else f"`{parameter.name}`"
    )
