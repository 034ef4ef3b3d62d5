"""What panes and windows carry beside count, sum, least and greatest, for functions to be exact."""

from typing import Literal, get_args

from mistbow.plan.expressions import AnyFunction, Function, UserOperator

Content = Literal["moments", "logs", "latest", "points", "sample"]
"""The squared deviations, the sum of logarithms, the latest point, all points, or how those of a
sampled source were drawn.
"""

CONTENTS: tuple[Content, ...] = get_args(Content)

CONTENT_OF: dict[Function, Content | None] = {
    "SUM": None,
    "COUNT": None,
    "MIN": None,
    "MAX": None,
    "AVG": None,
    "SDEV": "moments",
    "VARIANCE": "moments",
    "GEOMETRIC_MEAN": "logs",
    "LATEST": "latest",
    "MEDIAN": "points",
    "MODE": "points",
    "PERCENTILE": "points",
    "TOP_K": "points",
    "HISTOGRAM": "points",
    "CORRELATION": "points",
    "FORECAST": "points",
    "OUTLIER_DETECTION": "points",
    "RUNNING_COUNT": "points",
    "RUNNING_MEAN": "points",
    "RUNNING_MAX": "points",
    "RUNNING_MIN": "points",
    "RUNNING_SDEV": "points",
    "EWMA": "points",
    "PEWMA": "points",
    "DIFF": "points",
}
"""What each function needs; None where count, sum, least and greatest will do."""


def content_of(function: AnyFunction) -> Content | None:
    """Return what a function needs; one of another package needs its points."""
    return "points" if isinstance(function, UserOperator) else CONTENT_OF[function]
