"""Completeness of the table of functions: each function has a definition.

The definition determines which samples the function accepts.
"""

from typing import get_args

from analytics.plan.functions import ACCUMULATED, BUILT_IN, FUNCTIONS, Function, Mathematical
from grammar.functions import ALIASES

SAMPLES = {
    "bounded": {"SUM", "COUNT", "AVG"},
    "any": {"MIN", "MAX"},
    "even": {"SDEV", "VARIANCE", "GEOMETRIC_MEAN", "MEDIAN", "MODE", "PERCENTILE"},
    None: {
        "CORRELATION", "TOP_K", "HISTOGRAM", "FORECAST", "OUTLIER_DETECTION", "RATE", "LATEST",
        "RUNNING_COUNT", "RUNNING_MEAN", "RUNNING_MAX", "RUNNING_MIN", "RUNNING_SDEV", "EWMA",
        "PEWMA", "DIFF",
    },
}  # fmt: skip
"""Kind of samples -> functions that accept these samples (None: functions that accept no samples).

A new function must be added here.
"""


def test_every_function_has_a_definition() -> None:
    assert set(FUNCTIONS) == set(get_args(Function))


def test_every_function_has_a_decision_about_samples() -> None:
    assert sorted(name for names in SAMPLES.values() for name in names) == sorted(FUNCTIONS)
    for kind, names in SAMPLES.items():
        assert {name for name in FUNCTIONS if FUNCTIONS[name].sample == kind} == names


def test_accumulated_functions_need_points_and_reduce_no_keys() -> None:
    for name in ACCUMULATED:
        spec = FUNCTIONS[name]  # type: ignore[index]
        assert (spec.content, spec.over_values, spec.sample) == ("points", False, None)


def test_every_alias_names_a_built_in_function() -> None:
    assert set(ALIASES.values()) <= BUILT_IN
    assert set(get_args(Mathematical)) <= BUILT_IN
