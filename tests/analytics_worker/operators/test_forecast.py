import subprocess
import sys

import numpy as np
import pytest

from analytics_worker.operators.forecast import MAX_STEPS, even_grid, find_season, forecast

EVERY_SECOND = np.arange(60) * 1000


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e12])
def test_straight_line_is_extrapolated(scale: float) -> None:
    line = scale * (5 + 0.25 * np.arange(60))
    assert forecast(EVERY_SECOND, line, 8) == pytest.approx(scale * (5 + 0.25 * 67), rel=1e-6)
    assert forecast(EVERY_SECOND, np.full(60, 3.5 * scale), 8) == 3.5 * scale


def test_season_with_three_repetitions_is_extrapolated() -> None:
    daily = np.tile([1.0, 5.0, 2.0, 8.0, 3.0, 4.0], 10) + 0.1 * np.arange(60)
    expected = [1, 5, 2, 8, 3, 4][67 % 6] + 0.1 * 67
    assert find_season(daily) == 6
    assert forecast(EVERY_SECOND, daily, 8) == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("period", [2, 7, 12, 40])
def test_a_season_is_found_in_noise_and_none_in_noise_alone(period: int) -> None:
    random = np.random.default_rng(period)
    noise = random.normal(size=period * 12)
    wave = np.tile(3 * random.normal(size=period), 12)
    assert find_season(wave + noise) == period
    assert find_season(random.normal(size=200)) is None
    assert find_season(np.cumsum(random.normal(size=200))) is None
    assert find_season(wave[:23]) is None


def test_the_same_points_in_any_order_give_the_same() -> None:
    random = np.random.default_rng(3)
    values, order = random.integers(0, 100, 60).astype(float), random.permutation(60)
    once = forecast(EVERY_SECOND, values, 3)
    assert once is not None
    assert forecast(EVERY_SECOND[order], values[order], 3) == once


def test_points_are_averaged_over_even_steps_and_gaps_repeat_the_last_value() -> None:
    ts = np.array([0, 1010, 990, 1990, 5000, 3000, 3000, 6020])
    values = np.array([1.0, 2.0, 4.0, 5.0, 9.0, 6.0, 8.0, 10.0])
    grid = even_grid(ts, values)
    assert grid is not None
    assert grid.tolist() == [1, 3, 5, 7, 7, 9, 10]


def test_too_few_points_have_no_forecast() -> None:
    values = np.array([1.0, 2.0, 4.0, 3.0])
    assert forecast(np.array([1, 2, 3, 4]), values, 1) is not None
    assert forecast(np.array([1, 2, 3]), values[:3], 1) is None
    assert forecast(np.array([1, 2, 2, 3]), values, 1) is None
    assert forecast(np.array([], np.int64), np.array([]), 1) is None
    # A burst, and a point a day later: between them lie more steps than it looks back.
    assert forecast(np.array([1, 2, 3, 86_400_000]), values, 1) is None


def test_forecast_reads_a_limited_number_of_steps() -> None:
    ts = np.arange(3 * MAX_STEPS) * 1000
    grid = even_grid(ts, ts.astype(np.float64))
    assert grid is not None
    assert grid.tolist() == ts[-MAX_STEPS:].tolist()


@pytest.mark.usefixtures("processes")
def test_the_library_is_imported_when_it_is_used() -> None:
    code = (
        "import sys, analytics_worker.operators.forecast\n"
        "sys.exit('statsmodels' in sys.modules or 'scipy' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
