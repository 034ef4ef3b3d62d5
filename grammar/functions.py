"""The functions of the language, by name."""

from grammar.ast import Operator

WINDOWED = frozenset({
    "SUM", "COUNT", "MIN", "MAX", "AVG", "SDEV", "VARIANCE", "MEDIAN", "MODE", "GEOMETRIC_MEAN",
    "CORRELATION", "PERCENTILE", "TOP_K", "HISTOGRAM", "FORECAST", "OUTLIER_DETECTION",
})  # fmt: skip
"""Over the points of a window."""

ACCUMULATED = frozenset({
    "RUNNING_COUNT", "RUNNING_MEAN", "RUNNING_MAX", "RUNNING_MIN", "RUNNING_SDEV", "EWMA", "PEWMA",
    "DIFF",
})  # fmt: skip
"""Over all points so far."""

SCALAR = frozenset({"SQRT", "ABS", "SQR", "LOG", "EXP", "GEOHASH"})
"""Of single values."""

FUNCTIONS = WINDOWED | ACCUMULATED | SCALAR

OPERATORS: dict[str, Operator] = {"ADD": "+", "SUB": "-", "MUL": "*", "DIV": "/"}
"""Those that are arithmetic, by another spelling."""

ALIASES = {
    "ARITHMETIC_MEAN": "AVG",
    "MEAN": "AVG",
    "OUTLIER_DETECTOR": "OUTLIER_DETECTION",
    "RUNNING_AVG": "RUNNING_MEAN",
    "RUNNING_STD": "RUNNING_SDEV",
    "TOP-K": "TOP_K",
}
"""Other names, and what each stands for."""


def function_named(word: str) -> str:
    """Return the name of a function as the syntax tree has it: in upper case, no alias."""
    upper = word.upper()
    return ALIASES.get(upper, upper)
