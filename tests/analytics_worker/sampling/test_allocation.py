"""Allocation of sampling chances to strata, for an error bound or for a share of the points."""

import numpy as np
import pytest

from analytics_worker.sampling.allocation import (
    MIN_STRATUM_POINTS,
    Allocation,
    SamplingUnits,
    allocate_for_error,
    allocate_for_share,
)
from analytics_worker.sampling.sampling_keys import Floats


def units(levels: Floats, each: int) -> SamplingUnits:
    random = np.random.default_rng(3)
    indices = np.repeat(np.arange(len(levels)), each)
    return SamplingUnits.of(
        indices, random.normal(levels[indices], 0.3 * levels[indices]), len(levels)
    )


def selected(all_units: SamplingUnits, allocation: Allocation) -> float:
    return float((all_units.counts * allocation.chances[allocation.strata]).sum())


LEVELS = np.linspace(5, 60, 100)


def test_a_bound_is_met_with_less_where_more_is_allowed() -> None:
    given = units(LEVELS, 50)
    shares = [
        selected(given, allocate_for_error(given, error, 0.95, periods)) / 5000
        for error, periods in ((0.02, 1), (0.05, 1), (0.05, 10))
    ]
    assert 0.5 > shares[0] > 2 * shares[1] > 2 * shares[2] > 0


def test_varying_strata_have_more_points_and_no_stratum_is_left_out() -> None:
    given = units(LEVELS, 50)
    found = allocate_for_share(given, 0.1)
    assert selected(given, found) == pytest.approx(500, rel=0.01)
    chances = found.chances[found.strata]
    assert chances[-1] > 3 * chances[0]
    counts = np.bincount(found.strata, weights=given.counts)
    assert (counts * found.chances >= MIN_STRATUM_POINTS - 1e-9).all()


def test_too_small_a_share_is_the_same_for_all() -> None:
    given = units(LEVELS, 1)
    assert set(allocate_for_share(given, 0.05).chances.tolist()) == {0.05}


def test_constant_values_need_few_points_and_a_sum_of_zero_needs_all_points() -> None:
    same = units(np.zeros(10), 100)
    assert selected(same, allocate_for_error(same, 0.05, 0.95, 1)) == pytest.approx(
        MIN_STRATUM_POINTS
    )
    indices = np.repeat([0, 1], 50)
    nothing = SamplingUnits.of(indices, np.tile([-1.0, 1.0], 50), 2)
    assert selected(nothing, allocate_for_error(nothing, 0.05, 0.95, 1)) == pytest.approx(100)


def test_stratum_without_finite_variance_is_selected_whole_or_by_its_share() -> None:
    huge = SamplingUnits.of(np.array([0, 0, 1, 1]), np.array([1e308, -1e308, 1e308, 1.0]), 2)
    assert selected(huge, allocate_for_error(huge, 0.05, 0.95, 1)) == 4
    assert selected(huge, allocate_for_share(huge, 0.5)) == 2
