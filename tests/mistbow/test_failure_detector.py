"""The suspicion of the failure detector, with a clock that the test sets."""

from dataclasses import dataclass
from statistics import fmean

from hypothesis import given
from hypothesis import strategies as st

from mistbow.failure_detector import (
    DEAD_PHI,
    SUSPECTED_PHI,
    FailureDetector,
    Liveness,
    RunningTime,
    phi,
)


@dataclass
class ManualSeconds:
    """A clock (s) that a test sets."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def detector_after(intervals: list[float], clock: ManualSeconds) -> FailureDetector:
    """Return a detector, expecting 1 s, that has received heartbeats at these intervals."""
    detector = FailureDetector(1.0, clock)
    for interval_s in intervals:
        clock.now += interval_s
        detector.record_heartbeat()
    return detector


def silence_until(liveness: Liveness, intervals: list[float]) -> float:
    """Return the silence (s) after which a process with these intervals has a state."""
    clock = ManualSeconds()
    detector = detector_after(intervals, clock)
    while detector.liveness is not liveness:
        clock.now += 0.01
        assert detector.silence_s < 60
    return detector.silence_s


intervals_s = st.lists(st.floats(0.01, 30.0), max_size=300)
silences_s = st.floats(0.0, 1e4)


@given(intervals_s, silences_s, silences_s)
def test_suspicion_grows_with_silence(intervals: list[float], one: float, other: float) -> None:
    clock = ManualSeconds()
    detector = detector_after(intervals, clock)
    last = clock.now
    found = []
    for silence_s in sorted((one, other)):
        clock.now = last + silence_s
        found.append(detector.phi)
    assert 0 <= found[0] <= found[1]


@given(st.floats(0.01, 100.0), st.floats(0.1, 10.0), st.floats(15.0, 25.0), st.floats(0.001, 1.0))
def test_suspicion_is_continuous_in_the_far_tail(
    mean_s: float, deviation_s: float, deviations: float, step: float
) -> None:
    before = phi(mean_s + deviations * deviation_s, mean_s, deviation_s)
    after = phi(mean_s + (deviations + step) * deviation_s, mean_s, deviation_s)
    assert 0 < after - before < 12 * step + 0.01


@given(st.lists(st.floats(0.2, 1.8), min_size=100, max_size=100), st.floats(0.0, 1.0))
def test_less_regular_heartbeats_cause_less_suspicion(
    intervals: list[float], regularity: float
) -> None:
    mean_s = fmean(intervals)
    regular = [mean_s + regularity * (each - mean_s) for each in intervals]
    for liveness in (Liveness.SUSPECTED, Liveness.DEAD):
        assert silence_until(liveness, regular) <= silence_until(liveness, intervals) + 0.011


@given(intervals_s)
def test_minute_of_silence_is_death_whatever_was_before(intervals: list[float]) -> None:
    assert silence_until(Liveness.SUSPECTED, intervals) < 8
    assert silence_until(Liveness.DEAD, intervals) < 21


@given(st.integers(0, 1000))
def test_detector_is_bounded_in_memory(count: int) -> None:
    detector = detector_after([1.0] * count, ManualSeconds())
    assert len(detector._intervals) <= 100


def test_regular_heartbeats_are_suspected_after_2_5_s_and_dead_after_6_7_s() -> None:
    assert round(silence_until(Liveness.SUSPECTED, [1.0] * 50), 1) == 2.5
    assert round(silence_until(Liveness.DEAD, [1.0] * 50), 1) == 6.7
    assert round(silence_until(Liveness.SUSPECTED, []), 1) == 2.5


def test_one_long_pause_hardly_delays_the_next_detection() -> None:
    assert silence_until(Liveness.DEAD, [*[1.0] * 99, 60.0]) < 7


def test_heartbeat_ends_the_suspicion() -> None:
    clock = ManualSeconds()
    detector = detector_after([1.0] * 10, clock)
    clock.now += 30
    assert detector.phi > DEAD_PHI > SUSPECTED_PHI
    detector.record_heartbeat()
    assert detector.liveness is Liveness.ALIVE


def test_silence_during_a_pause_of_the_observer_does_not_count() -> None:
    seconds = ManualSeconds()
    clock = RunningTime(seconds)
    detector = FailureDetector(1.0, clock)
    seconds.now += 60
    assert detector.liveness is Liveness.ALIVE
    for _ in range(60):
        seconds.now += 0.25
        clock()
    assert detector.liveness is Liveness.DEAD
