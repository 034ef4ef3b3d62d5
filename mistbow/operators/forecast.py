"""Forecasts by Holt-Winters' exponential smoothing."""

import warnings

import numpy as np
from numpy.typing import NDArray

from mistbow.operators.points import Floats

LEAST = 4
"""How many steps with points a forecast needs."""

MOST = 1000
"""How many steps it looks back: older ones weigh next to nothing, and each costs time."""

LEAST_SEASONAL = 24
"""Among how many steps a season is looked for: in fewer, noise often looks like one."""

_PERIODS = 3
_CLEAR = 0.5


def forecast(ts: NDArray[np.int64], values: Floats, h: int) -> float | None:
    """Return the value that is expected ``h`` steps after the last point; None if there is none.

    A step is the median time between points. The trend is additive, and so is the season, if
    ``find_season`` finds one. Times are in ms and in any order. None if fewer than ``LEAST`` of
    the last ``MOST`` steps have points.
    """
    grid = even_grid(ts, values)
    if grid is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        origin = grid.mean()
        spread = np.abs(grid - origin).max()
    if not 0 < spread < np.inf:
        return float(grid[-1]) if spread == 0 else None
    # The optimizer's tolerance is absolute: what it sees is of the size of 1.
    expected = float(origin + spread * _expect((grid - origin) / spread, h))
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


def find_season(grid: Floats) -> int | None:
    """Return after how many steps values repeat; None if that is not clear.

    It is the first peak, or the first nearly as high as the highest, of the autocorrelation about
    a straight line, behind where that falls below 0. A period is there three times, and the values
    of one say at least half of what those of the next are.
    """
    size = len(grid)
    if size < LEAST_SEASONAL:
        return None
    steps = np.arange(size)
    away = grid - np.polyval(np.polyfit(steps, grid, 1), steps)
    spectrum = np.fft.rfft(away, 2 * size)
    likeness = np.fft.irfft(spectrum * spectrum.conj())[: size // _PERIODS + 2]
    likeness /= size - np.arange(len(likeness))
    before, here, after = likeness[:-2], likeness[1:-1], likeness[2:]
    fallen = np.maximum.accumulate(here < 0)
    peaks = fallen & (here >= before) & (here >= after) & (here > _CLEAR * likeness[0])
    if not peaks.any():
        return None
    return int(np.flatnonzero(peaks & (here >= 0.9 * here[peaks].max()))[0]) + 1


def _expect(grid: Floats, h: int) -> float:
    # Imported here, where it is needed: it takes 1.5 s and 85 MB.
    from statsmodels.tsa.holtwinters import ExponentialSmoothing

    season = find_season(grid)
    with warnings.catch_warnings():
        # What does not converge is still the best that was found.
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
