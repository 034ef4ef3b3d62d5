"""Forecasts by Holt-Winters' exponential smoothing."""

import warnings

import numpy as np
from numpy.typing import NDArray

from mistbow.operators.points import Floats

LEAST = 4
"""How many steps with points a forecast needs."""

MOST = 1000
"""How many steps it looks back: older ones weigh next to nothing, and each costs time."""


def forecast(
    ts: NDArray[np.int64], values: Floats, h: int, season: int | None = None
) -> float | None:
    """Return the value that is expected ``h`` steps after the last point; None if there is none.

    A step is the median time between points. The trend is additive; a season of so many steps
    (2 or more) is too, and is looked for if at least two of them are there. Times are in ms and in
    any order. None if fewer than ``LEAST`` of the last ``MOST`` steps have points.
    """
    grid = even_grid(ts, values)
    if grid is None:
        return None
    origin, spread = grid.mean(), grid.std()
    if not 0 < spread < np.inf:
        return float(grid[-1]) if spread == 0 else None
    # The optimizer's tolerance is absolute: what it sees is of the size of 1.
    expected = origin + spread * _expect((grid - origin) / spread, h, season)
    return expected if np.isfinite(expected) else None


def even_grid(ts: NDArray[np.int64], values: Floats) -> Floats | None:
    """Return the mean of each of the last steps, up to that of the last point.

    A step without points has the value of the one before. None where too few have points.
    """
    times = np.unique(ts)
    if len(times) < LEAST:
        return None
    step = np.median(np.diff(times))
    ago = np.rint((times[-1] - ts) / step).astype(np.int64)
    recent = ago < MOST
    ago, values = ago[recent], values[recent]
    places = ago.max() - ago
    counts = np.bincount(places)
    known = counts > 0
    if known.sum() < LEAST:
        return None
    means = np.bincount(places, values) / np.maximum(counts, 1)
    return means[np.maximum.accumulate(np.where(known, np.arange(len(known)), 0))]


def _expect(grid: Floats, h: int, season: int | None) -> float:
    # Imported here, where it is needed: it takes 1.5 s and 85 MB.
    from statsmodels.tsa.holtwinters import ExponentialSmoothing

    seasonal = season is not None and len(grid) >= max(2 * season, 10 + season)
    with warnings.catch_warnings():
        # What does not converge is still the best that was found.
        warnings.simplefilter("ignore")
        # Estimating the first level, trend and season too, or looking at a grid of all weights
        # first, takes several times as long and changes little.
        model = ExponentialSmoothing(
            grid,
            trend="add",
            seasonal="add" if seasonal else None,
            seasonal_periods=season if seasonal else None,
            initialization_method="heuristic" if len(grid) >= 10 else "legacy-heuristic",
        )
        return float(model.fit(use_brute=False).forecast(h)[-1])
