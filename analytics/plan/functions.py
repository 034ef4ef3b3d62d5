"""The definitions of the functions over many values.

``FUNCTIONS`` is the single source for the checks of the language, plans, the sharing of panes, the
text of plans, the operators that an engine supports, and the test of the documentation. In addition
to its entry here, a function has a finalizer (``analytics_worker.evaluate.finalize``) and its
documentation (``docs/language.md``).
"""

from dataclasses import dataclass
from typing import Literal, get_args

import msgspec

Function = Literal[
    "SUM", "COUNT", "MIN", "MAX", "AVG", "SDEV", "VARIANCE", "MEDIAN", "MODE", "GEOMETRIC_MEAN",
    "CORRELATION", "PERCENTILE", "TOP_K", "HISTOGRAM", "FORECAST", "OUTLIER_DETECTION", "RATE",
    "LATEST",
    "RUNNING_COUNT", "RUNNING_MEAN", "RUNNING_MAX", "RUNNING_MIN", "RUNNING_SDEV", "EWMA", "PEWMA",
    "DIFF",
]  # fmt: skip
"""The names of the functions of ``FUNCTIONS``; a metric without a function means ``LATEST``."""

Mathematical = Literal["SQRT", "ABS", "SQR", "LOG", "EXP"]
"""The functions of a single number; see ``analytics_worker.panes.mathematics``."""

Content = Literal["moments", "logs", "latest", "points", "sample"]
"""The contents that panes and windows may have in addition to count, sum, minimum and maximum.

``moments``: the squared deviations. ``logs``: the sum of logarithms. ``latest``: the latest point.
``points``: all points. ``sample``: the strata and the sampling probabilities of sampled points.
"""

CONTENTS: tuple[Content, ...] = get_args(Content)

Parameters = tuple[float, ...]

SampleKind = Literal["bounded", "any", "even"]
"""The samples for which a function is defined.

``bounded``: all samples, and results have error bounds. ``any``: all samples, without error bounds.
``even``: only samples in which all points have the same sampling probability.
"""

MAX_VALUES = 1000
MAX_STEPS = 10_000


class UserOperator(msgspec.Struct, frozen=True):
    """An operator of another package: its name in upper case, and its version.

    See ``analytics.operators.interface``.
    """

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


AnyFunction = Function | UserOperator


@dataclass(frozen=True, slots=True)
class ParameterRange:
    """The meaning of a parameter in brackets, its bounds, and an example of a value.

    ``whole``: only whole numbers are valid. ``above``: the minimum itself is not valid.
    ``default``: the value if the text gives none; None: the text must give a value.

    >>> 0.5 in GEOHASH_LENGTH, 12.0 in GEOHASH_LENGTH, str(GEOHASH_LENGTH)
    (False, True, 'from 1 to 12')
    """

    meaning: str
    minimum: float
    maximum: float
    example: float
    whole: bool = False
    above: bool = False
    default: float | None = None

    def __contains__(self, value: float) -> bool:
        enough = value > self.minimum if self.above else value >= self.minimum
        return enough and value <= self.maximum and (value.is_integer() or not self.whole)

    def __str__(self) -> str:
        if self.above:
            return f"more than {self.minimum:g} and at most {self.maximum:g}"
        return f"from {self.minimum:g} to {self.maximum:g}"


