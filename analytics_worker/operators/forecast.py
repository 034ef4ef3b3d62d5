"""Forecasts by Holt-Winters' exponential smoothing."""

import warnings

import numpy as np
from numpy.typing import NDArray

from analytics_worker.operators.points import Floats

MIN_STEPS = 4
"""The least number of steps with points from which a forecast is computed."""

MAX_STEPS = 1000
"""The greatest number of steps that a forecast reads; older steps have hardly any weight."""

MIN_SEASONAL_STEPS = 24
"""The least number of steps in which a season is searched; in fewer steps, noise resembles a
season.
"""

_PERIODS = 3
_MIN_AUTOCORRELATION = 0.5


def forecast(ts: NDArray[np.int64], values: Floats, h: int) -> float | None:
    """Return the value that is expected ``h`` steps after the last point; None without a forecast.

    A step is the median time between points. The trend is additive; if ``find_season`` finds a
    season, the season is additive, too. ``ts``: times in ms, in any order. There is no forecast if
    fewer than ``MIN_STEPS`` of the last ``MAX_STEPS`` steps have points, or if the forecast is not
    finite.
    """
    grid = even_grid(ts, values)
    if grid is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        origin = grid.mean()
        spread = np.abs(grid - origin).max()
    if not 0 < spread < np.inf:
        return float(grid[-1]) if spread == 0 else None
    # The optimizer's tolerance is absolute: its values are scaled to about 1.
    expected = float(origin + spread * _expect((grid - origin) / spread, h))
    return expected if np.isfinite(expected) else None


def even_grid(ts: NDArray[np.int64], values: Floats) -> Floats | None:
    """Return the mean value of each step, for at most ``MAX_STEPS`` steps that end with the last
    point.

    A step is the median time between points. A step without points repeats the mean of the previous
    step. Return None if fewer than ``MIN_STEPS`` steps have points.
    """
    times = np.unique(ts)
    if len(times) < MIN_STEPS:
        return None
    step = np.median(np.diff(times))
    ago = np.rint((times[-1] - ts) / step).astype(np.int64)
    recent = ago < MAX_STEPS
    ago, values = ago[recent], values[recent]
    positions = ago.max() - ago
    counts = np.bincount(positions)
    present = counts > 0
    if present.sum() < MIN_STEPS:
        return None
    means = np.bincount(positions, values) / np.maximum(counts, 1)
    return means[np.maximum.accumulate(np.where(present, np.arange(len(present)), 0))]


def find_season(grid: Floats) -> int | None:
    """Return the length of the season in steps; None if the season is not clear.

    A linear trend is removed. Only peaks of the residuals' autocorrelation that exceed 0.5 and
    follow the first negative value of the autocorrelation are considered. The season is the first
    of these peaks that reaches 90 % of the highest peak. The points must cover at least three
    seasons.
    """
    size = len(grid)
    if size < MIN_SEASONAL_STEPS:
        return None
    steps = np.arange(size)
    residuals = grid - np.polyval(np.polyfit(steps, grid, 1), steps)
    spectrum = np.fft.rfft(residuals, 2 * size)
    autocorrelation = np.fft.irfft(spectrum * spectrum.conj())[: size // _PERIODS + 2]
    autocorrelation /= size - np.arange(len(autocorrelation))
    before, here, after = autocorrelation[:-2], autocorrelation[1:-1], autocorrelation[2:]
    fallen = np.maximum.accumulate(here < 0)
    peaks = (
        fallen
        & (here >= before)
        & (here >= after)
        & (here > _MIN_AUTOCORRELATION * autocorrelation[0])
    )
    if not peaks.any():
        return None
    return int(np.flatnonzero(peaks & (here >= 0.9 * here[peaks].max()))[0]) + 1


def _expect(grid: Floats, h: int) -> float:
    # Imported when needed, as the import takes 1.5 s and 85 MB.
    from statsmodels.tsa.holtwinters import ExponentialSmoothing

    season = find_season(grid)
    with warnings.catch_warnings():
        # A fit that does not converge is still the best one found.
        warnings.simplefilter("ignore")
        # Estimating the first level, trend and season too, and looking at a grid of all weights
        # first, takes two to nine times as long and forecasts no better.
        model = ExponentialSmoothing(
            grid,
            trend="add",
            seasonal="add" if season else None,
            seasonal_periods=season,
            initialization_method="heuristic" if len(grid) >= 10 else "legacy-heuristic",
        )
        return float(model.fit(use_brute=False).forecast(h)[-1])
