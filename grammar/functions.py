"""The aliases of functions; ``analytics.plan.functions`` defines the functions."""

from grammar.ast import Operator

SCALAR = frozenset({"SQRT", "ABS", "SQR", "LOG", "EXP", "GEOHASH"})
"""The functions that map single values and take no window."""

OPERATORS: dict[str, Operator] = {"ADD": "+", "SUB": "-", "MUL": "*", "DIV": "/"}
"""Name as a function -> arithmetic operator."""

WITH_PARAMETER = frozenset({"PERCENTILE", "TOP_K", "HISTOGRAM", "FORECAST", "EWMA", "PEWMA"})
"""The functions with a parameter in brackets."""

ALIASES = {
    "ARITHMETIC_MEAN": "AVG",
    "MEAN": "AVG",
    "OUTLIER_DETECTOR": "OUTLIER_DETECTION",
    "RUNNING_AVG": "RUNNING_MEAN",
    "RUNNING_STD": "RUNNING_SDEV",
    "TOP-K": "TOP_K",
}
"""Alias -> canonical name of the function."""


def function_named(word: str) -> str:
    """Return the canonical name of a function: in upper case, with aliases resolved."""
    upper = word.upper()
    return ALIASES.get(upper, upper)
