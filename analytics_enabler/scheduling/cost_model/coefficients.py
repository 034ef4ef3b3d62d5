"""The coefficients of the cost model: the cost of a unit of each kind of work.

The initial coefficients were measured by ``python -m benchmarks cost_model`` on the reference
machine; a worker's calibration states how much faster it is.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

INITIAL_CPU_S: Mapping[str, float] = {
    "fragment": 0.03,
    "batch": 0.09,
    "point": 1e-5,
    "routed": 1e-5,
    "pane": 3e-5,
    "carried": 2e-5,
    "source": 0.002,
    "window": 2e-6,
    "window_point": 1e-6,
    "insight": 1e-3,
    "measure": 1e-4,
    "forecast": 0.015,
    "operator": 1e-4,
    "result": 3e-5,
}
"""The CPU time (s) of a unit of work on the reference machine; see ``work.Work``."""

INITIAL_BYTES: Mapping[str, float] = {
    "append": 2500.0,
    "pane": 56.0,
    "carried": 24.0,
    "result": 30.0,
}
"""The bytes of a unit of written data."""

PRIOR_WEIGHT = 0.02
"""The weight of an initial coefficient, relative to the weight of an observation."""


_STEPS = 8
_TOLERANCE = 0.3
"""The relative error at which a sample counts half."""

_MIN_PREDICTED = 1e-9
"""The prediction (s or bytes) up to which a sample does not scale the coefficients."""


class Sample(msgspec.Struct, frozen=True):
    """One observation: the units of work, their total cost, and the weight of the observation."""

    units: Mapping[str, float]
    taken: float
    weight: float = 1.0


def fit(samples: Sequence[Sample], initial: Mapping[str, float]) -> dict[str, float]:
    """Return the coefficients, at least 0, that minimize the squared relative errors.

    Each coefficient has a prior, its initial value, by ridge regression: coefficients that the
    samples do not determine keep their values. Solved by nonnegative least squares (Lawson and
    Hanson, 1974), whose rows are weighted again in each of a few steps, by Cauchy's weights: a
    fragment that takes much more or less than its kind, for example because it is stuck, does not
    count.

    >>> half = [Sample({"a": 1.0, "b": n}, 0.5 * (1.0 + 2.0 * n)) for n in (1.0, 5.0, 20.0)]
    >>> {kind: round(each, 1) for kind, each in fit(half, {"a": 1.0, "b": 2.0, "c": 3.0}).items()}
    {'a': 0.5, 'b': 1.0, 'c': 3.0}
    """
    kinds = sorted(initial)
    start = np.array([initial[kind] for kind in kinds])
    # Relative to the initial coefficients, so that all unknowns are about 1.
    units = np.array([[each.units.get(kind, 0.0) for kind in kinds] for each in samples])
    units = units.reshape(len(samples), len(kinds)) * start
    taken = np.array([each.taken for each in samples])
    factors = np.full(len(kinds), _middle_ratio(taken, units.sum(axis=1)))
    for _ in range(_STEPS):
        predicted = units @ factors
        scale = np.maximum(predicted, taken)
        errors = (predicted - taken) / scale
        weights = np.array([each.weight for each in samples]) / (1 + (errors / _TOLERANCE) ** 2)
        factors = _weighted_fit(units, taken, np.sqrt(weights) / scale)
    return {kind: float(value) for kind, value in zip(kinds, factors * start, strict=True)}


def _weighted_fit(
    units: NDArray[np.float64], taken: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the factors of the initial coefficients; ``weights``: of the rows."""
    # The import takes 0.3 s, and an enabler without fragments does not need it.
    from scipy.optimize import nnls

    count = units.shape[1]
    prior = PRIOR_WEIGHT**0.5
    rows = np.vstack([np.eye(count) * prior, units * weights[:, np.newaxis]])
    goals = np.concatenate([np.full(count, prior), taken * weights])
    factors: NDArray[np.float64] = nnls(rows, goals)[0]
    return factors


def _middle_ratio(taken: NDArray[np.float64], predicted: NDArray[np.float64]) -> float:
    """Return the median ratio of measurement to estimate; 1 without samples."""
    has_work = predicted > _MIN_PREDICTED
    ratios = taken[has_work] / predicted[has_work]
    return float(np.median(ratios)) if len(ratios) else 1.0


def total(units: Mapping[str, float], coefficients: Mapping[str, float]) -> float:
    """Return the cost of an amount of work."""
    return sum(count * coefficients.get(kind, 0.0) for kind, count in units.items())