_PERCENTAGE = ParameterRange("a percentage", 0, 100, 3)
_NUMBER_OF_VALUES = ParameterRange("a number of values", 1, MAX_VALUES, 3, whole=True, default=10)
_NUMBER_OF_BINS = ParameterRange("a number of bins", 1, MAX_VALUES, 3, whole=True)
_NUMBER_OF_STEPS = ParameterRange("a number of steps", 1, MAX_STEPS, 6, whole=True)
_WEIGHT = ParameterRange("the weight of a new value", 0, 1, 0.3, above=True, default=0.3)
GEOHASH_LENGTH = ParameterRange("a number of characters", 1, 12, 5, whole=True)


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """The definition of a function.

    - ``content``: the pane content that the function needs; None: the function needs only count,
      sum, minimum and maximum.
    - ``metrics``: the number of metrics to which the function is applied.
    - ``parameter``: the parameter in brackets; None: the function has no such parameter.
    - ``over_values``: the function can also reduce the values of several keys at a tick; False: the
      function needs the times or the order of points.
    - ``accumulated``: the function reads all points since a start
      (``analytics_worker.operators.accumulators``).
    - ``sample``: the samples for which the function is defined; None: the function needs all
      points.
    - ``spacing``: the function needs the original distances in time between points, which adaptive
      sampling (``ADAM``) changes.
    - ``several``: a result has several values in addition to its main value.
    - ``by_options``: the parameters are options of the insight (``ALGORITHM``).
    - ``keeps_unit``: a value has the unit of the values of the metric.
    """

    content: Content | None = None
    metrics: int = 1
    parameter: ParameterRange | None = None
    over_values: bool = True
    accumulated: bool = False
    sample: SampleKind | None = None
    spacing: bool = False
    several: bool = False
    by_options: bool = False
    keeps_unit: bool = False

    @property
    def merges(self) -> bool:
        """Whether a pane contains a state of constant size for the function, not all points."""
        return self.content != "points"

    def example(self, name: str) -> str:
        """Return an example of a call of this function, for a hint; ``name``: the function's name.

        >>> FUNCTIONS["EWMA"].example("EWMA"), FUNCTIONS["FORECAST"].example("FORECAST")
        ('EWMA[0.3](cpu.util)', 'FORECAST[6](cpu.util, 1 HOUR)')
        """
        brackets = "" if self.parameter is None else f"[{self.parameter.example:g}]"
        metrics = ("cpu.util", "mem.util")[: self.metrics]
        window = () if self.accumulated else ("1 HOUR",)
        return f"{name}{brackets}({', '.join((*metrics, *window))})"


def _accumulated(
    *,
    parameter: ParameterRange | None = None,
    spacing: bool = False,
    keeps_unit: bool = True,
) -> FunctionSpec:
    return FunctionSpec(
        "points",
        parameter=parameter,
        over_values=False,
        accumulated=True,
        spacing=spacing,
        keeps_unit=keeps_unit,
    )


FUNCTIONS: dict[Function, FunctionSpec] = {
    "SUM": FunctionSpec(sample="bounded", keeps_unit=True),
    "COUNT": FunctionSpec(sample="bounded"),
    "MIN": FunctionSpec(sample="any", keeps_unit=True),
    "MAX": FunctionSpec(sample="any", keeps_unit=True),
    "AVG": FunctionSpec(sample="bounded", keeps_unit=True),
    "SDEV": FunctionSpec("moments", sample="even", keeps_unit=True),
    "VARIANCE": FunctionSpec("moments", sample="even"),
    "GEOMETRIC_MEAN": FunctionSpec("logs", sample="even", keeps_unit=True),
    "LATEST": FunctionSpec("latest", keeps_unit=True),
    "MEDIAN": FunctionSpec("points", sample="even", keeps_unit=True),
    "MODE": FunctionSpec("points", sample="even", keeps_unit=True),
    "PERCENTILE": FunctionSpec("points", parameter=_PERCENTAGE, sample="even", keeps_unit=True),
    "TOP_K": FunctionSpec("points", parameter=_NUMBER_OF_VALUES, several=True, keeps_unit=True),
    "HISTOGRAM": FunctionSpec("points", parameter=_NUMBER_OF_BINS, several=True),
    "CORRELATION": FunctionSpec("points", metrics=2, over_values=False, spacing=True),
    "FORECAST": FunctionSpec(
        "points", parameter=_NUMBER_OF_STEPS, over_values=False, spacing=True, keeps_unit=True
    ),
    "OUTLIER_DETECTION": FunctionSpec(
        "points", over_values=False, spacing=True, several=True, by_options=True
    ),
    "RATE": FunctionSpec("points", over_values=False, spacing=True),
    "RUNNING_COUNT": _accumulated(keeps_unit=False),
    "RUNNING_MEAN": _accumulated(),
    "RUNNING_MAX": _accumulated(),
    "RUNNING_MIN": _accumulated(),
    "RUNNING_SDEV": _accumulated(),
    "EWMA": _accumulated(parameter=_WEIGHT),
    "PEWMA": _accumulated(parameter=_WEIGHT),
    "DIFF": _accumulated(spacing=True),
}

ACCUMULATED: frozenset[AnyFunction] = frozenset(
    name for name, spec in FUNCTIONS.items() if spec.accumulated
)

BUILT_IN: frozenset[str] = frozenset({*FUNCTIONS, *get_args(Mathematical), "GEOHASH"}) - {"LATEST"}
"""The names of all functions that a text may call; ``grammar.functions`` contains the aliases."""

_USER_OPERATOR = FunctionSpec("points")


def spec_of(function: AnyFunction) -> FunctionSpec:
    """Return the definition of a function; an operator of another package requires all points."""
    return _USER_OPERATOR if isinstance(function, UserOperator) else FUNCTIONS[function]
