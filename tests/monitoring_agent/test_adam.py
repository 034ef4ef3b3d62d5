import msgspec
import numpy as np
import pytest

from monitoring_agent.adam import Adam, AdamState, Settings

SETTINGS = Settings(min_ms=1000, max_ms=10_000, confidence=0.9)


def sampled(adam: Adam, values: np.ndarray) -> list[int]:
    """Return the seconds at which AdaM takes a sample."""
    taken = []
    for second, value in enumerate(values):
        if adam.is_due(second * 1000):
            adam.advance(second * 1000, value)
            taken.append(second)
    return taken


def test_a_flat_series_is_read_seldom_and_a_jump_brings_the_shortest_period() -> None:
    flat = np.full(300, 20.0)
    adam = Adam(SETTINGS)
    assert len(sampled(adam, flat)) < 40
    assert adam.state.period_ms == 10_000
    assert adam.advance(400_000, 90.0) == 1000


def test_bursts_are_read_more_often_than_noise() -> None:
    random = np.random.default_rng(1)
    noise = random.normal(20, 1, 600)
    bursts = np.where(random.random(600) < 0.05, random.exponential(50, 600), 20.0)
    assert len(sampled(Adam(SETTINGS), bursts)) > len(sampled(Adam(SETTINGS), noise))


def test_more_confidence_takes_more_points() -> None:
    values = 50 + np.random.default_rng(2).normal(0, 5, 2000)
    taken = [
        len(sampled(Adam(Settings(1000, 10_000, confidence)), values))
        for confidence in (0.5, 0.8, 0.9, 0.99)
    ]
    assert taken == sorted(taken)
    assert taken[0] < taken[-1] / 2


def test_stored_state_continues_like_the_original() -> None:
    values = 50 + np.random.default_rng(3).normal(0, 5, 100)
    adam, before = Adam(SETTINGS), Adam(SETTINGS)
    expected = [adam.advance(ts * 1000, value) for ts, value in enumerate(values)]
    found = [before.advance(ts * 1000, value) for ts, value in enumerate(values[:50])]
    stored = msgspec.json.decode(msgspec.json.encode(before.state), type=AdamState)
    after = Adam(SETTINGS, stored)
    found += [after.advance(ts * 1000, value) for ts, value in enumerate(values[50:], 50)]
    assert found == expected


def test_late_and_non_finite_values_change_nothing() -> None:
    adam = Adam(SETTINGS)
    adam.advance(1000, 1.0)
    adam.advance(2000, 1.0)
    before = adam.state
    for ts, value in ((2000, 5.0), (500, 5.0), (9000, float("nan")), (9000, float("inf"))):
        assert adam.advance(ts, value) == int(before.period_ms)
    assert adam.state == before


def test_values_that_overflow_do_no_harm() -> None:
    adam = Adam(SETTINGS)
    for ts, value in enumerate([1e308, -1e308, 1e200, 0.0, 1e308]):
        assert 1000 <= adam.advance(ts * 1000, value) <= 10_000


@pytest.mark.parametrize(
    ("shortest", "longest", "confidence"), [(0, 9, 0.9), (5, 4, 0.9), (1, 9, 0.0), (1, 9, 1.0)]
)
def test_settings_reject_bounds_and_confidences_out_of_range(shortest, longest, confidence) -> None:
    with pytest.raises(ValueError, match=r"AdaM: the (minimum period|confidence) must be"):
        Settings(shortest, longest, confidence)


def test_rejected_periods_are_reported_in_milliseconds() -> None:
    with pytest.raises(ValueError, match="a minimum of 5 ms and a maximum of 4 ms"):
        Settings(5, 4, 0.9)
