"""What a moved or delayed fragment is expected to need until it is measured again."""

import pytest

from analytics_enabler.scheduling.cost_model.last_demands import (
    FACTOR_S,
    MAX_DEMANDS,
    VALID_S,
    LastDemands,
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def demands(clock: Clock) -> LastDemands:
    return LastDemands(clock)


def test_fragment_has_its_last_demand(demands: LastDemands) -> None:
    demands.observe_measurement("f", 0.2, 0.5)
    assert demands.expected("f", 0.2) == pytest.approx(0.5)
    # The load has doubled since, and so has the estimate.
    assert demands.expected("f", 0.4) == pytest.approx(1.0)
    # A lower estimate is not trusted before the next measurement.
    assert demands.expected("f", 0.1) == pytest.approx(0.5)
    assert demands.expected("another", 0.4) == 0.4
    demands.observe_measurement("f", 0.2, 0.3)
    assert demands.expected("f", 0.2) == pytest.approx(0.3)


def test_measured_fragment_needs_less_than_an_estimate_that_is_too_high(
    demands: LastDemands,
) -> None:
    demands.observe_measurement("f", 0.4, 0.1)
    assert demands.expected("f", 0.4) == pytest.approx(0.1)
    assert demands.expected("f", 0.8) == pytest.approx(0.2)


def test_change_of_the_load_is_not_counted_twice(demands: LastDemands, clock: Clock) -> None:
    demands.observe_measurement("f", 0.1, 0.2)
    clock.now = 60
    # The load has doubled; the estimate does not follow before the fragment moves.
    demands.observe_measurement("f", 0.1, 0.4)
    assert demands.expected("f", 0.2) == pytest.approx(0.4)
    clock.now = FACTOR_S + 1
    demands.observe_measurement("f", 0.1, 0.4)
    assert demands.expected("f", 0.2) == pytest.approx(0.8)


def test_delay_raises_a_last_demand_and_never_lowers_it(demands: LastDemands) -> None:
    demands.observe_minimum("f", 0.1, 0.2)
    assert demands.expected("f", 0.1) == pytest.approx(0.2)
    demands.observe_minimum("f", 0.1, 0.4)
    demands.observe_minimum("f", 0.1, 0.3)
    assert demands.expected("f", 0.1) == pytest.approx(0.4)


def test_last_demand_expires(demands: LastDemands, clock: Clock) -> None:
    demands.observe_measurement("f", 0.1, 0.3)
    clock.now = VALID_S
    # A lower minimum does not confirm the higher one.
    demands.observe_minimum("f", 0.1, 0.2)
    assert demands.expected("f", 0.1) == pytest.approx(0.3)
    clock.now = VALID_S + 1
    assert demands.expected("f", 0.1) == 0.1
    demands.observe_minimum("f", 0.1, 0.2)
    assert demands.expected("f", 0.1) == pytest.approx(0.2)


def test_oldest_demands_are_dropped(demands: LastDemands) -> None:
    for number in range(MAX_DEMANDS + 1):
        demands.observe_measurement(str(number), 0.1, 0.2)
    assert demands.expected("0", 0.1) == 0.1
    assert demands.expected("1", 0.1) == pytest.approx(0.2)
